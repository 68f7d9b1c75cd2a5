"""Hardware that is held by other ids, or as another resource, than it is served by now."""

from collections.abc import Iterable
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelet.accelerators.device import Device, DeviceId, UnitId
from accelet.accelerators.hardwarename import UnitPart, locate
from accelet.accelerators.inventory import Inventory
from accelet.accelerators.simulated import SimulatedSettings
from accelet.kubelet.checkpoint import CheckpointEntry
from resourcemanager.allocation import Allocation, Refusal
from resourcemanager.holdings.reconcile import View
from resourcemanager.manager import ResourceManager, ResourceRules

OLD, NEW = "gpu.intel.com/i915", "gpu.intel.com/flex"
TILES = 2


def make_manager(resource: str, unit: str, shares: int, cards: int = 2) -> ResourceManager:
    nodes = [{"path": "/dev/null"}]
    described = [{"pci": f"0000:{3 + n:02x}:00.0", "tiles": TILES, "nodes": nodes} for n in range(cards)]
    settings = msgspec.convert({"cards": described, "unit": unit, "shares": shares}, SimulatedSettings)
    return ResourceManager(ResourceRules(resource), settings.backend())


def scan(manager: ResourceManager) -> Inventory:
    return manager.backend.scan(Path("/"))


def view(held: Iterable[DeviceId], resource: str) -> View:
    ids = enumerate(sorted(held))
    return View([CheckpointEntry(f"pod-{n}", "main", resource, frozenset({device})) for n, device in ids])


def look(manager: ResourceManager, seen: View) -> None:
    """What the agent does at each scan."""
    manager.reconcile_ledger(seen)
    manager.reconcile_others(seen)
    manager.update(scan(manager))


def free(manager: ResourceManager) -> list[Device]:
    return [
        device
        for device in manager.inventory.devices
        if manager.listing.entries[device.id].health.is_healthy and device.id not in manager.ledger.held
    ]


KINDS = st.tuples(st.sampled_from(["card", "tile"]), st.integers(1, 3))


@given(st.data(), KINDS, KINDS, st.sampled_from([OLD, NEW]))
def test_hardware_that_changes_while_it_is_held_is_given_to_no_more_than_may_have_it(
    data: st.DataObject, before: tuple[str, int], after: tuple[str, int], resource: str
) -> None:
    old, new = make_manager(OLD, *before), make_manager(resource, *after)
    held = data.draw(st.sets(st.sampled_from(sorted(scan(old).by_id))))
    for _ in range(2):
        look(new, view(held, OLD))
    old.update(scan(old))
    holders = [old.inventory.by_id[device] for device in held]
    is_same_id = resource == OLD and before == after
    offered = free(new)
    for unit in new.inventory.by_unit:
        for tile in range(TILES):
            has_it = [one for one in holders if one.unit == unit and one.tile in {None, tile}]
            may_get = [one for one in offered if one.unit == unit and one.tile in {None, tile}]
            assert not any(one.share is None for one in has_it) or not may_get
            assert is_same_id or len(has_it) + len(may_get) <= max(after[1], len(has_it))


@given(st.data(), KINDS, KINDS, st.sampled_from([OLD, NEW]))
def test_hardware_is_free_again_once_its_holders_have_ended(
    data: st.DataObject, before: tuple[str, int], after: tuple[str, int], resource: str
) -> None:
    old, new = make_manager(OLD, *before), make_manager(resource, *after)
    held = data.draw(st.sets(st.sampled_from(sorted(scan(old).by_id))))
    for seen in [view(held, OLD), *[view((), OLD)] * 4]:
        look(new, seen)
    assert free(new) == list(scan(new).devices)
    assert not new.has_strangers


def test_what_is_withheld_is_refused_with_its_reason() -> None:
    new = make_manager(NEW, "tile", 1)
    look(new, view({DeviceId("0000-03-00.0-s1")}, OLD))
    answer = new.allocate([DeviceId("0000-03-00.0-t0")])
    assert isinstance(answer, Refusal)
    assert "holds it as 0000-03-00.0-s1 of gpu.intel.com/i915" in answer.sentence
    assert isinstance(new.allocate([DeviceId("0000-04-00.0-t0")]), Allocation)


def test_a_holder_of_one_tile_leaves_the_others_free() -> None:
    new = make_manager(NEW, "tile", 2)
    look(new, view({DeviceId("0000-03-00.0-t1")}, OLD))
    assert {(one.unit, one.tile) for one in free(new)} == {
        ("0000-03-00.0", 0),
        ("0000-04-00.0", 0),
        ("0000-04-00.0", 1),
    }


def test_ids_of_other_plugins_and_units_say_nothing() -> None:
    new = make_manager(NEW, "card", 1)
    look(
        new,
        view({DeviceId("card0-0"), DeviceId("0000-05-00.0"), DeviceId("0000-03-00.01")}, "nvidia.com/gpu"),
    )
    assert not new.has_strangers
    assert len(free(new)) == 2


@given(
    st.sampled_from(["fuse", "fuse-t1", "fuse-s2", "0000-03-00.0"]),
    st.none() | st.integers(0, 9),
    st.booleans(),
)
def test_an_id_names_its_part_of_its_unit(unit: str, tile: int | None, is_share: bool) -> None:
    text = unit + ("" if tile is None else f"-t{tile}") + ("-s3" if is_share else "")
    assert locate(text, {UnitId(unit)}) == UnitPart(UnitId(unit), tile, is_share)


@pytest.mark.parametrize(
    "text", ["", "-s0", "x-s0", "fuse-s", "fuse-t", "fuse-s0-t0", "fusex", "fuse-t1-s0\n"]
)
def test_a_name_that_is_none_of_the_units_names_no_part(text: str) -> None:
    assert locate(text, {UnitId("fuse")}) is None
