from collections.abc import Mapping
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelet.accelerators.backend import Backend, EditsError, Tiles
from accelet.accelerators.device import Device, UnitId
from accelet.accelerators.intel.gpu import IntelGpuSettings
from accelet.accelerators.intel.masks import Hierarchy, read_mask
from accelet.accelerators.inventory import Inventory
from accelet.accelerators.simulated import SimulatedSettings

PCI = ["0000:9a:00.0", "0000:03:00.0", "0000:1a:00.0", "10000:01:00.0"]
"""In no order, and in another as texts than as numbers."""


def simulate(tile_counts: list[int], **settings: object) -> tuple[Backend, Inventory]:
    cards = [
        {
            "pci": pci,
            "tiles": tiles,
            "card": f"card{index}",
            "nodes": [{"path": f"/dev/dri/renderD{128 + index}"}],
        }
        for index, (pci, tiles) in enumerate(zip(PCI, tile_counts, strict=False))
    ]
    backend = msgspec.convert({"cards": cards, **settings}, SimulatedSettings).backend()
    return backend, backend.scan(Path("/"))


def variables(
    backend: Backend,
    inventory: Inventory,
    *ids: str,
    tiles: Tiles | None = None,
    own: Mapping[str, str] | None = None,
) -> dict[str, str]:
    devices = [device for device in inventory.devices if device.id in ids]
    assert len(devices) == len(ids)
    return dict(backend.edits(inventory, devices, tiles or {}, own or {}).environment)


def test_whole_cards_need_no_variables() -> None:
    assert variables(*simulate([2, 2]), "0000-03-00.0", "0000-9a-00.0") == {}


def test_one_tile_of_a_card_needs_all_three_variables() -> None:
    assert variables(*simulate([2], unit="tile"), "0000-9a-00.0-t1") == {
        "ZE_AFFINITY_MASK": "1",
        "ZE_FLAT_DEVICE_HIERARCHY": "FLAT",
        "ZE_ENABLE_PCI_ID_DEVICE_ORDER": "1",
    }


def test_tiles_restrict_whole_cards() -> None:
    backend, inventory = simulate([2, 2])
    tiles = {UnitId("0000-9a-00.0"): frozenset({1})}
    found = variables(backend, inventory, "0000-03-00.0", "0000-9a-00.0", tiles=tiles)
    assert found["ZE_AFFINITY_MASK"] == "0,1,3"


def test_cards_count_by_pci_address_not_by_number_nor_text() -> None:
    backend, inventory = simulate([1, 2, 4, 2], unit="tile")
    ids = ("0000-9a-00.0-t0", "0000-03-00.0-t1", "0000-1a-00.0-t3", "10000-01-00.0-t0")
    found = variables(backend, inventory, *ids)
    assert found["ZE_AFFINITY_MASK"] == "1,5,6,7", "03 has tiles 0-1, 1a 2-5, 9a 6, 10000:01 7-8"


def test_tiles_given_one_by_one_combine() -> None:
    backend, inventory = simulate([2, 4], unit="tile")
    found = variables(backend, inventory, "0000-03-00.0-t0", "0000-03-00.0-t2", "0000-9a-00.0-t1")
    assert found["ZE_AFFINITY_MASK"] == "0,2,5"
    assert variables(backend, inventory, "0000-9a-00.0-t0", "0000-9a-00.0-t1") == {}


def test_shares_of_one_tile_are_one_tile() -> None:
    backend, inventory = simulate([2], unit="tile", shares=3)
    assert (
        variables(backend, inventory, "0000-9a-00.0-t1-s0", "0000-9a-00.0-t1-s2")["ZE_AFFINITY_MASK"] == "1"
    )


@pytest.mark.parametrize(("own", "mask"), [("COMPOSITE", "0.1"), ("COMBINED", "1"), ("FLAT", "1")])
def test_the_containers_own_hierarchy_is_written_for_and_not_set_again(own: str, mask: str) -> None:
    found = variables(
        *simulate([2], unit="tile"), "0000-9a-00.0-t1", own={"ZE_FLAT_DEVICE_HIERARCHY": own, "HOME": "/"}
    )
    assert found == {"ZE_AFFINITY_MASK": mask, "ZE_ENABLE_PCI_ID_DEVICE_ORDER": "1"}


def test_a_hierarchy_no_driver_knows_is_refused_where_it_matters() -> None:
    backend, inventory = simulate([2])
    own = {"ZE_FLAT_DEVICE_HIERARCHY": "flat"}
    assert variables(backend, inventory, "0000-9a-00.0", own=own) == {}
    with pytest.raises(EditsError, match="sets ZE_FLAT_DEVICE_HIERARCHY to 'flat'"):
        variables(backend, inventory, "0000-9a-00.0", tiles={UnitId("0000-9a-00.0"): frozenset({0})}, own=own)


@pytest.mark.parametrize("tile", [2, 7, -1])
def test_a_tile_the_card_lacks_is_refused_by_name(tile: int) -> None:
    with pytest.raises(EditsError, match=rf"card0 \(0000-9a-00.0\) has 2 tiles.* no tile {tile}"):
        variables(*simulate([2]), "0000-9a-00.0", tiles={UnitId("0000-9a-00.0"): frozenset({tile})})


def test_no_tile_at_all_is_refused() -> None:
    with pytest.raises(EditsError, match="no tile of card0"):
        variables(*simulate([2]), "0000-9a-00.0", tiles={UnitId("0000-9a-00.0"): frozenset()})


def test_the_order_may_be_left_to_the_driver() -> None:
    found = variables(*simulate([2], unit="tile", pci_order=False), "0000-9a-00.0-t1")
    assert found == {"ZE_AFFINITY_MASK": "1", "ZE_FLAT_DEVICE_HIERARCHY": "FLAT"}


@pytest.mark.parametrize(("own", "mask"), [({}, "2"), ({"ZE_ENABLE_PCI_ID_DEVICE_ORDER": "0"}, "1")])
def test_without_pci_order_integrated_cards_count_last(own: dict[str, str], mask: str) -> None:
    cards = [
        {"pci": "0000-00-02.0", "kind": "integrated", "nodes": [{"path": "/dev/dri/renderD128"}]},
        {"pci": "0000-03-00.0", "tiles": 2, "nodes": [{"path": "/dev/dri/renderD129"}]},
    ]
    backend = msgspec.convert({"cards": cards}, SimulatedSettings).backend()
    inventory = backend.scan(Path("/"))
    tiles = {UnitId("0000-03-00.0"): frozenset({1})}
    found = variables(backend, inventory, "0000-00-02.0", "0000-03-00.0", tiles=tiles, own=own)
    integrated, tile = ("0", "2") if mask == "2" else ("2", "1")
    assert set(found["ZE_AFFINITY_MASK"].split(",")) == {integrated, tile}
    assert ("ZE_ENABLE_PCI_ID_DEVICE_ORDER" in found) == (not own)


@given(data=st.data(), counts=st.lists(st.integers(1, 4), min_size=1, max_size=4))
def test_level_zero_reads_back_exactly_the_given_tiles(data: st.DataObject, counts: list[int]) -> None:
    backend, inventory = simulate(counts, unit="tile")
    devices: list[Device] = data.draw(
        st.lists(st.sampled_from(inventory.devices), min_size=1, unique_by=lambda device: device.id)
    )
    hierarchy = data.draw(st.none() | st.sampled_from(Hierarchy))
    own = {"ZE_FLAT_DEVICE_HIERARCHY": str(hierarchy)} if hierarchy else {}
    found = dict(backend.edits(inventory, devices, {}, own).environment)
    in_order = list(dict.fromkeys(d.unit for d in inventory.devices if d.unit in {c.unit for c in devices}))
    tile_counts = [next(d.tile_count for d in devices if d.unit == unit) for unit in in_order]
    said = hierarchy or Hierarchy(found.get("ZE_FLAT_DEVICE_HIERARCHY", "FLAT"))
    shown = read_mask(found.get("ZE_AFFINITY_MASK", ""), tile_counts, said)
    assert shown == tuple({d.tile for d in devices if d.unit == unit} for unit in in_order)


def test_intel_and_simulated_cards_share_the_rules() -> None:
    device = simulate([2], unit="tile")[1].devices[1]
    edits = IntelGpuSettings().backend().edits(Inventory((device,)), [device], {}, {})
    assert edits.environment["ZE_AFFINITY_MASK"] == "1"
