"""What the kubelet is told about a resource, scan after scan."""

from collections.abc import Set

from hypothesis import given
from hypothesis import strategies as st

from accelet.accelerators.device import HEALTHY, Device, DeviceId, Health, UnitId
from accelet.accelerators.edits import DeviceNode
from accelet.accelerators.inventory import Inventory, Skipped
from accelet.accelerators.steadyhealth import GOOD_LOOKS_TO_RECOVER, UNKNOWN_LOOKS_TO_DOUBT
from resourcemanager.listing import Listing, next_listing

A, B = DeviceId("a"), DeviceId("b")
SICK = Health("the card is sick")
UNKNOWN = Health("the card cannot be asked", is_unknown=True)


def found(*devices: tuple[str, Health]) -> Inventory:
    return Inventory(tuple(Device(DeviceId(name), UnitId(name), health) for name, health in devices))


def after(*scans: Inventory, held: Set[DeviceId] | None = frozenset()) -> Listing:
    listing = Listing()
    for scan in scans:
        listing = next_listing(listing, scan, held)
    return listing


def health_of(listing: Listing) -> dict[str, str | None]:
    return {device: entry.health.reason for device, entry in listing.entries.items()}


def test_a_device_is_listed_healthy_at_its_first_scan() -> None:
    assert health_of(after(found(("a", HEALTHY)))) == {"a": None}


def test_a_failure_counts_at_once_and_recovery_after_two_good_scans() -> None:
    good, bad = found(("a", HEALTHY)), found(("a", SICK))
    assert health_of(after(good, bad)) == {"a": "the card is sick"}
    assert health_of(after(good, bad, good)) == {"a": "the card is sick"}
    assert health_of(after(good, bad, good, bad, good)) == {"a": "the card is sick"}
    assert health_of(after(good, bad, good, good)) == {"a": None}


def test_a_device_that_scans_tell_nothing_of_stays_as_it_was_for_a_few_of_them() -> None:
    good, bad, unknown = found(("a", HEALTHY)), found(("a", SICK)), found(("a", UNKNOWN))
    some = [unknown] * (UNKNOWN_LOOKS_TO_DOUBT - 1)
    assert health_of(after(good, *some)) == {"a": None}
    assert health_of(after(good, *some, good, *some)) == {"a": None}
    assert health_of(after(good, *some, unknown)) == {"a": "the card cannot be asked"}
    assert health_of(after(good, bad, *some, unknown)) == {"a": "the card is sick"}
    assert health_of(after(unknown)) == {"a": "the card cannot be asked"}


def test_a_device_that_vanishes_is_unhealthy_while_it_is_held() -> None:
    listing = after(found(("a", HEALTHY)), *[found()] * 5, held={A})
    assert health_of(listing) == {"a": "the device is gone from the node"}


def test_a_device_that_vanishes_is_unlisted_after_two_scans_found_it_free() -> None:
    assert health_of(after(found(("a", HEALTHY)), found())) == {"a": "the device is gone from the node"}
    assert health_of(after(found(("a", HEALTHY)), found(), found())) == {}


def test_nothing_is_unlisted_where_nobody_can_tell_what_is_held() -> None:
    listing = after(found(("a", HEALTHY)), *[found()] * 5, held=None)
    assert health_of(listing) == {"a": "the device is gone from the node"}


def test_a_device_that_comes_back_has_to_prove_itself() -> None:
    there, gone = found(("a", HEALTHY)), found()
    assert health_of(after(there, gone, there))["a"] is not None
    assert health_of(after(there, gone, there, there)) == {"a": None}


def test_a_held_id_that_nothing_makes_is_listed_unhealthy() -> None:
    listing = after(found(("a", HEALTHY)), held={B})
    assert listing.entries[A].health == HEALTHY
    assert "nothing on this node has this id" in (listing.entries[B].health.reason or "")


def grouped(*files: str) -> Inventory:
    """Units of one file each but for the control file that all of them share."""
    devices = (
        Device(DeviceId(f"group-{file}"), UnitId(f"group-{file}"), nodes=(_node(file), _node("control")))
        for file in files
    )
    return Inventory(tuple(devices))


def _node(file: str) -> DeviceNode:
    return DeviceNode(f"/dev/{file}", f"/dev/{file}")


def test_a_file_of_a_held_device_is_given_to_nobody_when_the_others_move_up() -> None:
    before = grouped("a", "b", "c")
    device = Device(DeviceId("moved"), UnitId("moved"), nodes=(_node("b"), _node("control")))
    moved = Inventory((device, *before.devices[2:]))
    held = after(before, *[moved] * 3, held={DeviceId("group-b")})
    assert held.entries[device.id].health.reason == (
        "/dev/b is still held by a container, as a part of another device"
    )
    assert held.entries[DeviceId("group-c")].health == HEALTHY
    free = after(before, *[moved] * 3)
    assert free.entries[device.id].health == HEALTHY


def test_a_virtual_function_is_given_to_nobody_while_its_physical_one_is_held() -> None:
    """Also after a restart, which has not seen the physical one."""
    function = Device(DeviceId("0000-03-00.1"), UnitId("0000-03-00.1"), parent=UnitId("0000-03-00.0"))
    other = Device(DeviceId("0000-04-00.1"), UnitId("0000-04-00.1"), parent=UnitId("0000-04-00.0"))
    listing = after(Inventory((function, other)), held={DeviceId("0000-03-00.0-s1")})
    assert listing.entries[function.id].health.reason == (
        "0000-03-00.0 is still held by a container, whole or cut otherwise"
    )
    assert listing.entries[other.id].health == HEALTHY


def test_the_reason_of_what_is_gone_is_that_of_the_skipped_unit() -> None:
    device = Device(DeviceId("0000-03-00.0-t1"), UnitId("0000-03-00.0"))
    other = Device(DeviceId("0000-03-00.01"), UnitId("0000-03-00.01"))
    skipped = Skipped("/sys/x", "no-driver", "no driver is bound", UnitId("0000-03-00.0"))
    listing = after(Inventory((device, other)), Inventory((), (skipped,)))
    assert health_of(listing) == {
        "0000-03-00.0-t1": "no driver is bound",
        "0000-03-00.01": "the device is gone from the node",
    }


def test_lost_health_is_told_from_other_changes() -> None:
    good, bad = after(found(("a", HEALTHY))), after(found(("a", SICK)))
    both = after(found(("a", HEALTHY), ("b", HEALTHY)))
    assert good.loses_health_to(bad)
    assert both.loses_health_to(good)
    assert not good.loses_health_to(both)
    assert good.tells_same_as(after(found(("a", HEALTHY)), found(("a", HEALTHY))))
    assert not good.tells_same_as(bad)


health = st.sampled_from([HEALTHY, SICK, UNKNOWN])
scans = st.lists(st.dictionaries(st.sampled_from("abc"), health), min_size=1, max_size=12)


@given(scans, st.sets(st.sampled_from("abcd")))
def test_invariants_hold_over_any_sequence_of_scans(
    sequence: list[dict[str, Health]], held: set[str]
) -> None:
    listing = Listing()
    history: list[dict[str, Health]] = []
    held_ids = {DeviceId(name) for name in held}
    for scan in sequence:
        before = listing
        listing = next_listing(before, found(*sorted(scan.items())), held_ids)
        history.append(scan)
        assert held_ids <= listing.entries.keys()
        assert {DeviceId(name) for name in scan} <= listing.entries.keys()
        for device, entry in listing.entries.items():
            if entry.health.is_healthy:
                was_healthy = device not in before.entries or before.entries[device].health.is_healthy
                recent = history[-GOOD_LOOKS_TO_RECOVER:]
                assert was_healthy or all(past.get(device) == HEALTHY for past in recent)
                latest = [past.get(device) for past in history[-UNKNOWN_LOOKS_TO_DOUBT:]]
                assert latest[-1] == HEALTHY or (latest[-1] == UNKNOWN and HEALTHY in latest)
        vanished = before.entries.keys() - listing.entries.keys()
        assert all(not before.entries[device].health.is_healthy for device in vanished)
