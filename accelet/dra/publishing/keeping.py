"""Hardware that claims hold and no resource has by now, and hardware that pods hold by the device plugin.

A card may have left the bus, moved to another resource, or lost a tile; a name may be that of an earlier
version. What a claim was given stays published under its name until it is given back: a device that has
disappeared from its slice can neither be tainted nor reported as unhealthy.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Final

from accelet.accelerators.device import HEALTHY, Health, UnitId
from accelet.accelerators.hardwarename import locate
from accelet.accelerators.inventory import Skipped
from accelet.accelerators.steadyhealth import HealthByUnit, SteadyHealth
from accelet.dra.names import FILES_DRIVER, GPU_DRIVER, label_of
from accelet.dra.pool import Atom, Attribute, Capacity, DevicePool, DeviceTaint, Effect, Kind, PoolDevice
from accelet.dra.publishing.gpus import ASSUMED_DRIVER
from accelet.dra.publishing.served import ServedResource
from accelet.dra.publishing.taints import LOST, STILL_HELD, UNHEALTHY

GONE: Final = "it is not there any more"

ALIVE: Final = frozenset({"pf-with-vfs"})
"""Codes of what is skipped, and can be used by its holders: a physical function that got virtual ones."""

UNKNOWN_NUMBER: Final = -1
"""In place of a chip's number on its host, of which the record tells nothing."""


@dataclass(frozen=True, slots=True)
class HeldDevice:
    """A device as a prepared claim was given it, by the record; `limits` are its capacities."""

    name: str
    atoms: frozenset[Atom]
    is_exclusive: bool = True
    is_shared: bool = False
    limits: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))


@dataclass(frozen=True, slots=True)
class Missing:
    """A part that a claim holds and no resource of the driver has.

    `health` is HEALTHY where nothing is known to be wrong with it: another resource may have it, or no
    resource of the driver is left that looks. `is_lost`: it is not on the node any more.
    """

    health: Health = HEALTHY
    is_lost: bool = False


def newest_only(resources: Sequence[ServedResource]) -> tuple[ServedResource, ...]:
    """The resources, each unit in the last of them that has it alone; in order of when they were looked at.

    While one card moves from a resource to another, the last look at the first may still show it.
    """
    seen: set[UnitId] = set()
    kept = []
    for one in reversed(resources):
        units = one.inventory.by_unit.keys() & seen
        seen |= one.inventory.by_unit.keys()
        kept.append(_without(one, units) if units else one)
    return tuple(reversed(kept))


def _without(resource: ServedResource, units: Collection[UnitId]) -> ServedResource:
    inventory = resource.inventory
    devices = tuple(device for device in inventory.devices if device.unit not in units)
    return replace(resource, inventory=replace(inventory, devices=devices))


def find_missing(
    held: Iterable[HeldDevice], resources: Sequence[ServedResource], elsewhere: Collection[UnitId]
) -> Mapping[Atom, Missing]:
    """The parts that claims hold and no resource of their driver has.

    `resources` are all that the driver has. `elsewhere` are units that other
    resources of this agent serve, in whatever way.
    """
    served = {
        unit: devices[0].tile_count for one in resources for unit, devices in one.inventory.by_unit.items()
    }
    skipped: dict[UnitId, list[Skipped]] = {}
    for one in resources:
        for skip in one.inventory.skipped:
            if skip.unit is not None:
                skipped.setdefault(skip.unit, []).append(skip)
    found: dict[Atom, Missing] = {}
    for unit, tile in sorted({atom for device in held for atom in device.atoms}):
        if unit not in served:
            is_known = bool(resources)
            skips = skipped.get(unit, ())
            found[unit, tile] = _judge_unit(skips, is_elsewhere=unit in elsewhere, is_known=is_known)
        elif tile >= served[unit]:
            found[unit, tile] = Missing(Health(f"its tile {tile} is not there any more"), is_lost=True)
    return MappingProxyType(found)


def _judge_unit(skips: Sequence[Skipped], *, is_elsewhere: bool, is_known: bool) -> Missing:
    if is_elsewhere or any(skip.is_left_to_others or skip.code in ALIVE for skip in skips):
        return Missing()
    if skips:
        return Missing(Health(skips[0].reason, is_unknown=skips[0].is_unknown))
    return Missing(Health(GONE), is_lost=True) if is_known else Missing()


def follow_missing(
    before: Mapping[Atom, SteadyHealth],
    missing: Mapping[Atom, Missing],
    units: HealthByUnit,
    now_s: float,
) -> Mapping[Atom, SteadyHealth]:
    """The health of each missing part after one more look; `units` are those that were there before it."""
    found = {}
    for atom, one in missing.items():
        known = before.get(atom) or units.get(atom[0])
        found[atom] = (
            SteadyHealth.first(one.health, now_s) if known is None else known.followed_by(one.health, now_s)
        )
    return MappingProxyType(found)


def taints_of_missing(
    missing: Mapping[Atom, Missing], effects: Mapping[Atom, Effect]
) -> Mapping[Atom, DeviceTaint]:
    """The taints of parts that claims hold and no resource has, where they are unhealthy or lost."""
    return {
        atom: DeviceTaint(LOST if one.is_lost else UNHEALTHY, effects.get(atom, "NoSchedule"))
        for atom, one in missing.items()
        if not one.health.is_healthy
    }


def find_strays(pool: DevicePool, held: Iterable[HeldDevice]) -> Mapping[str, HeldDevice]:
    """The held devices that the pool does not have as they were given, by name."""
    by_name = pool.by_name
    return {
        one.name: one
        for one in sorted(held, key=lambda one: one.name)
        if one.name not in by_name or by_name[one.name].atoms != one.atoms
    }


def add_strays(
    pool: DevicePool, strays: Mapping[str, HeldDevice], before: Mapping[str, PoolDevice], most: int
) -> DevicePool:
    """The pool with these devices too, `most` in all; `before` has devices as they were published once.

    Each stands for itself: whatever has hardware in common with it is tainted, as `taint_strays` does.
    """
    added = [
        _restore(pool.driver, one, before.get(name))
        for name, one in strays.items()
        if name not in pool.by_name
    ][:most]
    return replace(pool, devices=(*pool.devices[: most - len(added)], *added))


def taint_strays(
    pool: DevicePool, strays: Mapping[str, HeldDevice], taints: Mapping[Atom, DeviceTaint]
) -> DevicePool:
    """Keeps claims off these devices and whatever has hardware in common with them.

    `taints` are those of missing parts. One that evicts goes before one that does not.
    """
    taken = {atom for one in strays.values() if one.is_exclusive for atom in one.atoms}
    return replace(
        pool,
        devices=tuple(
            _taint(device, strays[device.name].atoms, taints)
            if device.name in strays
            else _taint(device, frozenset(), taints)
            if device.is_exclusive and not device.atoms.isdisjoint(taken)
            else device
            for device in pool.devices
        ),
    )


def _taint(device: PoolDevice, atoms: frozenset[Atom], taints: Mapping[Atom, DeviceTaint]) -> PoolDevice:
    own = [taints[atom] for atom in sorted(atoms) if device.is_exclusive and atom in taints]
    by_key = {taint.key: taint for taint in device.taints}
    by_key |= {taint.key: taint for taint in sorted(own, key=lambda taint: taint.effect == "NoExecute")}
    by_key = by_key or {STILL_HELD: DeviceTaint(STILL_HELD, "NoSchedule")}
    return replace(device, taints=tuple(taint for _, taint in sorted(by_key.items())))


def _restore(driver: str, held: HeldDevice, before: PoolDevice | None) -> PoolDevice:
    """A device made of what the record tells, and of what was published once."""
    if before is not None:
        return replace(before, atoms=held.atoms, counter_set=None, counters={}, taints=())
    kind = _kind(driver, held)
    return PoolDevice(
        name=held.name,
        kind=kind,
        atoms=held.atoms,
        attributes=dict(_attributes(kind, held)),
        capacities={
            name: Capacity(limit, limit, limit, 1, is_fixed=True) for name, limit in held.limits.items()
        },
        is_shareable=held.is_shared or kind == "monitor",
    )


def _kind(driver: str, held: HeldDevice) -> Kind:
    if driver == FILES_DRIVER:
        return "file"
    if driver != GPU_DRIVER:
        return "host-chip" if held.name.startswith("chip-") else "box"
    if held.name.endswith("-monitor"):
        return "monitor"
    return "tile" if "-tile-" in held.name else "gpu"


def _attributes(kind: Kind, held: HeldDevice) -> Iterator[tuple[str, Attribute]]:
    """Those that every device of its kind has: an expression that reads a missing one fails the pod."""
    yield "type", kind
    unit, tile = min(held.atoms)
    match kind:
        case "file":
            yield "resource", ""
        case "box" | "host-chip":
            yield "chips", len(held.atoms)
            yield "firstChip", UNKNOWN_NUMBER
        case "tile" | "gpu" | "monitor":
            yield "card", label_of(unit)
            yield "kernelDriver", ASSUMED_DRIVER
            yield "tiles", len(held.atoms)
            if kind == "tile":
                yield "tile", tile


def units_of_ids(ids: Iterable[str], units: Collection[UnitId]) -> frozenset[UnitId]:
    """The units among `units` that these ids of a device plugin's devices are of.

    Ids are names of hardware, whatever the resource is called.
    """
    known = frozenset(units)
    return frozenset(part.unit for one in ids if (part := locate(one, known)) is not None)
