"""No hardware is served by two resources at once."""

from accelet.accelerators.device import Device, DeviceId, UnitId
from accelet.accelerators.inventory import Inventory
from accelet.node.unitlocks import Claims


def found(*units: str) -> Inventory:
    return Inventory(tuple(Device(DeviceId(f"{unit}-s0"), UnitId(unit)) for unit in units))


def units(inventory: Inventory) -> list[str]:
    return [device.unit for device in inventory.devices]


def test_first_to_find_a_unit_keeps_it_and_the_other_says_why_not() -> None:
    claims = Claims()
    assert units(claims.take("one", found("a", "b"))) == ["a", "b"]
    second = claims.take("two", found("b", "c"))
    assert units(second) == ["c"]
    assert [(skipped.path, skipped.code) for skipped in second.skipped] == [("b", "served-elsewhere")]
    assert units(claims.take("one", found("a", "b"))) == ["a", "b"]


def test_unit_that_is_no_longer_found_is_free_for_the_other() -> None:
    claims = Claims()
    claims.take("one", found("a", "b"))
    claims.take("one", found("a"))
    assert units(claims.take("two", found("b"))) == ["b"]


def test_resource_that_is_served_no_more_frees_its_units() -> None:
    claims = Claims()
    claims.take("one", found("a"))
    claims.release("one")
    assert units(claims.take("two", found("a"))) == ["a"]
