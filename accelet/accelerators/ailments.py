"""What is known to be wrong with units otherwise than by the scan of their resource."""

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from accelet.accelerators.device import Health, UnitId
from accelet.accelerators.inventory import Inventory


class Ailments:
    """Units that are not well, each with its reason. Read on threads that scan."""

    def __init__(self) -> None:
        self._reasons: Mapping[UnitId, str] = MappingProxyType({})

    def replace(self, reasons: Mapping[UnitId, str]) -> bool:
        """From here on these, and no others; whether they are others than before."""
        is_news = reasons != self._reasons
        self._reasons = MappingProxyType(dict(reasons))
        return is_news

    def applied_to(self, inventory: Inventory) -> Inventory:
        """The inventory with the devices of these units unhealthy; what the scan found wrong stays."""
        reasons = self._reasons
        if not reasons:
            return inventory
        devices = tuple(
            replace(device, health=Health(reasons[device.unit]))
            if device.unit in reasons and not device.health.is_bad
            else device
            for device in inventory.devices
        )
        return replace(inventory, devices=devices)
