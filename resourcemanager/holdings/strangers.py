"""Hardware that containers hold by other ids, or as another resource, than it is served by now.

The kubelet counts devices by resource and id. Where either changed while a container holds the hardware, it
knows of nobody who has it, and would give it again.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from accelet.accelerators.device import Device, DeviceId, Health
from accelet.accelerators.hardwarename import UnitPart, locate
from accelet.accelerators.inventory import Inventory
from resourcemanager.holdings.ledger import Ledger


@dataclass(frozen=True, slots=True)
class Stranger:
    """A part of an inventory's hardware that is held as `device` of `resource`, which it does not have."""

    part: UnitPart
    device: DeviceId
    resource: str


def find_strangers(own: Ledger, others: Iterable[Ledger], inventory: Inventory) -> tuple[Stranger, ...]:
    """What containers hold of the inventory's hardware by other names, each name once."""
    held = {(own.resource, device) for device in own.held if device not in inventory.by_id}
    held |= {(other.resource, device) for other in others for device in other.held}
    return tuple(
        Stranger(part, device, resource)
        for resource, device in sorted(held)
        if (part := locate(device, inventory.by_unit)) is not None
    )


def keep_off_strangers(inventory: Inventory, own: Ledger, others: Iterable[Ledger]) -> Inventory:
    """The inventory with those devices unhealthy that the kubelet must not give beside what strangers hold.

    Of shared hardware a stranger's share takes the place of one share, of each tile where it is of a whole
    unit; anything else takes all. A device that somebody holds is left as it is.
    """
    withheld: dict[DeviceId, Stranger] = {}
    for stranger in find_strangers(own, others, inventory):
        common = [
            device
            for device in inventory.by_unit[stranger.part.unit]
            if stranger.part.overlaps(device.unit, device.tile)
            and device.id not in own.held
            and device.id not in withheld
        ]
        shares_it = stranger.part.is_share and all(device.share is not None for device in common)
        taken = {device.tile: device for device in common}.values() if shares_it else common
        withheld |= {device.id: stranger for device in taken}
    return _make_unhealthy(inventory, withheld) if withheld else inventory


def _make_unhealthy(inventory: Inventory, withheld: Mapping[DeviceId, Stranger]) -> Inventory:
    devices: Sequence[Device] = [
        replace(device, health=Health(_explain(withheld[device.id])))
        if device.id in withheld and not device.health.is_bad
        else device
        for device in inventory.devices
    ]
    return replace(inventory, devices=tuple(devices))


def _explain(stranger: Stranger) -> str:
    return (
        f"a container holds it as {stranger.device} of {stranger.resource}, as which it was served before;"
        " it is free when that container has ended"
    )
