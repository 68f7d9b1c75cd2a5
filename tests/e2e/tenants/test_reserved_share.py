"""A tenant's gangs want every node, one after the other, so that all are kept free for her all the time."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from urllib.request import urlopen

import pytest
import yaml

from accelet.scheduler.gangs.grouping import GATE_PREFIX
from tests.e2e.cluster.control_plane import ControlPlane
from tests.e2e.cluster.https_client import Json
from tests.e2e.cluster.waiting import wait_until
from tests.e2e.simulated_nodes import card_nodes
from tests.e2e.tenants.conftest import two_tile_cards
from tests.e2e.tenants.installation import (
    SchedulerProcess,
    Tenant,
    pinned_node,
    pod,
    scheduler_kubeconfig,
    wait_until_placed,
)
from tests.free_ports import LOOPBACK, free_port

WANTED = "tenants-kept"
NODES = [f"{WANTED}-{number}" for number in range(3)]
GANGS = 4
STARVING_AFTER_S, RESERVED_FOR_S = 5, 25
_KEPT = "accelet_scheduler_reserved_nodes "
LEEWAY_S = 20.0
"""For rounds of a scheduler on a busy machine; less than one more reservation would take."""


@pytest.fixture
def nodes(control_plane: ControlPlane) -> Iterator[None]:
    with card_nodes(control_plane.client, dict.fromkeys(NODES, two_tile_cards(1))):
        for name in NODES:
            labelled = {"metadata": {"labels": {WANTED: "y"}}}
            control_plane.client.send("PATCH", f"/api/v1/nodes/{name}", labelled)
        yield


@pytest.fixture
def address() -> str:
    return f"{LOOPBACK}:{free_port()}"


def kept_nodes(address: str) -> int:
    """How many nodes the scheduler keeps free for somebody; -1 while it does not answer."""
    try:
        with urlopen(f"http://{address}/metrics", timeout=5) as answer:
            lines = answer.read().decode().splitlines()
    except OSError:
        return -1
    return next((int(float(line.split()[1])) for line in lines if line.startswith(_KEPT)), -1)


@pytest.fixture
def impatient(
    control_plane: ControlPlane,
    manifests: Sequence[Json],
    scheduler: SchedulerProcess,
    address: str,
    tmp_path: Path,
) -> Iterator[SchedulerProcess]:
    """The scheduler with what is shipped, except that its minutes are seconds."""
    scheduler.stop()
    (shipped,) = (
        each["data"]["config.yaml"]
        for each in manifests
        if (each["kind"], each["metadata"]["name"]) == ("ConfigMap", "accelet-scheduler")
    )
    settings = {
        **yaml.safe_load(shipped),
        "starving_after_s": STARVING_AFTER_S,
        "reserved_for_s": RESERVED_FOR_S,
    }
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(settings))
    kubeconfig = scheduler_kubeconfig(control_plane, tmp_path / "kubeconfig")
    process = SchedulerProcess(
        kubeconfig, tmp_path / "config.yaml", tmp_path / "log", ("scheduler", "--http", address)
    )
    process.start()
    yield process
    process.stop()
    scheduler.start()


def whole_node(name: str, gang: str = "") -> Json:
    """A pod that takes a node whole, and ends."""
    labels = {"labels": {"job-name": gang}} if gang else {}
    body = pod(name, {"cpu": "8"}, **labels)
    body["spec"] |= {"restartPolicy": "Never", "nodeSelector": {WANTED: "y"}}
    if gang:
        body["spec"]["schedulingGates"] = [{"name": f"{GATE_PREFIX}{gang}"}]
    return body


@pytest.mark.usefixtures("nodes")
def test_gangs_that_want_every_node_have_them_kept_for_half_of_the_time_at_most(
    mallory: Tenant, alice: Tenant, impatient: SchedulerProcess, address: str
) -> None:
    for name in NODES:
        runs = whole_node(f"runs-on-{name}")
        runs["spec"]["nodeName"] = name
        alice.make("Pod", runs)
    for number in range(GANGS):
        for rank in range(len(NODES)):
            mallory.make("Pod", whole_node(f"greedy{number}-{rank}", f"greedy{number}"))
    wait_until(
        "all nodes are kept for her",
        lambda: kept_nodes(address) == len(NODES),
        timeout_s=STARVING_AFTER_S + LEEWAY_S,
    )
    alice.make("Pod", whole_node("modest", "modest"))
    alice.client.send("DELETE", alice.path("Pod", f"runs-on-{NODES[0]}"), {"gracePeriodSeconds": 0})
    placed = wait_until_placed(alice, "modest", RESERVED_FOR_S + LEEWAY_S)
    assert pinned_node(placed) == NODES[0]
    assert impatient.is_running
    assert impatient.faults() == []
