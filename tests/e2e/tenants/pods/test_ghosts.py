"""A tenant deletes a pod by force that was given 285 years to end, on a node that is away."""

import json
import urllib.error
import urllib.request
from collections.abc import Sequence

import pytest

from tests.e2e.cluster.control_plane import ControlPlane
from tests.e2e.cluster.waiting import wait_until
from tests.e2e.simulated_nodes import card_nodes
from tests.e2e.tenants.conftest import two_tile_cards
from tests.e2e.tenants.installation import Tenant, assigned_tiles, tile_pod, wait_until_placed
from tests.e2e.tenants.pods.processes import RunningProcess

pytestmark = pytest.mark.thorough

AWAY = "tenants-away"


def ready(control_plane: ControlPlane, status: str) -> None:
    """What the Node says of itself, or the node controller of a node that is silent."""
    path = f"/api/v1/nodes/{AWAY}"
    condition = {"type": "Ready", "status": status, "reason": "Simulated"}
    control_plane.client.send("PATCH", f"{path}/status", {"status": {"conditions": [condition]}})
    change = {"metadata": {"labels": {AWAY: "y"}}, "spec": {"taints": None}}
    control_plane.client.send("PATCH", path, change)


def holders(scheduler: RunningProcess) -> Sequence[tuple[str, bool]]:
    """Who holds tiles of the node, as `accelet cards` shows them in the scheduler's pod."""
    # What it says on stderr stands before or after.
    said = scheduler.run_inside("accelet", "cards", "--json")
    nodes = json.JSONDecoder().raw_decode(said, said.index("{\n"))[0]["nodes"]
    cards = [card for node in nodes if node["name"] == AWAY for card in node["cards"]]
    return [(one["container"], one["is_lingering"]) for card in cards for one in card["holders"]]


def told(address: str) -> str:
    """What the scheduler tells of pods that linger."""
    with urllib.request.urlopen(f"http://{address}:9401/lingering", timeout=10) as answer:
        text: str = answer.read().decode()
    return text


def hers(name: str) -> dict[str, object]:
    body = tile_pod(name, tiles=2)
    body["spec"] |= {"nodeSelector": {AWAY: "y"}, "terminationGracePeriodSeconds": 9_000_000_000}
    return body


@pytest.mark.timeout(300)
def test_ghost_is_shown_and_kept_until_its_node_is_gone(
    control_plane: ControlPlane, mallory: Tenant, alice: Tenant, scheduler: RunningProcess
) -> None:
    client, ghost = control_plane.client, f"{mallory.namespace}/ghost/main"
    with card_nodes(client, {AWAY: two_tile_cards(1)}):
        ready(control_plane, "True")
        mallory.make("Pod", hers("ghost"))
        wait_until_placed(mallory, "ghost")
        path = mallory.path("Pod", "ghost")
        wait_until("it is bound", lambda: mallory.see("Pod", "ghost")["spec"].get("nodeName"), timeout_s=30)
        state = {"name": "main", "image": "none", "imageID": "", "ready": True, "restartCount": 0}
        running = {**state, "state": {"running": {}}}
        client.send(
            "PATCH", f"{path}/status", {"status": {"phase": "Running", "containerStatuses": [running]}}
        )
        ready(control_plane, "Unknown")
        mallory.client.send("DELETE", path)
        mallory.client.send("DELETE", path, {"gracePeriodSeconds": 0})
        wait_until("it lingers", lambda: (ghost, True) in holders(scheduler), timeout_s=30)
        ready(control_plane, "True")
        alice.make("Pod", hers("victim"))
        wait_until(
            "she is told what there is too little of",
            lambda: any("with 2 free tiles" in text for _, text in alice.events("victim")),
            timeout_s=30,
            evidence=lambda: str(alice.events("victim")),
        )
        wait_until("it lingers still", lambda: (ghost, True) in holders(scheduler), timeout_s=30)
    # A Node that is made again before would be waited for: whose devices are in use its agent tells.
    wait_until("it lingers no more", lambda: "ghost" not in told("127.0.0.1"), timeout_s=30)
    with card_nodes(client, {AWAY: two_tile_cards(1)}):
        ready(control_plane, "True")
        assert len(assigned_tiles(wait_until_placed(alice, "victim"))) == 2
        assert holders(scheduler) == [(f"{alice.namespace}/victim/main", False)]


def test_nobody_else_is_told_who_lingers(scheduler: RunningProcess) -> None:
    assert isinstance(json.loads(told("127.0.0.1")), list)
    with pytest.raises(urllib.error.HTTPError) as refused:
        told(scheduler.node.address)
    with refused.value:
        assert refused.value.code == 404
