"""Hardware that vanished while a claim holds it, and hardware that pods hold by the device plugin."""

from collections.abc import Collection, Iterable
from dataclasses import replace

from accelet.accelerators.device import Health, UnitId
from accelet.accelerators.hardwarename import locate
from accelet.accelerators.inventory import Inventory

GONE = "it is not there any more"


def keep_held(before: Inventory, now: Inventory, held: Collection[UnitId]) -> Inventory:
    """What is there now, and beside it, as gone, what a claim holds of what was there before.

    A device that disappears from a slice while it is allocated is never told to be lost.
    """
    lost = [
        replace(device, health=Health(GONE))
        for device in before.devices
        if device.unit in held and device.unit not in now.by_unit
    ]
    return replace(now, devices=(*now.devices, *lost)) if lost else now


def is_gone(inventory: Inventory, unit: UnitId) -> bool:
    """Whether the unit is listed only because a claim holds it."""
    return any(device.health.reason == GONE for device in inventory.by_unit.get(unit, ()))


def units_of_ids(ids: Iterable[str], units: Collection[UnitId]) -> frozenset[UnitId]:
    """The units among `units` that these ids of a device plugin's devices are of.

    Ids are names of hardware, whatever the resource is called.
    """
    known = frozenset(units)
    return frozenset(part.unit for one in ids if (part := locate(one, known)) is not None)
