"""A tenant asks for cards past the scheduler, to see tiles that are others', or to leave nobody a share."""

import json
from collections.abc import Iterator

import pytest

from tests.e2e.cluster.control_plane import ControlPlane
from tests.e2e.cluster.waiting import wait_until
from tests.e2e.policies import requests_out_of_force
from tests.e2e.tenants.installation import CARD, TILES, Tenant, assigned_tiles, pod, wait_until_placed
from tests.e2e.tenants.pods.processes import REAL, REAL_CARDS, REAL_TILES, real_pod

pytestmark = [pytest.mark.thorough, pytest.mark.usefixtures("scheduler", "agent")]


@pytest.fixture
def unheld(control_plane: ControlPlane) -> Iterator[None]:
    """A time before the policies, or a cluster without them: cards are the kubelet's to choose."""
    with requests_out_of_force(control_plane.workloads):
        yield


def fate(tenant: Tenant, name: str) -> str:
    """What became of a pod: its phase, and why it was refused."""

    def decided() -> str | None:
        status = tenant.see("Pod", name)["status"]
        phase = status.get("phase")
        return None if phase == "Pending" else f"{phase}: {status.get('message', '')}"

    return wait_until(f"{name} is started or refused", decided, timeout_s=60)


def on_node(name: str, cards: int) -> dict[str, object]:
    body = real_pod(name, {CARD: str(cards)})
    body["spec"]["nodeName"] = REAL
    return body


def test_card_by_node_name_is_refused(mallory: Tenant) -> None:
    path = mallory.path("Pod")
    assert "take spec.nodeName away" in mallory.refusal("POST", path, on_node("greedy", 1))


def test_all_cards_by_a_monitoring_resource_are_refused(mallory: Tenant) -> None:
    body = pod("monitor", {"gpu.intel.com/i915_monitoring": "1"})
    assert "sees every GPU of its node" in mallory.refusal("POST", mallory.path("Pod"), body)
    label = {"metadata": {"labels": {"accelet.dev/monitoring": "allowed"}}}
    assert "forbidden" in mallory.refusal("PATCH", f"/api/v1/namespaces/{mallory.namespace}", label)


@pytest.mark.usefixtures("unheld")
def test_card_with_tile_holders_is_refused_to_who_comes_past_the_scheduler(
    control_plane: ControlPlane, mallory: Tenant, alice: Tenant
) -> None:
    for number in range(REAL_CARDS):
        body = real_pod(f"holder-{number}", {CARD: "1", TILES: str(REAL_TILES)})
        body["spec"]["schedulingGates"] = [{"name": "accelet.dev/cards"}]
        alice.make("Pod", body)
    for number in range(REAL_CARDS):
        wait_until_placed(alice, f"holder-{number}")
        control_plane.workloads.wait_for_phase(f"holder-{number}", "Running", namespace=alice.namespace)
    mallory.make("Pod", on_node("greedy", 1))
    told = fate(mallory, "greedy")
    assert told.startswith("Failed")
    assert "it would have" in told
    assert f"is assigned to pod {alice.namespace}/holder-" in told


@pytest.mark.usefixtures("unheld")
def test_one_container_cannot_take_all_shares(mallory: Tenant) -> None:
    mallory.make("Pod", on_node("greedy", REAL_CARDS * 300 - 2))
    told = fate(mallory, "greedy")
    assert told.startswith("Failed")
    assert "gives a container different devices only" in told


def test_cards_alone_are_chosen_by_the_scheduler(
    control_plane: ControlPlane, mallory: Tenant, alice: Tenant
) -> None:
    alice.make("Pod", real_pod("tiles", {TILES: "1"}))
    ((held, _),) = assigned_tiles(wait_until_placed(alice, "tiles"))
    mallory.make("Pod", real_pod("card", {CARD: "1"}))
    seen = wait_until_placed(mallory, "card")
    text = seen["metadata"]["annotations"]["accelet.dev/assignment"]
    ((piece,),) = (some for kinds in json.loads(text)["containers"].values() for some in kinds.values())
    assert f"{REAL}/{piece['unit']}" != held
    control_plane.workloads.wait_for_phase("card", "Running", namespace=mallory.namespace)
    mallory.make("Pod", real_pod("all", {CARD: str(REAL_CARDS + 1)}))
    wait_until("she is told why it waits", lambda: mallory.events("all"), timeout_s=30)
    assert mallory.see("Pod", "all")["spec"]["schedulingGates"]
