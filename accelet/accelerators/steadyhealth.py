"""The health of one piece of hardware over many looks at it: no single look ends a pod."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final

from accelet.accelerators.device import HEALTHY, Health, UnitId, worst
from accelet.accelerators.inventory import Inventory

GOOD_LOOKS_TO_RECOVER: Final = 2
"""Unhealthy hardware is healthy again after so many good looks in a row."""

UNKNOWN_LOOKS_TO_DOUBT: Final = 3
"""Healthy hardware stays so until so many looks in a row told nothing of it."""

BAD_LOOKS_TO_FAIL: Final = 3
BAD_FOR_S: Final = 9.0
"""Hardware has failed for good after so many bad looks, of which the first is at least so long ago.

The time is a little less than two pauses between scans. A card that is reset gives several hints, and so
several looks, within a second.
"""


@dataclass(frozen=True, slots=True)
class SteadyHealth:
    """What the looks so far add up to.

    A bad look makes hardware unhealthy at once: nothing new is given out on it. `has_failed` takes more, for
    pods may be evicted then: BAD_LOOKS_TO_FAIL bad looks over BAD_FOR_S without a good look between them.
    A look that told nothing counts for neither side.

    `bad_since_s` is when the first of the bad looks was, by the clock of the looks; None without one.
    """

    health: Health = HEALTHY
    has_failed: bool = False
    good_looks: int = 0
    unknown_looks: int = 0
    bad_looks: int = 0
    bad_since_s: float | None = None

    @classmethod
    def first(cls, look: Health, now_s: float = 0.0) -> "SteadyHealth":
        """After the first look, which is believed."""
        return cls(look, bad_looks=1, bad_since_s=now_s) if look.is_bad else cls(look)

    def followed_by(self, look: Health, now_s: float = 0.0) -> "SteadyHealth":
        """After one more look, at `now_s` of a clock that never goes back."""
        if look.is_healthy:
            return self._after_good()
        if look.is_unknown:
            return self._after_unknown(look)
        since_s = now_s if self.bad_since_s is None else self.bad_since_s
        bad_looks = self.bad_looks + 1
        is_lasting = bad_looks >= BAD_LOOKS_TO_FAIL and now_s - since_s >= BAD_FOR_S
        return SteadyHealth(look, self.has_failed or is_lasting, bad_looks=bad_looks, bad_since_s=since_s)

    def _after_good(self) -> "SteadyHealth":
        good_looks = self.good_looks + 1
        if self.health.is_healthy or good_looks >= GOOD_LOOKS_TO_RECOVER:
            return SteadyHealth()
        return SteadyHealth(self.health, self.has_failed, good_looks=good_looks)

    def _after_unknown(self, look: Health) -> "SteadyHealth":
        unknown_looks = self.unknown_looks + 1
        is_believed = self.health.is_unknown or (
            self.health.is_healthy and unknown_looks >= UNKNOWN_LOOKS_TO_DOUBT
        )
        return replace(
            self, health=look if is_believed else self.health, good_looks=0, unknown_looks=unknown_looks
        )


HealthByUnit = Mapping[UnitId, SteadyHealth]


def follow_units(before: HealthByUnit, inventory: Inventory, now_s: float) -> HealthByUnit:
    """The health of each unit of an inventory after this look at them.

    A unit is as healthy as its worst device; a device known to be bad is worse than one nobody knows of.
    """
    return MappingProxyType(
        {
            unit: _follow(before.get(unit), worst(device.health for device in devices), now_s)
            for unit, devices in inventory.by_unit.items()
        }
    )


def _follow(before: SteadyHealth | None, look: Health, now_s: float) -> SteadyHealth:
    return SteadyHealth.first(look, now_s) if before is None else before.followed_by(look, now_s)


def steady_inventory(inventory: Inventory, units: HealthByUnit) -> Inventory:
    """The inventory with each device as healthy as its unit is by all looks."""
    return replace(
        inventory,
        devices=tuple(replace(device, health=units[device.unit].health) for device in inventory.devices),
    )


def keep_unknown(before: Inventory, now: Inventory) -> Inventory:
    """What this look found, and beside it the units of `before` of which it could not tell what they are."""
    reasons = {
        skipped.unit: skipped.reason
        for skipped in now.skipped
        if skipped.is_unknown and skipped.unit in before.by_unit and skipped.unit not in now.by_unit
    }
    if not reasons:
        return now
    kept = [
        replace(device, health=Health(reasons[device.unit], is_unknown=True))
        for device in before.devices
        if device.unit in reasons
    ]
    devices = tuple(sorted((*now.devices, *kept), key=lambda device: (device.pci or "", device.unit)))
    return replace(now, devices=devices, missing=max(0, now.missing - len(reasons)))


def all_unknown(before: Inventory, reason: str) -> Inventory:
    """The inventory after a look that told nothing, for this reason."""
    unknown = Health(reason, is_unknown=True)
    return replace(before, devices=tuple(replace(device, health=unknown) for device in before.devices))
