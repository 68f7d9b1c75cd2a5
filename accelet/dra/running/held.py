"""Which hardware claims hold, for those who serve the same hardware in another way."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from accelet.accelerators.device import Device, Health, UnitId
from accelet.accelerators.errors import ScanError
from accelet.accelerators.inventory import Inventory
from accelet.dra.errors import StateError
from accelet.dra.preparing.checkpoint import LARGEST, read_checkpoint
from accelet.dra.running.places import Places
from accelet.runtime.statefile import read_whole


def read_held_units(kubelet: Path, driver: str) -> Mapping[UnitId, str]:
    """The units that prepared claims of a driver hold, each with a claim (`namespace/name`); blocks on files.

    Raises:
        ScanError: the driver's record cannot be read, so that it cannot be told.
    """
    found: dict[UnitId, str] = {}
    path = Places(kubelet, Path(), driver, "").checkpoint
    try:
        text = read_whole(path, LARGEST)
        entries = () if text is None else read_checkpoint(text)
    except (OSError, StateError) as error:
        raise ScanError(f"cannot tell what claims hold: {path}: {error}") from error
    for entry in entries:
        for hold in entry.holds:
            if hold.is_exclusive:
                found |= {unit: entry.holder.claim for unit, _ in hold.atoms}
    return found


def keep_off(inventory: Inventory, held: Mapping[UnitId, str]) -> Inventory:
    """The inventory with all devices of these units unhealthy: they were given out in the other way.

    So are the virtual functions of one of them.
    """
    if not held:
        return inventory
    return replace(inventory, devices=tuple(_keep_off(device, held) for device in inventory.devices))


def _keep_off(device: Device, held: Mapping[UnitId, str]) -> Device:
    if device.unit in held:
        return replace(device, health=Health(f"the claim {held[device.unit]} holds it (serve: dra)"))
    if device.parent is not None and device.parent in held:
        claim = held[device.parent]
        return replace(device, health=Health(f"the claim {claim} holds its physical function (serve: dra)"))
    return device
