"""A tenant's gangs cost so much to plan that no time is left for others."""

from collections.abc import Iterator, Sequence
from random import Random

import pytest

from accelet.scheduler.gangs.grouping import GATE_PREFIX
from tests.e2e.cluster.control_plane import ControlPlane
from tests.e2e.cluster.https_client import Json
from tests.e2e.simulated_nodes import card_nodes
from tests.e2e.tenants.conftest import two_tile_cards
from tests.e2e.tenants.installation import SchedulerProcess, Tenant, pod, tile_pod, wait_until_placed

COUNT, MILLICORES = 21, 8_000
WANTED = "tenants-wanted"


@pytest.fixture
def wanted(control_plane: ControlPlane) -> Iterator[None]:
    """The nodes that her gangs want."""
    names = [f"{WANTED}-{number}" for number in range(COUNT)]
    with card_nodes(control_plane.client, dict.fromkeys(names, two_tile_cards(1))):
        for name in names:
            labelled = {"metadata": {"labels": {WANTED: "y"}}}
            control_plane.client.send("PATCH", f"/api/v1/nodes/{name}", labelled)
        yield


def unlike_pods(gang: str, random: Random) -> Sequence[Json]:
    """64 pods, three a node, which they would fill to the last millicore if they fitted."""
    sizes = [random.randrange(2_000, 3_250) for _ in range(63)]
    sizes.append(min(5_000, max(100, COUNT * MILLICORES - sum(sizes))))
    bodies = [
        pod(f"{gang}-{rank}", {"cpu": f"{size}m"}, labels={"job-name": gang})
        for rank, size in enumerate(sizes)
    ]
    for body in bodies:
        body["spec"] |= {"schedulingGates": [{"name": f"{GATE_PREFIX}{gang}"}], "nodeSelector": {WANTED: "y"}}
    return bodies


@pytest.mark.usefixtures("wanted")
def test_gangs_of_unlike_pods_that_never_fit_keep_nobody_waiting(
    mallory: Tenant, alice: Tenant, scheduler: SchedulerProcess
) -> None:
    random = Random(12)
    for number in range(3):
        for body in unlike_pods(f"greedy{number}", random):
            mallory.make("Pod", body)
        alice.make("Pod", tile_pod(f"modest-{number}"))
        wait_until_placed(alice, f"modest-{number}")
    scheduler.restart()
    alice.make("Pod", tile_pod("late"))
    wait_until_placed(alice, "late")
    assert scheduler.is_running
    assert scheduler.faults() == []
