"""What many looks at one piece of hardware add up to."""

from hypothesis import given
from hypothesis import strategies as st

from accelet.accelerators.device import HEALTHY, Device, DeviceId, Health, UnitId
from accelet.accelerators.inventory import Inventory, Skipped
from accelet.accelerators.steadyhealth import (
    BAD_FOR_S,
    BAD_LOOKS_TO_FAIL,
    GOOD_LOOKS_TO_RECOVER,
    UNKNOWN_LOOKS_TO_DOUBT,
    SteadyHealth,
    all_unknown,
    follow_units,
    keep_unknown,
    steady_inventory,
)

BAD = Health("it reads 0xffff")
UNKNOWN = Health("it cannot be read", is_unknown=True)
PAUSE_S = 5.0

_looks = st.lists(
    st.tuples(st.sampled_from([HEALTHY, BAD, UNKNOWN]), st.floats(0, 2 * BAD_FOR_S)), min_size=1, max_size=30
)


def after(*looks: Health, every_s: float = PAUSE_S) -> SteadyHealth:
    steady = SteadyHealth.first(looks[0])
    for place, look in enumerate(looks[1:], start=1):
        steady = steady.followed_by(look, place * every_s)
    return steady


def test_one_bad_look_makes_hardware_unhealthy_and_is_no_failure() -> None:
    steady = after(HEALTHY, BAD)
    assert (steady.health, steady.has_failed) == (BAD, False)


def test_hardware_fails_after_enough_bad_looks_over_enough_time() -> None:
    assert not after(*[BAD] * (BAD_LOOKS_TO_FAIL - 1), every_s=BAD_FOR_S).has_failed
    assert not after(*[BAD] * 50, every_s=BAD_FOR_S / 100).has_failed
    assert after(*[BAD] * BAD_LOOKS_TO_FAIL).has_failed


def test_ignorance_is_never_a_failure_and_does_not_end_one() -> None:
    assert after(HEALTHY, *[UNKNOWN] * 100).health == UNKNOWN
    assert not after(HEALTHY, *[UNKNOWN] * 100).has_failed
    assert not after(HEALTHY, BAD, *[UNKNOWN] * 100).has_failed
    failed = [BAD] * BAD_LOOKS_TO_FAIL
    assert after(*failed, *[UNKNOWN] * 100).has_failed
    assert after(*failed, *[UNKNOWN] * 100).health == BAD


def test_failed_hardware_is_healthy_after_enough_good_looks_in_a_row() -> None:
    failed = [BAD] * BAD_LOOKS_TO_FAIL
    almost = [HEALTHY] * (GOOD_LOOKS_TO_RECOVER - 1)
    assert after(*failed, *almost).has_failed
    assert after(*failed, *almost, UNKNOWN, *almost).has_failed
    assert after(*failed, *almost, HEALTHY) == SteadyHealth()


@given(_looks)
def test_failure_needs_bad_looks_over_time_and_recovery_good_ones_in_a_row(
    looks: list[tuple[Health, float]],
) -> None:
    now, seen = 0.0, list[tuple[Health, float]]()
    steady: SteadyHealth | None = None
    for look, after_s in looks:
        now += after_s
        seen.append((look, now))
        before = steady
        steady = SteadyHealth.first(look, now) if before is None else before.followed_by(look, now)
        if look == BAD:
            assert steady.health == BAD
        if steady.has_failed and not (before and before.has_failed):
            row = _since_the_last_good_look(seen)
            assert look == BAD
            assert len(row) >= BAD_LOOKS_TO_FAIL
            assert row[-1] - row[0] >= BAD_FOR_S
        if before and before.has_failed and not steady.has_failed:
            assert [one for one, _ in seen[-GOOD_LOOKS_TO_RECOVER:]] == [HEALTHY] * GOOD_LOOKS_TO_RECOVER
        if before and before.health.is_healthy and steady.health.is_unknown:
            assert [one for one, _ in seen[-UNKNOWN_LOOKS_TO_DOUBT:]] == [UNKNOWN] * UNKNOWN_LOOKS_TO_DOUBT
        if steady.has_failed:
            assert steady.health == BAD
        if steady.health.is_healthy:
            assert steady.bad_looks == 0


def _since_the_last_good_look(seen: list[tuple[Health, float]]) -> list[float]:
    times = list[float]()
    for look, at in seen:
        times = [] if look == HEALTHY else [*times, at] if look == BAD else times
    return times


@given(_looks)
def test_hardware_that_stays_bad_fails_and_that_stays_good_recovers_whatever_was_before(
    looks: list[tuple[Health, float]],
) -> None:
    steady = SteadyHealth.first(looks[0][0])
    now = 0.0
    for look, after_s in looks[1:]:
        now += after_s
        steady = steady.followed_by(look, now)
    bad = good = steady
    for _ in range(BAD_LOOKS_TO_FAIL):
        bad = bad.followed_by(BAD, now := now + PAUSE_S)
    assert bad.has_failed
    for _ in range(GOOD_LOOKS_TO_RECOVER):
        good = good.followed_by(HEALTHY, now)
    assert good == SteadyHealth()


def device(unit: str, health: Health = HEALTHY, tile: int | None = None) -> Device:
    name = unit if tile is None else f"{unit}-t{tile}"
    return Device(DeviceId(name), UnitId(unit), health, pci=unit, tile=tile)


def test_unit_is_as_healthy_as_its_worst_device_and_all_its_devices_with_it() -> None:
    found = Inventory((device("a", UNKNOWN, 0), device("a", BAD, 1), device("b")))
    units = follow_units({}, found, 0.0)
    assert {unit: one.health for unit, one in units.items()} == {"a": BAD, "b": HEALTHY}
    assert [one.health for one in steady_inventory(found, units).devices] == [BAD, BAD, HEALTHY]


def test_unit_that_is_no_longer_found_is_forgotten() -> None:
    units = follow_units({}, Inventory((device("a", BAD), device("b"))), 0.0)
    assert set(follow_units(units, Inventory((device("b"),)), 1.0)) == {"b"}


def test_units_of_which_a_look_cannot_tell_what_they_are_stay_in_order_of_hardware() -> None:
    before = Inventory((device("a", tile=0), device("a", tile=1), device("b"), device("c")))
    unreadable = Skipped("/sys/a", "unreadable-vendor", "its vendor cannot be read", UnitId("a"))
    stranger = Skipped("/sys/d", "unreadable-vendor", "its vendor cannot be read", UnitId("d"))
    unbound = Skipped("/sys/c", "no-driver", "no driver is bound to it", UnitId("c"))
    now = Inventory((device("b"),), (unreadable, stranger, unbound), missing=2)
    kept = keep_unknown(before, now)
    assert [(one.id, one.health.reason, one.health.is_unknown) for one in kept.devices] == [
        ("a-t0", "its vendor cannot be read", True),
        ("a-t1", "its vendor cannot be read", True),
        ("b", None, False),
    ]
    assert kept.missing == 1
    assert keep_unknown(Inventory(), now) == now


def test_after_a_look_that_told_nothing_all_is_unknown() -> None:
    before = Inventory((device("a"), device("b", BAD)))
    assert [one.health for one in all_unknown(before, "it cannot be read").devices] == [UNKNOWN, UNKNOWN]
