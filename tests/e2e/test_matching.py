"""What once made the agent take one pod for another, played on a real kubelet."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.e2e.agent import wait_for_allocatable
from tests.e2e.assigned_pods import STAY, VIEW, read_view
from tests.e2e.assigning_agent import SHARES, AssigningAgent, make_agent, write_cards_config
from tests.e2e.cluster.control_plane import ControlPlane
from tests.e2e.cluster.https_client import Json
from tests.e2e.cluster.images import BUSYBOX_IMAGE, busybox_image
from tests.e2e.cluster.node import Node
from tests.e2e.cluster.waiting import wait_until
from tests.e2e.cluster.workloads import Workloads
from tests.integration.identity.storm import CARDS
from tests.integration.identity.world import gas

LATE_IMAGE = "accelet.dev/e2e/late:1"
PODS = "/api/v1/namespaces/default/pods"
BY_FORCE = {"gracePeriodSeconds": 0}
REMADE = "was made anew after a former one of its name had been deleted by force"


@pytest.fixture
def resource(request: pytest.FixtureRequest) -> str:
    """One for each test: what a kubelet once knew of a resource it does not forget."""
    return f"accelet.dev/{request.node.originalname.replace('_', '-')[:40].strip('-')}"


@pytest.fixture
def agent(cluster: ControlPlane, node: Node, tmp_path: Path, resource: str) -> Iterator[AssigningAgent]:
    """Not started yet."""
    agent = make_agent(cluster, node, write_cards_config(tmp_path / "scene.yaml", resource=resource))
    yield agent
    if agent.process.is_running:
        agent.process.terminate()


def pod_on(node: Node, name: str, resource: str, cards: str, tiles: str, **container: object) -> Json:
    """It is bound by hand: what the API server knows of the node's resources comes late, or never."""
    count = str(len(cards.split(",")))
    main = {
        "name": "main",
        "image": BUSYBOX_IMAGE,
        "imagePullPolicy": "Never",
        "command": ["sh", "-c", f"{VIEW}; {STAY}"],
        "resources": {"limits": {resource: count}},
        **container,
    }
    spec = {
        "nodeName": node.name,
        "hostNetwork": True,
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 0,
        "containers": [main],
    }
    metadata = {"name": name, "annotations": gas(cards, tiles)}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def make(workloads: Workloads, pod: Json) -> Json:
    made: Json = json.loads(workloads.client.send("POST", PODS, pod))
    return made


def view(node: Node, workloads: Workloads, name: str) -> tuple[list[str], str | None]:
    """What the pod's container printed of itself, once it runs."""
    pod = workloads.wait_for_phase(name, "Running")
    return wait_until(
        f"{name} has printed its view",
        lambda: read_view(node.container_log(pod, "main")),
        timeout_s=20,
        evidence=lambda: workloads.describe_pod(name),
    )


def wait_until_proven(node: Node, workloads: Workloads, resource: str) -> None:
    """Until it knows the pods that there were at its first registration, the agent refuses newer ones."""
    for number in range(20):
        name = f"probe-{number}"
        make(workloads, pod_on(node, name, resource, "card0", "card0:gt0"))
        phase = workloads.wait_for_pod(name, is_decided, what="is admitted or refused")["status"]["phase"]
        workloads.delete_pod(name)
        if phase == "Running":
            return
    pytest.fail("nobody is proven")


def remove(workloads: Workloads, *names: str) -> None:
    """By force: the kubelet hears of it later."""
    for name in names:
        workloads.client.send("DELETE", f"{PODS}/{name}", BY_FORCE)


@contextmanager
def kubelet_behind(node: Node) -> Iterator[None]:
    """The kubelet does nothing for a while; then it has all to catch up with that happened meanwhile."""
    node.kubelet.process.pause()
    try:
        yield
    finally:
        node.kubelet.process.go_on()


def has_no_image(pod: Json) -> bool:
    """Whether it is past its admission and cannot start yet."""
    statuses = pod["status"].get("containerStatuses", [])
    return any(one["state"].get("waiting", {}).get("reason") == "ErrImageNeverPull" for one in statuses)


def is_unproven(pod: Json) -> bool:
    statuses = pod["status"].get("containerStatuses", [])
    return any("it cannot be told" in one["state"].get("waiting", {}).get("message", "") for one in statuses)


def test_pod_admitted_without_devices_that_waits_for_its_image_is_taken_for_nobody_else(
    agent: AssigningAgent, node: Node, workloads: Workloads, resource: str, tmp_path: Path
) -> None:
    late = pod_on(node, "late", resource, "card1", "card1:gt1", image=LATE_IMAGE)
    make(workloads, late)  # the kubelet does not know the resource, and admits it without
    workloads.wait_for_pod("late", has_no_image, what="waits for its image")
    for start in ("first", "again"):
        agent.process.start()
        agent.wait_until_registered()
        make(workloads, pod_on(node, start, resource, "card0", "card0:gt0"))
        said = workloads.wait_for_phase(start, "Failed")["status"]["message"]
        # Which of the two is asked for is not told either where the pod came before the agent knew the pods.
        assert "default/late" in said
        agent.process.kill()  # what the agent remembers goes with it
    agent.process.start()
    wait_for_allocatable(node, resource, CARDS * SHARES)  # until then the kubelet has room for one such pod
    make(workloads, pod_on(node, "other", resource, "card2,card3", "card2:gt0,card3:gt1"))
    assert view(node, workloads, "other") == (["/dev/dri/card2", "/dev/dri/card3"], "0,3")
    node.containerd.import_image(busybox_image(tmp_path, LATE_IMAGE))
    workloads.wait_for_pod("late", is_unproven, what="is refused devices", timeout_s=150)
    workloads.delete_pod("late")  # not by force: the kubelet might still be starting it
    remove(workloads, "first", "again", "other")
    make(workloads, pod_on(node, "last", resource, "card0", "card0:gt0"))
    assert view(node, workloads, "last") == (["/dev/dri/card0"], "0")
    remove(workloads, "last")


def test_pod_replaced_by_force_is_not_taken_for_whom_the_kubelet_is_admitting(
    agent: AssigningAgent, node: Node, workloads: Workloads, resource: str
) -> None:
    agent.process.start()
    agent.wait_until_registered()
    wait_until_proven(node, workloads, resource)
    without = pod_on(node, "db-0", resource, "card3", "card3:gt1")
    del without["spec"]["containers"][0]["resources"]
    make(workloads, without)
    make(workloads, pod_on(node, "db-1", resource, "card4", "card4:gt0"))
    workloads.wait_for_phase("db-0", "Running")
    assert view(node, workloads, "db-1") == (["/dev/dri/card4"], "0")
    wanted = {
        "before": ("card1", 0),
        "db-0": ("card3", 1),
        "db-1": ("card5", 1),
        "db-2": ("card6", 0),
        "after": ("card2", 1),
    }
    with kubelet_behind(node):
        for name, (card, tile) in wanted.items():
            if name == "db-2":  # the kubelet will admit this one, and only then hear that it is gone
                make(workloads, pod_on(node, name, resource, "card7", "card7:gt1"))
            if name.startswith("db-"):
                remove(workloads, name)
            make(workloads, pod_on(node, name, resource, card, f"{card}:gt{tile}"))
    for name, (card, tile) in wanted.items():
        pod = workloads.wait_for_pod(name, is_decided, what="is admitted or refused")
        if name.startswith("db-") and pod["status"]["phase"] == "Failed":
            assert REMADE in pod["status"]["message"]
        else:
            assert view(node, workloads, name) == ([f"/dev/dri/{card}"], str(tile))
    remove(workloads, *wanted)


def is_decided(pod: Json) -> bool:
    return pod["status"]["phase"] in ("Running", "Failed")


def test_pod_that_says_it_mirrors_another_takes_nothing_from_it(
    agent: AssigningAgent, node: Node, workloads: Workloads, resource: str
) -> None:
    agent.process.start()
    agent.wait_until_registered()
    wait_until_proven(node, workloads, resource)
    doubts = agent.matches().doubts
    owner = {"apiVersion": "v1", "kind": "Node", "name": node.name, "uid": "forged", "controller": True}
    with kubelet_behind(node):
        for number, owners in enumerate(([], [owner])):
            victim = make(workloads, pod_on(node, f"victim-{number}", resource, "card1", "card1:gt1"))
            forged = pod_on(node, f"forged-{number}", resource, "card0", "card0:gt0")
            forged["metadata"]["annotations"]["kubernetes.io/config.mirror"] = victim["metadata"]["uid"]
            forged["metadata"]["ownerReferences"] = owners
            make(workloads, forged)
    for number in range(2):
        assert view(node, workloads, f"victim-{number}") == (["/dev/dri/card1"], "1")
    assert agent.matches().doubts == doubts
    remove(workloads, "victim-0", "victim-1")
