"""deploy/chart on a real cluster, from the shipped image: installed, upgraded, rolled back, removed."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

import accelet
from tests.e2e.cluster.binaries import Binaries
from tests.e2e.cluster.control_plane import ControlPlane
from tests.e2e.cluster.https_client import Json, RefusedError
from tests.e2e.cluster.node import Node
from tests.e2e.cluster.python_image import python_image
from tests.e2e.cluster.waiting import wait_until
from tests.e2e.cluster.workloads import COLLECTIONS, Workloads
from tests.e2e.helm import CHART, Helm, HelmRefusedError, Values

pytestmark = pytest.mark.timeout(600)

SYSTEM = "kube-system"
GATE, OTHER_GATE = "accelet.dev/cards", "example.com/other"
PATIENCE = ("--wait", "--timeout", "120s")


@pytest.fixture(scope="module")
def image(node: Node, tmp_path_factory: pytest.TempPathFactory) -> None:
    name = f"docker.io/library/accelet:{accelet.__version__}"
    node.containerd.import_image(python_image(name, tmp_path_factory.mktemp("image") / "accelet.tar"))


@pytest.fixture
def helm(
    helm_binaries: Binaries, cluster: ControlPlane, workloads: Workloads, image: None, tmp_path: Path
) -> Iterator[Helm]:
    """helm with nothing installed, and afterwards nothing again, whatever a test came to."""
    helm = Helm(helm_binaries.path("helm"), tmp_path, cluster.kubeconfig)
    yield helm
    for name in ("waits", "others"):
        if workloads.client.try_get(pod_path(name)):
            workloads.client.send("DELETE", pod_path(name), {"gracePeriodSeconds": 0})
    if json.loads(helm.run(["list", "--namespace", SYSTEM, "--output", "json"])):
        helm.run(["uninstall", "accelet", "--namespace", SYSTEM, "--no-hooks", *PATIENCE])
    job = f"{COLLECTIONS['Job'].format(namespace=SYSTEM)}/accelet-uninstall"
    if workloads.client.try_get(job):
        workloads.client.send("DELETE", job, {"propagationPolicy": "Background"})


@pytest.fixture
def reaches(cluster: ControlPlane) -> Any:
    """How a pod of this cluster gets to its API server: there is no kube-proxy."""
    address = urlsplit(cluster.url)
    env = [
        {"name": "KUBERNETES_SERVICE_HOST", "value": address.hostname},
        {"name": "KUBERNETES_SERVICE_PORT", "value": str(address.port)},
    ]
    return lambda name: {"hostNetwork": True, "containers": [{"name": name, "env": env}]}


def moved(scheduler: Values) -> Values:
    """With another port: on the host's network the old pod's is taken while the new one starts."""
    (container,) = scheduler["patch"]["containers"]
    ports = [{"name": "http", "containerPort": 9411}]
    args = ["scheduler", "--config=/etc/accelet/config.yaml", "--http=:9411"]
    patched = {**container, "ports": ports, "args": args}
    return {**scheduler, "patch": {**scheduler["patch"], "containers": [patched]}}


def pod_path(name: str) -> str:
    return f"/api/v1/namespaces/default/pods/{name}"


def asking_pod(name: str, *gates: str) -> Json:
    limits = {"gpu.intel.com/tiles": "1"}
    containers = [{"name": "main", "image": "busybox", "resources": {"limits": limits}}]
    spec = {"schedulingGates": [{"name": gate} for gate in gates], "containers": containers}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default"},
        "spec": spec,
    }


def gates(workloads: Workloads, name: str) -> list[str]:
    return [gate["name"] for gate in workloads.pod(name)["spec"].get("schedulingGates", [])]


def wait_until_gating(workloads: Workloads) -> None:
    """The policies are in force a second or so after they were made."""

    def is_gated() -> bool:
        path = "/api/v1/namespaces/default/pods?dryRun=All"
        try:
            seen = json.loads(workloads.client.send("POST", path, asking_pod("tried")))
        except RefusedError:
            return False  # one policy asks already for what the other does not give yet
        return {"name": GATE} in seen["spec"].get("schedulingGates", [])

    wait_until("pods that ask for tiles are gated", is_gated, timeout_s=30)


def settings_of_scheduler(workloads: Workloads) -> str:
    path = f"{COLLECTIONS['ConfigMap'].format(namespace=SYSTEM)}/accelet-scheduler"
    text: str = json.loads(workloads.client.send("GET", path))["data"]["config.yaml"]
    return text


def log_of_uninstall(workloads: Workloads) -> str:
    path = (
        f"{COLLECTIONS['Pod'].format(namespace=SYSTEM)}?labelSelector=app.kubernetes.io/component=uninstall"
    )
    pods = json.loads(workloads.client.send("GET", path))["items"]
    newest = max(pods, key=lambda pod: str(pod["metadata"]["creationTimestamp"]))
    return workloads.log(newest["metadata"]["name"], namespace=SYSTEM)


def left(workloads: Workloads, manifests: Sequence[Json]) -> list[str]:
    """Which of these objects are still there."""
    paths = (
        f"{COLLECTIONS[each['kind']].format(namespace=each['metadata'].get('namespace'))}/{each['metadata']['name']}"
        for each in manifests
    )
    return [path for path in paths if workloads.client.try_get(path)]


def test_it_goes_through_its_life_and_no_pod_is_left_at_the_gate(
    helm: Helm, workloads: Workloads, reaches: Any
) -> None:
    values: Values = {
        # It serves nothing, so that nothing of it stays on the Node that other tests use.
        "agent": {"config": {"version": "v1", "resources": []}, "patch": reaches("agent")},
        "scheduler": {"replicas": 1, "patch": reaches("scheduler")},
        "uninstall": {"patch": reaches("gated")},
    }
    release = ["accelet", str(CHART), "--namespace", SYSTEM]
    helm.run(["install", *release, *PATIENCE], values)
    wait_until_gating(workloads)
    workloads.apply(asking_pod("waits"))
    assert gates(workloads, "waits") == [GATE]
    before = settings_of_scheduler(workloads)

    changed = {
        **values,
        "scheduler": {**moved(values["scheduler"]), "config": {"version": "v1", "quiet_s": 2}},
    }
    helm.run(["upgrade", *release, *PATIENCE], changed)
    assert "quiet_s: 2" in settings_of_scheduler(workloads) != before
    helm.run(["rollback", "accelet", "1", "--namespace", SYSTEM, *PATIENCE])
    assert settings_of_scheduler(workloads) == before
    assert gates(workloads, "waits") == [GATE]

    with pytest.raises(HelmRefusedError):
        helm.run(["uninstall", "accelet", "--namespace", SYSTEM, *PATIENCE])
    assert "waits" in log_of_uninstall(workloads)
    assert gates(workloads, "waits") == [GATE]
    everything = helm.template(values)
    gating = f"{COLLECTIONS['MutatingAdmissionPolicyBinding']}/accelet-gate"
    gone = {
        each["metadata"]["name"] for each in everything if each["kind"] == "MutatingAdmissionPolicyBinding"
    }
    assert "accelet-gate" in gone
    assert workloads.client.try_get(gating) is None
    # The policy that a pod must have the gate still holds: nothing is placed past the scheduler.
    with pytest.raises(RefusedError, match="accelet-requests"):
        workloads.apply(asking_pod("others"))

    workloads.client.send("DELETE", pod_path("waits"), {"gracePeriodSeconds": 0})
    helm.run(["uninstall", "accelet", "--namespace", SYSTEM, *PATIENCE])
    assert "No pod is gated." in log_of_uninstall(workloads)
    assert left(workloads, everything) == []


OWN = "accelet-system"


def test_it_works_in_a_namespace_of_its_own(helm: Helm, workloads: Workloads, reaches: Any) -> None:
    values: Values = {
        "trustedNamespace": OWN,
        "agent": {"config": {"version": "v1", "resources": []}, "patch": reaches("agent")},
        "scheduler": {"replicas": 1, "patch": reaches("scheduler")},
        "uninstall": {"patch": reaches("gated")},
    }
    release = ["accelet", str(CHART), "--namespace", OWN, "--create-namespace"]
    try:
        helm.run(["install", *release, *PATIENCE], values)
        wait_until_gating(workloads)
        workloads.apply(asking_pod("waits"))
        lease = f"/apis/coordination.k8s.io/v1/namespaces/{OWN}/leases/accelet-scheduler"
        wait_until(
            "the scheduler leads, and so has seen its policies in force",
            lambda: (workloads.client.try_get(lease) or "").find('"holderIdentity"') > 0,
            timeout_s=60,
        )
        wait_until(
            "the scheduler says why the pod waits",
            lambda: any(each["reason"] == "Waiting" for each in workloads.events("waits")),
            timeout_s=60,
        )
        workloads.client.send("DELETE", pod_path("waits"), {"gracePeriodSeconds": 0})
    finally:
        helm.run(["uninstall", "accelet", "--namespace", OWN, *PATIENCE])
    assert left(workloads, helm.template(values, namespace=OWN)) == []


def test_gates_are_lifted_where_that_is_wanted_and_those_of_others_stay(
    helm: Helm, workloads: Workloads, reaches: Any
) -> None:
    values: Values = {
        "agent": {"enabled": False},
        "scheduler": {"enabled": False},
        "uninstall": {"gatedPods": "lift", "patch": reaches("gated")},
    }
    helm.run(["install", "accelet", str(CHART), "--namespace", SYSTEM, *PATIENCE], values)
    wait_until_gating(workloads)
    workloads.apply(asking_pod("waits"))
    workloads.apply(asking_pod("others", OTHER_GATE))
    assert set(gates(workloads, "others")) == {GATE, OTHER_GATE}

    helm.run(["uninstall", "accelet", "--namespace", SYSTEM, *PATIENCE])

    assert gates(workloads, "waits") == []
    assert gates(workloads, "others") == [OTHER_GATE]
    told = log_of_uninstall(workloads)
    assert "waits" in told
    assert "released" in told
    assert left(workloads, helm.template(values)) == []
