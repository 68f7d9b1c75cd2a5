"""Hardware that is gone while it is held, and hardware that is held in the other way."""

from hypothesis import given
from hypothesis import strategies as st

from accelet.accelerators.device import UnitId
from accelet.accelerators.inventory import Inventory
from accelet.dra.names import GPU_DRIVER
from accelet.dra.publishing.build import build_pool
from accelet.dra.publishing.keeping import is_gone, keep_held, units_of_ids
from accelet.dra.publishing.taints import taints_of
from accelet.dra.running.held import keep_off
from tests.unit.dra.strategies import gpu, gpus

UNITS = [gpu(bus)[0].unit for bus in range(6)]


def inventory(buses: set[int]) -> Inventory:
    return Inventory(tuple(device for bus in sorted(buses) for device in gpu(bus)))


_buses = st.sets(st.integers(0, 5))


@given(_buses, _buses, _buses)
def test_of_what_is_gone_exactly_what_is_held_stays_listed(
    before: set[int], now: set[int], held: set[int]
) -> None:
    kept = keep_held(inventory(before), inventory(now), {UNITS[bus] for bus in held})
    assert set(kept.by_unit) == {UNITS[bus] for bus in now | (before & held)}
    assert {u for u in kept.by_unit if is_gone(kept, u)} == {UNITS[bus] for bus in (before & held) - now}


def test_what_is_gone_is_tainted_as_lost_and_not_as_sick_too() -> None:
    kept = keep_held(inventory({1}), inventory(set()), {UNITS[1]})
    resource = gpus(kept.devices)
    pool = build_pool(GPU_DRIVER, "node-1", [resource]).with_taints(taints_of([resource], lost=[UNITS[1]]))
    assert [taint.key for taint in pool.devices[0].taints] == ["lost"]


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


@given(st.sampled_from(UNITS), st.none() | st.integers(0, 9), st.none() | st.integers(0, 9))
def test_an_id_of_a_device_plugin_tells_its_unit(unit: UnitId, tile: int | None, share: int | None) -> None:
    text = unit + ("" if tile is None else f"-t{tile}") + ("" if share is None else f"-s{share}")
    assert units_of_ids([text, "monitoring-all", "card0-0"], UNITS) == {unit}


def test_an_id_of_another_unit_whose_name_begins_alike_tells_nothing() -> None:
    assert units_of_ids(["fuse-tap-s0", "fuse-t1-old"], [UnitId("fuse"), UnitId("fuse-tap")]) == {"fuse-tap"}
