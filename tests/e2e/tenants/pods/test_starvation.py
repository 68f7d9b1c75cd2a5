"""A tenant's gangs cost so much to plan, and her pods have so many names, that nothing is left for others."""

from collections.abc import Callable, Iterator, Sequence
from random import Random

import pytest

from accelet.scheduler.gangs.grouping import GATE_PREFIX
from tests.e2e.cluster.control_plane import ControlPlane
from tests.e2e.cluster.https_client import Json
from tests.e2e.simulated_nodes import card_nodes
from tests.e2e.tenants.conftest import two_tile_cards
from tests.e2e.tenants.installation import Tenant, pod, tile_pod, wait_until_placed
from tests.e2e.tenants.pods.processes import RunningProcess

pytestmark = pytest.mark.thorough

Say = Callable[[str], None]
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
    mallory: Tenant, alice: Tenant, scheduler: RunningProcess
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


def test_names_without_end_are_not_kept_for_good(
    mallory: Tenant, alice: Tenant, scheduler: RunningProcess, say: Say
) -> None:
    """Of resources that no node offers, and of nodes that there are not."""
    alice.make("Pod", tile_pod("before"))
    wait_until_placed(alice, "before")
    before_mib = scheduler.used_mib()
    for number in range(5):
        body = pod(f"wide-{number}", {f"x.y/{number}-{index}": "1" for index in range(6_000)})
        body["spec"]["nodeName"] = f"nowhere-{number}"
        mallory.make("Pod", body)
    alice.make("Pod", tile_pod("after"))
    wait_until_placed(alice, "after")
    grown_mib = scheduler.used_mib() - before_mib
    say(f"\nfive pods of 6,000 names each cost the scheduler {grown_mib:.0f} MiB")
    assert grown_mib < 150, "five pods once took 820 MiB"
    assert scheduler.is_running
