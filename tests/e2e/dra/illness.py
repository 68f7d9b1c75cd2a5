"""A card that falls ill while a pod holds a tile of it: what Kubernetes does by the taints of its devices.

Part of `make e2e-dra`, and named so that `make e2e` does not collect it.
"""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.e2e.agent import device_pod, write_cards
from tests.e2e.cluster.control_plane import ControlPlane
from tests.e2e.cluster.https_client import Json
from tests.e2e.cluster.node import Node
from tests.e2e.cluster.waiting import wait_until
from tests.e2e.cluster.workspace import Workspace
from tests.e2e.dra.oracle import FIRST_BUS, TILES_EACH, parts_of, seen_in
from tests.e2e.dra.roles import STAY, allocated, example, log_of
from tests.e2e.dra.site import CARDS, PODS, Site, dra_site

TILES = "gpu.intel.com/tiles"
HELD = "one-tile"
"""An example's pod, with a claim of its own: up to 1.37 Kubernetes ends none that asks by an old name."""

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def site(
    cluster: ControlPlane, node: Node, workspace: Workspace, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Site]:
    with dra_site(cluster, node, workspace, tmp_path_factory.mktemp("illness")) as site:
        yield site
        site.clean()


def test_a_pod_is_left_alone_on_an_ill_card_unless_the_resource_says_evict(site: Site) -> None:
    for each in example(HELD):
        site.user.apply(each)
    held = site.admin.wait_for_phase(HELD, "Running")
    parts = parts_of(allocated(site, HELD))
    assert seen_in(log_of(site, HELD)) == parts
    ((_, card, _),) = parts

    _have_ill(site, [card])
    _wait_for_taints(site, {"NoSchedule"})
    others = CARDS * TILES_EACH - TILES_EACH
    site.user.apply(device_pod("all-others", {TILES: others}, script=STAY))
    site.admin.wait_for_phase("all-others", "Running")
    assert card not in {number for _, number, _ in parts_of(allocated(site, "all-others"))}
    (still,) = (pod for pod in _pods(site) if pod["metadata"]["name"] == HELD)
    assert still["metadata"]["uid"] == held["metadata"]["uid"]
    assert still["status"]["phase"] == "Running"
    assert "deletionTimestamp" not in still["metadata"]

    _have_unhealthy(site, "evict")
    _wait_for_taints(site, {"NoExecute"})
    wait_until(
        "Kubernetes has ended the holder of the ill card, and nobody else",
        lambda: [pod["metadata"]["name"] for pod in _pods(site)] == ["all-others"],
        timeout_s=120,
        evidence=lambda: site.admin.describe_pod(HELD),
    )

    _have_ill(site, [])
    _wait_for_taints(site, set())


def _pods(site: Site) -> Sequence[Json]:
    items: list[Json] = json.loads(site.admin.client.send("GET", PODS))["items"]
    return items


def _have_ill(site: Site, cards: Sequence[int]) -> None:
    """As the site writes its cards, some of them ill."""
    path: Path = site.folder / "cards.yaml"
    fresh = site.folder / "ill.yaml"
    write_cards(fresh, CARDS, tiles=TILES_EACH, unhealthy=cards, first_bus=FIRST_BUS)
    fresh.write_text(fresh.read_text().replace("  tiles:", "  memory_mib: 131072\n  tiles:"))
    fresh.rename(path)


def _have_unhealthy(site: Site, what: str) -> None:
    """What becomes of the holders of ill cards from now on."""
    fresh, config = site.folder / "config.new", site.folder / "config.yaml"
    fresh.write_text(config.read_text().replace("serve: dra}", f"serve: dra, unhealthy: {what}}}", 1))
    fresh.rename(config)


def _wait_for_taints(site: Site, effects: set[str]) -> None:
    def found() -> set[str]:
        devices = (device for one in site.slices() for device in one["spec"].get("devices") or ())
        return {taint["effect"] for device in devices for taint in device.get("taints") or ()}

    wait_until(
        f"the taints have the effects {sorted(effects)}",
        lambda: found() == effects,
        timeout_s=60,
        depends_on=[site.agent],
        evidence=lambda: str(sorted(found())),
    )
