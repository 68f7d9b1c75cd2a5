"""What one driver offers on one node: devices, what each takes of the hardware, and counters for it."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType
from typing import Literal

from accelet.accelerators.device import UnitId

Atom = tuple[UnitId, int]
"""The smallest part of the hardware that is given out: a tile of a card, or a whole unit as its part 0."""

Kind = Literal["tile", "gpu", "monitor", "box", "host-chip", "file"]
"""`host-chip` is one chip of a TPU host that is given out only whole: all of them, or none."""

Attribute = bool | int | str

Effect = Literal["None", "NoSchedule", "NoExecute"]

MILLICORES = "millicores"
MEMORY = "memory"
HOLDERS = "holders"


@dataclass(frozen=True, slots=True)
class Capacity:
    """An amount that holders take parts of: `default` where a claim says nothing, in steps of `step`.

    `least` is the smallest part. `is_fixed`: every holder takes `default`. Memory is in bytes.
    """

    value: int
    default: int
    least: int
    step: int
    is_fixed: bool = False


@dataclass(frozen=True, slots=True)
class DeviceTaint:
    """Keeps claims off a device: `key` without the driver's name (`unhealthy`)."""

    key: str
    effect: Effect
    value: str = ""


@dataclass(frozen=True, slots=True)
class PoolDevice:
    """One device as it is published.

    `atoms` are what it is made of; two devices with an atom in common are never held at once, but
    for monitors, and for several shares of one device. `tiles` is set where a container gets not all tiles
    of the unit. `attributes` by the names they are published under; `counters` are those of `counter_set`.
    """

    name: str
    kind: Kind
    atoms: frozenset[Atom]
    attributes: Mapping[str, Attribute]
    counter_set: str | None = None
    counters: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    capacities: Mapping[str, Capacity] = field(default_factory=lambda: MappingProxyType({}))
    is_shareable: bool = False
    taints: tuple[DeviceTaint, ...] = ()

    @property
    def units(self) -> frozenset[UnitId]:
        return frozenset(unit for unit, _ in self.atoms)

    @property
    def is_exclusive(self) -> bool:
        """Whether holding it keeps others off the hardware."""
        return self.kind != "monitor"


@dataclass(frozen=True, slots=True)
class CounterSet:
    """Amounts of one physical unit that devices made of it use up together."""

    name: str
    counters: Mapping[str, int]


@dataclass(frozen=True)
class DevicePool:
    """Everything `driver` publishes on `node`, in the order in which the scheduler tries it.

    `left_out` are sentences on what is there and not published.
    """

    driver: str
    node: str
    counter_sets: tuple[CounterSet, ...] = ()
    devices: tuple[PoolDevice, ...] = ()
    left_out: tuple[str, ...] = ()

    @cached_property
    def by_name(self) -> Mapping[str, PoolDevice]:
        return MappingProxyType({device.name: device for device in self.devices})

    def with_taints(self, taints: Mapping[UnitId, tuple[DeviceTaint, ...]]) -> "DevicePool":
        """The same pool with the taints of each unit on every device made of it, monitors excepted."""
        return replace(self, devices=tuple(_taint(device, taints) for device in self.devices))


def _taint(device: PoolDevice, taints: Mapping[UnitId, tuple[DeviceTaint, ...]]) -> PoolDevice:
    if not device.is_exclusive:
        return device
    by_key = {taint.key: taint for unit in sorted(device.units) for taint in taints.get(unit, ())}
    return replace(device, taints=tuple(taint for _, taint in sorted(by_key.items())))
