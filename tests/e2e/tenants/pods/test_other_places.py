"""Attacks from where no tenant is: a node that somebody has taken over, a time before the policies."""

import json
from collections.abc import Iterator

import pytest

from accelet.assignments.nodecards import NODE_CARDS_ANNOTATION
from accelet.assignments.ownform import ASSIGNMENT_ANNOTATION
from tests.e2e.cluster.control_plane import ControlPlane
from tests.e2e.policies import assignments_out_of_force
from tests.e2e.simulated_nodes import card_nodes
from tests.e2e.tenants.conftest import two_tile_cards
from tests.e2e.tenants.installation import CARD, TILES, Tenant, assigned_tiles, tile_pod, wait_until_placed
from tests.e2e.tenants.pods.processes import RunningProcess
from tests.e2e.tenants.test_absurd_values import DIGITS

pytestmark = pytest.mark.thorough

BOTH = json.dumps({"version": 1, "containers": {"main": {CARD: [{"unit": "0000-01-00.0", "tiles": [0, 1]}]}}})


@pytest.fixture
def absurd_node(control_plane: ControlPlane) -> Iterator[None]:
    """Whoever has taken a node over might write it so."""
    client, name = control_plane.client, "tenants-absurd"
    amounts = {"x.y/z": DIGITS, "ephemeral-storage": "1e10001", TILES: DIGITS}
    with card_nodes(client, {name: two_tile_cards(1)}):
        status = {"status": {"capacity": amounts, "allocatable": amounts}}
        client.send("PATCH", f"/api/v1/nodes/{name}/status", status)
        said = {"annotations": {NODE_CARDS_ANNOTATION: "[" * 200_000, "gas-allow": DIGITS}}
        client.send("PATCH", f"/api/v1/nodes/{name}", {"metadata": said})
        yield


@pytest.mark.usefixtures("absurd_node")
def test_node_that_says_absurd_things_harms_nobody(alice: Tenant, scheduler: RunningProcess) -> None:
    """Neither when it comes by a watch nor when it is there already."""
    alice.make("Pod", tile_pod("before"))
    wait_until_placed(alice, "before")
    scheduler.restart()
    alice.make("Pod", tile_pod("after"))
    wait_until_placed(alice, "after")
    assert scheduler.is_running
    assert scheduler.faults() == []
    assert scheduler.longest_line < 5_000


def test_assignment_from_before_the_policy_is_not_believed_of_a_pod_that_waits(
    mallory: Tenant, scheduler: RunningProcess, control_plane: ControlPlane
) -> None:
    scheduler.stop()
    with assignments_out_of_force(control_plane.workloads):
        mallory.make("Pod", tile_pod("greedy", annotations={ASSIGNMENT_ANNOTATION: BOTH}))
    scheduler.start()
    seen = wait_until_placed(mallory, "greedy")
    assert len(assigned_tiles(seen)) == 1
    assert seen["metadata"]["annotations"][ASSIGNMENT_ANNOTATION] != BOTH
