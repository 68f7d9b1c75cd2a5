"""Hardware that is gone or elsewhere while it is held, and hardware that is held in the other way."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelet.accelerators.device import UnitId
from accelet.accelerators.inventory import Inventory, Skipped
from accelet.accelerators.steadyhealth import BAD_LOOKS_TO_FAIL, SteadyHealth
from accelet.dra.names import FILES_DRIVER, GPU_DRIVER, TPU_DRIVER
from accelet.dra.pool import Atom, DevicePool, Effect
from accelet.dra.publishing.build import MOST_DEVICES, build_pool
from accelet.dra.publishing.keeping import (
    HeldDevice,
    add_strays,
    find_missing,
    find_strays,
    follow_missing,
    newest_only,
    taint_strays,
    taints_of_missing,
    units_of_ids,
)
from accelet.dra.publishing.served import ServedResource
from accelet.dra.publishing.slices import render_all
from accelet.dra.publishing.taints import taints_of
from accelet.dra.running.held import keep_off
from tests.unit.dra.apirules import faults
from tests.unit.dra.strategies import gpu, gpus

UNITS = [gpu(bus)[0].unit for bus in range(6)]


def inventory(buses: set[int]) -> Inventory:
    return Inventory(tuple(device for bus in sorted(buses) for device in gpu(bus)))


_buses = st.sets(st.integers(0, 5))


def held(*atoms: Atom, name: str = "gpu-0000-01-00-0", **others: Any) -> HeldDevice:
    return HeldDevice(name, frozenset(atoms), **others)


def names(pool: DevicePool) -> set[str]:
    return {device.name for device in pool.devices}


def kept(
    resources: Sequence[ServedResource],
    devices: Collection[HeldDevice],
    elsewhere: Collection[UnitId] = (),
    effect: Effect = "NoSchedule",
) -> DevicePool:
    """The pool of these resources while claims hold these devices."""
    pool = build_pool(GPU_DRIVER, "node-1", newest_only(resources))
    strays = find_strays(pool, devices)
    missing = find_missing(devices, resources, elsewhere)
    pool = add_strays(pool, strays, {}, MOST_DEVICES)
    return taint_strays(pool, strays, taints_of_missing(missing, dict.fromkeys(missing, effect)))


def taints(pool: DevicePool) -> dict[str, set[tuple[str, str]]]:
    return {
        device.name: {(taint.key, taint.effect) for taint in device.taints}
        for device in pool.devices
        if device.taints
    }


CARD = "gpu-0000-01-00-0"
WHOLE = frozenset((UNITS[1], tile) for tile in range(2))

_kinds = st.dictionaries(st.integers(0, 5), st.integers(1, 3))
"""Cards that are there, by their bus, with how many tiles they have."""


def _a_hold(bus: int, tiles: int, ending: str) -> HeldDevice:
    parts = [int(ending[-1])] if "tile" in ending else range(tiles)
    atoms = frozenset((UNITS[bus], tile) for tile in parts)
    return HeldDevice(f"gpu-0000-0{bus}-00-0{ending}", atoms, is_exclusive="monitor" not in ending)


_held_devices = st.lists(
    st.builds(
        _a_hold,
        st.integers(0, 5),
        st.integers(1, 3),
        st.sampled_from(["", "-monitor", "-tile-0", "-tile-2"]),
    ),
    max_size=6,
    unique_by=lambda one: one.name,
)


@given(_kinds, _held_devices)
def test_whatever_is_held_is_published_once_and_only_what_is_free_and_whole_is_offered(
    cards: dict[int, int], devices: list[HeldDevice]
) -> None:
    resource = gpus(*(gpu(bus, tiles=tiles) for bus, tiles in sorted(cards.items())))
    pool = kept([resource], devices)
    assert faults(render_all(pool)) == []
    assert names(pool) == names(build_pool(GPU_DRIVER, "node-1", [resource])) | {one.name for one in devices}
    strays = find_strays(build_pool(GPU_DRIVER, "node-1", [resource]), devices)
    taken = {atom for one in strays.values() if one.is_exclusive for atom in one.atoms}
    there = {(UNITS[bus], tile) for bus, tiles in cards.items() for tile in range(tiles)}
    for device in pool.devices:
        is_offered = not device.taints
        if device.name in strays:
            assert not is_offered
            lost = strays[device.name].atoms - there
            keys = {taint.key for taint in device.taints}
            assert ("lost" in keys) == (bool(lost) and device.is_exclusive)
        elif device.is_exclusive:
            assert is_offered == device.atoms.isdisjoint(taken)
            assert device.atoms <= there


def test_a_lost_card_does_to_its_holders_what_is_said_and_no_other_card_has_a_taint() -> None:
    pool = kept([gpus(gpu(2))], [held(*WHOLE)], effect="NoExecute")
    assert taints(pool) == {CARD: {("lost", "NoExecute")}}


def test_a_lost_tile_is_that_of_its_holders_and_the_others_keep_theirs() -> None:
    """Of three tiles one is left: the names of the others are published as long as they are held."""
    holds = [held((UNITS[1], tile), name=f"{CARD}-tile-{tile}") for tile in (0, 2)]
    pool = kept([gpus(gpu(1, tiles=1))], holds, effect="NoExecute")
    assert taints(pool) == {
        f"{CARD}-tile-0": {("still-held", "NoSchedule")},
        f"{CARD}-tile-2": {("lost", "NoExecute")},
        CARD: {("still-held", "NoSchedule")},
    }


def test_a_card_that_is_held_whole_is_lost_with_one_of_its_tiles() -> None:
    pool = kept([gpus(gpu(1, tiles=1))], [held(*WHOLE)], effect="NoExecute")
    assert taints(pool) == {CARD: {("lost", "NoExecute")}}


@pytest.mark.parametrize("code", ["not-selected", "served-elsewhere", "pf-with-vfs"])
def test_a_card_that_others_have_or_that_was_divided_is_kept_and_not_lost(code: str) -> None:
    skip = Skipped("/sys/class/drm/card1", code, "for a reason", UNITS[1])
    resource = replace(gpus(gpu(2)), inventory=Inventory(gpu(2), (skip,)))
    assert taints(kept([resource], [held(*WHOLE)], effect="NoExecute")) == {
        CARD: {("still-held", "NoSchedule")}
    }


def test_a_card_of_a_device_plugin_resource_is_kept_and_not_lost() -> None:
    pool = kept([gpus(gpu(2))], [held(*WHOLE)], elsewhere=[UNITS[1]], effect="NoExecute")
    assert taints(pool) == {CARD: {("still-held", "NoSchedule")}}


def test_nothing_is_lost_to_a_driver_without_resources() -> None:
    assert taints(kept([], [held(*WHOLE)], effect="NoExecute")) == {CARD: {("still-held", "NoSchedule")}}


def test_a_card_that_lost_its_driver_is_unhealthy_with_the_reason() -> None:
    skip = Skipped("/sys/class/drm/card1", "no-driver", "no driver is bound to it", UNITS[1])
    resource = replace(gpus(gpu(2)), inventory=Inventory(gpu(2), (skip,)))
    assert taints(kept([resource], [held(*WHOLE)])) == {CARD: {("unhealthy", "NoSchedule")}}
    (missing, _) = find_missing([held(*WHOLE)], [resource], ()).values()
    assert missing.health.reason == "no driver is bound to it"


@given(st.lists(_buses, min_size=1, max_size=4))
def test_a_card_that_several_resources_show_is_that_of_the_last_look(looks: list[set[int]]) -> None:
    resources = [
        gpus(*(gpu(bus) for bus in sorted(buses)), name=f"gpu.intel.com/{place}")
        for place, buses in enumerate(looks)
    ]
    distinct = newest_only(resources)
    assert [one.name for one in distinct] == [one.name for one in resources]
    assert faults(render_all(build_pool(GPU_DRIVER, "node-1", distinct))) == []
    for bus in set().union(*looks):
        having = [place for place, one in enumerate(distinct) if UNITS[bus] in one.inventory.by_unit]
        assert having == [max(place for place, buses in enumerate(looks) if bus in buses)]


def test_too_many_devices_leave_room_for_what_is_held() -> None:
    pool = build_pool(GPU_DRIVER, "node-1", [gpus(gpu(2))])
    added = add_strays(pool, {CARD: held(*WHOLE)}, {}, len(pool.devices))
    assert len(added.devices) == len(pool.devices)
    assert added.devices[-1].name == CARD


@pytest.mark.parametrize(
    ("driver", "name", "expected"),
    [
        (TPU_DRIVER, "chips-0-1", {"type": "box", "chips": 2, "firstChip": -1}),
        (TPU_DRIVER, "chip-0", {"type": "host-chip", "chips": 2, "firstChip": -1}),
        (FILES_DRIVER, "file-fuse", {"type": "file", "resource": ""}),
    ],
)
def test_what_is_restored_has_the_attributes_that_all_of_its_kind_have(
    driver: str, name: str, expected: Mapping[str, object]
) -> None:
    """An expression that reads one which is not there makes Kubernetes give the pod up."""
    strays = {name: held((UNITS[0], 0), (UNITS[1], 0), name=name, is_shared=True, limits={"holders": 4})}
    pool = add_strays(build_pool(driver, "node-1", []), strays, {}, MOST_DEVICES)
    assert faults(render_all(pool)) == []
    assert pool.by_name[name].attributes == expected


_missing_looks = st.lists(st.sampled_from(["there", "gone", "elsewhere"]), max_size=8)


@given(_missing_looks)
def test_nothing_has_failed_that_was_seen_or_known_to_be_elsewhere_lately(looks: list[str]) -> None:
    health: Mapping[Atom, SteadyHealth] = {}
    for number, look in enumerate(looks):
        resources = [gpus(gpu(1, tiles=2) if look == "there" else gpu(2))]
        missing = find_missing([held(*WHOLE)], resources, [UNITS[1]] if look == "elsewhere" else ())
        assert bool(missing) == (look != "there")
        health = follow_missing(health, missing, {}, 5.0 * number)
        lately = looks[max(0, number + 1 - BAD_LOOKS_TO_FAIL) : number + 1]
        has_failed = any(one.has_failed for one in health.values())
        if set(lately) == {"gone"} and len(lately) == BAD_LOOKS_TO_FAIL:
            assert has_failed
        if "there" in lately or looks[: number + 1].count("gone") < BAD_LOOKS_TO_FAIL:
            assert not has_failed


@given(_buses, st.booleans())
def test_claims_are_kept_off_virtual_functions_of_what_is_held(taken: set[int], by_plugin: bool) -> None:
    functions = tuple(replace(gpu(bus)[0], parent=UNITS[bus - 6]) for bus in range(6, 12))
    resource = replace(gpus(functions), inventory=Inventory(functions))
    units = [UNITS[bus] for bus in taken]
    found = taints_of([resource], **({"held_by_device_plugin": units} if by_plugin else {"held": units}))
    key = "held-by-device-plugin" if by_plugin else "still-held"
    expected = {function.unit for function in functions if function.parent in units}
    assert {unit for unit, each in found.items() if [one.key for one in each] == [key]} >= expected
    assert {function.unit for function in functions} & found.keys() == expected


@given(_buses, _buses)
def test_what_others_hold_is_kept_from_claims_as_long_as_they_do(
    by_plugin: set[int], still: set[int]
) -> None:
    resource = gpus(inventory(set(range(6))).devices)
    taints = taints_of(
        [resource],
        held_by_device_plugin=[UNITS[bus] for bus in by_plugin],
        still_held=[UNITS[bus] for bus in still],
    )
    pool = build_pool(GPU_DRIVER, "node-1", [resource]).with_taints(taints)
    for device in pool.devices:
        told = {(taint.key, taint.effect) for taint in device.taints}
        expected = (("held-by-device-plugin", by_plugin), ("still-held", still))
        assert told == {
            (key, "NoSchedule")
            for key, buses in expected
            if device.kind != "monitor" and not {UNITS[bus] for bus in buses}.isdisjoint(device.units)
        }


@given(_buses)
def test_devices_of_held_units_are_unhealthy_and_the_others_are_not(held: set[int]) -> None:
    kept = keep_off(inventory({0, 1, 2, 3}), {UNITS[bus]: "ml/claim" for bus in held})
    sick = {device.unit for device in kept.devices if not device.health.is_healthy}
    assert sick == {UNITS[bus] for bus in held & {0, 1, 2, 3}}


@given(_buses)
def test_virtual_functions_of_held_cards_are_unhealthy_for_the_device_plugin(taken: set[int]) -> None:
    functions = tuple(replace(gpu(bus)[0], parent=UNITS[bus - 6]) for bus in range(6, 12))
    kept_off = keep_off(Inventory(functions), {UNITS[bus]: "ml/claim" for bus in taken})
    reasons = {device.parent for device in kept_off.devices if not device.health.is_healthy}
    assert reasons == {UNITS[bus] for bus in taken}


@given(st.sampled_from(UNITS), st.none() | st.integers(0, 9), st.none() | st.integers(0, 9))
def test_an_id_of_a_device_plugin_tells_its_unit(unit: UnitId, tile: int | None, share: int | None) -> None:
    text = unit + ("" if tile is None else f"-t{tile}") + ("" if share is None else f"-s{share}")
    assert units_of_ids([text, "monitoring-all", "card0-0"], UNITS) == {unit}


def test_an_id_of_another_unit_whose_name_begins_alike_tells_nothing() -> None:
    assert units_of_ids(["fuse-tap-s0", "fuse-t1-old"], [UnitId("fuse"), UnitId("fuse-tap")]) == {"fuse-tap"}
