"""The shipped installation runs; doctor finds nothing wrong with it, and then each planted fault."""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from accelet.cli import main
from tests.e2e.agent import wait_for_allocatable
from tests.e2e.agent_pod import container_id
from tests.e2e.assigning_agent import GPU, SHARES, write_cards_config
from tests.e2e.cluster.binaries import Binaries
from tests.e2e.cluster.containerd import SOCKET
from tests.e2e.cluster.control_plane import ControlPlane
from tests.e2e.cluster.node import Node
from tests.e2e.cluster.python_image import python_image
from tests.e2e.cluster.waiting import wait_until
from tests.e2e.cluster.workloads import COLLECTIONS, Workloads
from tests.e2e.kustomize import DEPLOY, build
from tests.e2e.policies import FOLDER, policies_in_force
from tests.integration.identity.storm import CARDS

Json = dict[str, Any]
Wrong = Mapping[tuple[str, str], str]
"""What is wrong, by check and what it is about: the reason."""

pytestmark = pytest.mark.timeout(1200)  # the image may have to be made

CONFIG_MAPS = "/api/v1/namespaces/kube-system/configmaps"
DEPLOYMENT = f"{COLLECTIONS['Deployment'].format(namespace='kube-system')}/accelet-scheduler"
BINDINGS = COLLECTIONS["ValidatingAdmissionPolicyBinding"]
POLICIES = COLLECTIONS["ValidatingAdmissionPolicy"]
ROLE_BINDINGS = COLLECTIONS["ClusterRoleBinding"]
NODES = "/api/v1/nodes"
PODS = "/api/v1/namespaces/default/pods"
IN_THE_POD = (
    "import json, subprocess; "
    "done = subprocess.run(['accelet', 'doctor', '--json'], capture_output=True, text=True); "
    "print(json.dumps([done.returncode, done.stdout]))"
)


class Installation:
    """All of deploy/ on one node. Only the ways to the API server and the cards are the test's own."""

    def __init__(self, cluster: ControlPlane, node: Node, binaries: Binaries, folder: Path) -> None:
        self.cluster, self.node, self.workloads = cluster, node, cluster.workloads
        self._ctr = binaries.path("ctr")
        self.config = write_cards_config(folder / "config.yaml").read_text() + "publish_cards: true\n"
        self.manifests = [
            self._fit(each)
            for each in build(DEPLOY, binaries.path("kubectl"))
            if (each["kind"], each["metadata"]["name"]) not in own_policies()
            and each["kind"] != "NetworkPolicy"
        ]
        self.image = next(
            each["spec"]["template"]["spec"]["containers"][0]["image"]
            for each in self.manifests
            if each["kind"] == "DaemonSet"
        )

    def _fit(self, manifest: Json) -> Json:
        if manifest["kind"] == "ConfigMap" and manifest["metadata"]["name"] == "accelet-agent":
            return {**manifest, "data": {"config.yaml": self.config}}
        if manifest["kind"] in ("DaemonSet", "Deployment"):
            pod = manifest["spec"]["template"]["spec"]
            pod["hostNetwork"] = True
            pod["containers"][0].setdefault("env", []).extend(
                [
                    {"name": "KUBERNETES_SERVICE_HOST", "value": "127.0.0.1"},
                    {"name": "KUBERNETES_SERVICE_PORT", "value": str(self.cluster.port)},
                ]
            )
        if manifest["kind"] == "Deployment":
            manifest["spec"]["replicas"] = 1  # on one node's ports there is no room for two
        return manifest

    @contextmanager
    def running(self, folder: Path) -> Iterator[None]:
        archive = python_image(f"docker.io/library/{self.image}", folder / "agent.tar")
        self.node.containerd.import_image(archive)
        with policies_in_force(self.workloads), self.workloads.applied(self.manifests):
            wait_for_allocatable(self.node, GPU, CARDS * SHARES, timeout_s=90)
            wait_until(
                "scheduler and agent are ready", self._are_ready, timeout_s=90, evidence=self._describe
            )
            yield
        wait_until("scheduler and agent are gone", lambda: not self._pods(), timeout_s=60)

    def on_cluster(self) -> tuple[int, Wrong]:
        """The exit code, and what is wrong."""
        words = ["doctor", "--look-at", "cluster", "--json", "--kubeconfig", str(self.cluster.kubeconfig)]
        done = CliRunner().invoke(main, words)
        return done.exit_code, read_wrong(done.output)

    def on_node(self) -> tuple[int, Wrong]:
        """Likewise, in the agent's pod and restricted as it is."""
        (pod,) = self._pods("agent")
        words = ["tasks", "exec", "--exec-id", "doctor", container_id(pod), "python3", "-c", IN_THE_POD]
        said = self.node.run([self._ctr, f"--address={SOCKET}", "--namespace=k8s.io", *words])
        code, output = json.loads(said.splitlines()[-1])
        return code, read_wrong(output)

    def _pods(self, component: str = "") -> list[Json]:
        selector = "app.kubernetes.io/part-of=accelet"
        selector += f",app.kubernetes.io/component={component}" if component else ""
        path = f"/api/v1/namespaces/kube-system/pods?labelSelector={selector}"
        items: list[Json] = json.loads(self.workloads.client.send("GET", path))["items"]
        return items

    def _are_ready(self) -> bool:
        ready = [
            condition["status"]
            for pod in self._pods()
            for condition in pod["status"].get("conditions", [])
            if condition["type"] == "Ready"
        ]
        return ready == ["True", "True"]

    def _describe(self) -> str:
        names = [pod["metadata"]["name"] for pod in self._pods()]
        return "\n".join(self.workloads.describe_pod(name, "kube-system") for name in names)


def own_policies() -> set[tuple[str, str]]:
    """What `policies_in_force` brings: one folder of deploy/."""
    files = (path for path in FOLDER.glob("*.yaml") if path.name != "kustomization.yaml")
    made = (each for path in files for each in yaml.safe_load_all(path.read_text()))
    return {(each["kind"], each["metadata"]["name"]) for each in made}


def read_wrong(output: str) -> Wrong:
    return {
        (verdict["check"], finding["about"]): finding["reason"]
        for one in json.loads(output)["examined"]
        for verdict in one["verdicts"]
        for finding in verdict["findings"]
        if finding["level"] == "wrong"
    }


@contextmanager
def removed(workloads: Workloads, path: str) -> Iterator[None]:
    before = json.loads(workloads.client.send("GET", path))
    workloads.client.send("DELETE", path)
    yield
    kept = {key: before["metadata"][key] for key in ("name", "labels") if key in before["metadata"]}
    before.pop("status", None)
    workloads.client.send("POST", path.rpartition("/")[0], {**before, "metadata": kept})


@contextmanager
def changed(workloads: Workloads, path: str, change: Json, back: Json) -> Iterator[None]:
    workloads.client.send("PATCH", path, change)
    yield
    workloads.client.send("PATCH", path, back)


@contextmanager
def waiting_pod(workloads: Workloads, asks: str = "", **spec: object) -> Iterator[None]:
    limits = {asks: "1"} if asks else {}
    container = {
        "name": "main",
        "image": "nowhere.invalid/intel-gpu-plugin:1",
        "resources": {"limits": limits},
    }
    pod = {"metadata": {"name": "faulty"}, "spec": {"containers": [container], **spec}}
    workloads.client.send("POST", PODS, pod)
    yield
    workloads.client.send("DELETE", f"{PODS}/faulty", {"gracePeriodSeconds": 0})


@contextmanager
def tainted(workloads: Workloads, node: str) -> Iterator[None]:
    taint = {"spec": {"taints": [{"key": "example.com/ours", "effect": "NoSchedule"}]}}
    with (
        changed(workloads, f"{NODES}/{node}", taint, {"spec": {"taints": None}}),
        waiting_pod(workloads, GPU),
    ):
        yield


@contextmanager
def without(path: Path) -> Iterator[None]:
    aside = path.with_name(f".{path.name}.aside")
    path.rename(aside)
    yield
    aside.rename(path)


@contextmanager
def damaged(path: Path) -> Iterator[None]:
    before = path.read_bytes()
    path.write_bytes(before[: len(before) // 2])
    yield
    path.write_bytes(before)


@pytest.fixture(scope="module")
def installation(
    cluster: ControlPlane, node: Node, binaries: Binaries, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Installation]:
    folder = tmp_path_factory.mktemp("doctor")
    installation = Installation(cluster, node, binaries, folder)
    with installation.running(folder):
        yield installation


def test_doctor_finds_nothing_wrong_and_then_each_fault(installation: Installation) -> None:
    def is_sound() -> bool:
        return (installation.on_cluster(), installation.on_node()) == ((0, {}), (0, {}))

    # What is left by other tests, a pod that is about to go or a node that was unready, goes by itself.
    wait_until("nothing is wrong", is_sound, timeout_s=60, evidence=lambda: str(installation.on_cluster()))
    for (check, about), (plant, look) in faults(installation).items():

        def is_found(check: str = check, about: str = about, look: Look = look) -> bool:
            code, wrong = look()
            return code == 1 and (check, about) in wrong and {name for name, _ in wrong} == {check}

        with plant:
            wait_until(f"{check} {about} is found", is_found, timeout_s=30, evidence=lambda: str(look()))  # noqa: B023
    wait_until(
        "nothing is wrong again", is_sound, timeout_s=60, evidence=lambda: str(installation.on_cluster())
    )


Look = Callable[[], tuple[int, Wrong]]


def faults(made: Installation) -> Mapping[tuple[str, str], tuple[AbstractContextManager[None], Look]]:
    """By what is found: how it is planted, and where it is looked for."""
    workloads, node, cluster = made.workloads, made.node.name, made.on_cluster
    kubelet = made.node.path("/var/lib/kubelet")
    checkpoint = "device-plugins/kubelet_internal_checkpoint"
    audit, deny = ({"spec": {"validationActions": [action]}} for action in ("Audit", "Deny"))
    ignore, fail = ({"spec": {"failurePolicy": policy}} for policy in ("Ignore", "Fail"))
    none, one = ({"spec": {"replicas": count}} for count in (0, 1))
    lacking = "patch nodes, patch nodes/status"
    wrong, right = ({"data": {"config.yaml": text}} for text in ("version: v1\nresource: []\n", made.config))
    cards = f"{ROLE_BINDINGS}/accelet-agent-cards"
    return {
        ("policies", "accelet-scheduler-jobs"): (
            removed(workloads, f"{BINDINGS}/accelet-scheduler-jobs"), cluster,
        ),
        ("policies", "accelet-scheduler-plans"): (
            changed(workloads, f"{BINDINGS}/accelet-scheduler-plans", audit, deny), cluster,
        ),
        ("policies", "accelet-scheduler"): (
            changed(workloads, f"{POLICIES}/accelet-scheduler", ignore, fail), cluster,
        ),
        ("policies", "accelet-agent-cards"): (removed(workloads, f"{POLICIES}/accelet-agent-cards"), cluster),
        ("rights", f"kube-system:accelet-agent: {lacking}"): (removed(workloads, cards), cluster),
        ("rights", lacking): (removed(workloads, cards), made.on_node),
        ("configuration", "ConfigMap kube-system/accelet-agent"): (
            changed(workloads, f"{CONFIG_MAPS}/accelet-agent", wrong, right), cluster,
        ),
        ("resource-names", "gpu.intel.com/i951"): (waiting_pod(workloads, "gpu.intel.com/i951"), cluster),
        ("taints", "default/faulty"): (tainted(workloads, node), cluster),
        ("one-plugin", node): (waiting_pod(workloads, nodeName=node), cluster),
        ("checkpoint", f"/var/lib/kubelet/{checkpoint}"): (damaged(kubelet / checkpoint), made.on_node),
        ("podresources", "podresources"): (without(kubelet / "pod-resources" / "kubelet.sock"), made.on_node),
        ("installed", "Deployment kube-system/accelet-scheduler"): (
            changed(workloads, DEPLOYMENT, none, one), cluster,
        ),
    }  # fmt: skip
