"""What one scan found."""

from collections.abc import Mapping, Set
from dataclasses import dataclass, field
from functools import cached_property
from types import MappingProxyType
from typing import Final

from accelet.accelerators.device import Device, DeviceId, Health, UnitId

_UNKNOWN: Final = frozenset({"no-answer", "unreadable-vendor", "unreadable-device-id", "bad-sriov"})

NOTHING_TOLD: Mapping[DeviceId, Health] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Skipped:
    """A candidate that is not served: where it is, a stable code (`no-device-node`), and a sentence.

    `unit` names the unit the candidate would have been, where that is known: whoever served it before
    can give its devices this reason. The codes `not-selected` (the settings of this resource leave the unit
    to others) and `served-elsewhere` (another resource or process has it) say that nothing is wrong with it.
    """

    path: str
    code: str
    reason: str
    unit: UnitId | None = None

    @property
    def is_left_to_others(self) -> bool:
        return self.code in ("not-selected", "served-elsewhere")

    @property
    def is_unknown(self) -> bool:
        """Whether the look could not tell what it is: a unit that was served before may be as it was."""
        return self.code in _UNKNOWN


@dataclass(frozen=True)
class Inventory:
    """One scan's snapshot of one resource.

    `devices` are in order of hardware (PCI address, then tile, then share) and have unique ids.
    `slice_shape` is that of the TPU slice this host belongs to (`4x8`), `host_shape` that of the host's own
    part of it (`2x2`), both empty for other hardware; `missing` is how
    many of its units are not there. `remember` is what later scans of this
    resource want to know of this one (`NodeFacts.remembered`), also after a restart; None for nothing.
    `unanswered` are the host paths that the scan went on without: reading them did not end in time.
    """

    devices: tuple[Device, ...] = ()
    skipped: tuple[Skipped, ...] = ()
    slice_shape: str | None = None
    host_shape: str | None = None
    missing: int = 0
    remember: str | None = None
    warnings: tuple[str, ...] = field(default=())
    unanswered: tuple[str, ...] = ()

    @cached_property
    def by_id(self) -> Mapping[DeviceId, Device]:
        return MappingProxyType({device.id: device for device in self.devices})

    def in_order(self, ids: Set[DeviceId]) -> tuple[Device, ...]:
        """The devices of these ids that there are, in order of hardware."""
        return tuple(
            self.by_id[one] for one in sorted(ids & self._places.keys(), key=self._places.__getitem__)
        )

    @cached_property
    def _places(self) -> Mapping[DeviceId, int]:
        return {device.id: place for place, device in enumerate(self.devices)}

    @cached_property
    def by_unit(self) -> Mapping[UnitId, tuple[Device, ...]]:
        """The devices of each physical unit, both in order of hardware."""
        found: dict[UnitId, list[Device]] = {}
        for device in self.devices:
            found.setdefault(device.unit, []).append(device)
        return MappingProxyType({unit: tuple(devices) for unit, devices in found.items()})

    @cached_property
    def unit_of_card(self) -> Mapping[str, UnitId]:
        """The units by their DRM names."""
        named = ((devices[0].card, unit) for unit, devices in self.by_unit.items())
        return MappingProxyType({card: unit for card, unit in named if card is not None})


def list_health(
    inventory: Inventory, told: Mapping[DeviceId, Health] = NOTHING_TOLD
) -> dict[str, str | None]:
    """Why each unit is ill, by its PCI address or id: the first reason of its devices, None for a well one.

    `told` is the health that the kubelet was told, where it is another than was found.
    """
    found: dict[str, str | None] = {}
    for device in inventory.devices:
        unit, reason = device.pci or device.unit, told.get(device.id, device.health).reason
        found[unit] = found.get(unit) or reason
    return found
