"""No hardware is served by two resources at once, nor by two processes."""

from collections.abc import Iterable, Set
from dataclasses import replace

from accelet.accelerators.device import UnitId
from accelet.accelerators.inventory import Inventory, Skipped
from accelet.node.namelocks import NameLocks


class UnitLocks:
    """Which resource of this process serves which unit: the first to find it, for as long as it finds it.

    With `shared` locks, no two processes that share them serve the same unit either: an agent and the one
    that replaces it, whatever they serve it by. A unit of a process that has died is free at the next scan.
    Settings that plainly contradict each other never come so far; two globs may still match one card.
    """

    def __init__(self, shared: NameLocks | None = None) -> None:
        self._shared = shared
        self._holder: dict[UnitId, str] = {}

    def take(self, resource: str, inventory: Inventory) -> Inventory:
        """The inventory without what another resource or process serves; that is skipped with its reason.

        Raises:
            OSError: the locks that are shared cannot be had.
        """
        found = {device.unit for device in inventory.devices}
        for unit in self._renew():
            self._holder.pop(unit)
        self._let_go(
            unit for unit, holder in self._holder.items() if holder == resource and unit not in found
        )
        reasons: dict[UnitId, str] = {}
        for unit in sorted(found):
            holder = self._holder.get(unit)
            if holder is None and self._lock(unit):
                self._holder[unit] = resource
            elif holder is None:
                reasons[unit] = "another process on this node serves it already"
            elif holder != resource:
                reasons[unit] = f"the resource {holder} serves it already"
        if not reasons:
            return inventory
        skipped = tuple(Skipped(unit, "served-elsewhere", reason, unit) for unit, reason in reasons.items())
        devices = tuple(device for device in inventory.devices if device.unit not in reasons)
        return replace(inventory, devices=devices, skipped=inventory.skipped + skipped)

    @property
    def units(self) -> frozenset[UnitId]:
        """What the resources of this process serve, in whatever way."""
        return frozenset(self._holder)

    def release(self, resource: str) -> None:
        """The resource is served no more."""
        self._let_go(unit for unit, holder in self._holder.items() if holder == resource)

    def _let_go(self, units: Iterable[UnitId]) -> None:
        for unit in list(units):
            del self._holder[unit]
            if self._shared is not None:
                self._shared.unlock(unit)

    def _lock(self, unit: UnitId) -> bool:
        return self._shared is None or self._shared.lock(unit)

    def _renew(self) -> Set[UnitId]:
        """The units that others have taken over since somebody removed the files of the locks."""
        lost = frozenset() if self._shared is None else self._shared.renew()
        return self._holder.keys() & lost
