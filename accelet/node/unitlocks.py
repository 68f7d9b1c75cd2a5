"""No hardware is served by two resources at once."""

from dataclasses import replace

from accelet.accelerators.device import UnitId
from accelet.accelerators.inventory import Inventory, Skipped


class Claims:
    """Who serves which unit. The first to find a unit keeps it until it no longer finds it.

    Settings that plainly contradict each other never come so far; two globs may still match one card.
    """

    def __init__(self) -> None:
        self._holder: dict[UnitId, str] = {}

    def take(self, resource: str, inventory: Inventory) -> Inventory:
        """The inventory without what another resource serves; that is skipped with its reason."""
        found = {device.unit for device in inventory.devices}
        for unit in [
            unit for unit, holder in self._holder.items() if holder == resource and unit not in found
        ]:
            del self._holder[unit]
        taken = {unit for unit in sorted(found) if self._holder.setdefault(unit, resource) != resource}
        if not taken:
            return inventory
        skipped = tuple(
            Skipped(unit, "served-elsewhere", f"the resource {self._holder[unit]} serves it already", unit)
            for unit in sorted(taken)
        )
        devices = tuple(device for device in inventory.devices if device.unit not in taken)
        return replace(inventory, devices=devices, skipped=inventory.skipped + skipped)

    def release(self, resource: str) -> None:
        """The resource is served no more."""
        self._holder = {unit: holder for unit, holder in self._holder.items() if holder != resource}
