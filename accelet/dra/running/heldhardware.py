"""What claims hold of one driver's hardware, and how it is, also where no resource has it any more."""

from collections.abc import Collection, Mapping, Sequence
from types import MappingProxyType

from accelet.accelerators.device import UnitId
from accelet.accelerators.steadyhealth import HealthByUnit, SteadyHealth
from accelet.dra.pool import Atom, DevicePool, DeviceTaint, Effect, PoolDevice
from accelet.dra.publishing.build import MOST_DEVICES
from accelet.dra.publishing.keeping import (
    HeldDevice,
    Missing,
    add_strays,
    find_missing,
    find_strays,
    follow_missing,
    taint_strays,
    taints_of_missing,
)
from accelet.dra.publishing.served import ServedResource


class HeldHardware:
    """Told what claims hold and what each look found; `health` is that of the parts no resource has."""

    def __init__(self) -> None:
        self._held: tuple[HeldDevice, ...] = ()
        self._missing: Mapping[Atom, Missing] = MappingProxyType({})
        self._effects: dict[UnitId, Effect] = {}
        self._effect: Effect = "NoSchedule"
        self._published: Mapping[str, PoolDevice] = MappingProxyType({})
        self.health: Mapping[Atom, SteadyHealth] = MappingProxyType({})

    @property
    def units(self) -> HealthByUnit:
        """The health of the units that no resource has, which one may have at the next look."""
        return {unit: health for (unit, _), health in self.health.items()}

    @property
    def missing(self) -> frozenset[UnitId]:
        """Units of which claims hold what no resource has."""
        return frozenset(unit for unit, _ in self._missing)

    @property
    def elsewhere(self) -> frozenset[UnitId]:
        """Units that no resource has, and nothing is known to be wrong with."""
        return frozenset(unit for (unit, _), one in self._missing.items() if one.health.is_healthy)

    @property
    def exclusive(self) -> frozenset[UnitId]:
        """The units of which claims hold all or a part."""
        return frozenset(unit for one in self._held if one.is_exclusive for unit, _ in one.atoms)

    def hold(
        self,
        held: tuple[HeldDevice, ...],
        resources: Sequence[ServedResource],
        elsewhere: Collection[UnitId],
        now_s: float,
    ) -> None:
        """From here on claims hold this. Of what is missing already only a look says more."""
        self._held = held
        self._missing = find_missing(held, resources, elsewhere)
        known = {atom: health for atom, health in self.health.items() if atom in self._missing}
        new = {atom: one for atom, one in self._missing.items() if atom not in known}
        self.health = MappingProxyType({**known, **follow_missing({}, new, {}, now_s)})

    def look(
        self,
        resources: Sequence[ServedResource],
        elsewhere: Collection[UnitId],
        before: HealthByUnit,
        now_s: float,
    ) -> None:
        """A look at the hardware found these resources; `before` is the health of units that were there."""
        self._missing = find_missing(self._held, resources, elsewhere)
        self.health = follow_missing(self.health, self._missing, before, now_s)
        said = {one.failed for one in resources}
        self._effect = said.pop() if len(said) == 1 else "NoSchedule"
        missing = {unit for unit, _ in self._missing}
        kept = {unit: effect for unit, effect in self._effects.items() if unit in missing}
        self._effects = kept | {unit: one.failed for one in resources for unit in one.inventory.by_unit}

    def keep_in(self, pool: DevicePool, taints: Mapping[UnitId, tuple[DeviceTaint, ...]]) -> DevicePool:
        """The pool with the taints of its units, and with what claims hold that it does not have so.

        A missing part that has failed for good does what the resource says that had it last. Where that is
        not known, as after a restart, it does what all resources say, or leaves its holders alone.
        """
        strays = find_strays(pool, self._held)
        pool = add_strays(pool, strays, self._published, MOST_DEVICES).with_taints(taints)
        effects: Mapping[Atom, Effect] = {
            atom: self._effects.get(atom[0], self._effect) if health.has_failed else "NoSchedule"
            for atom, health in self.health.items()
        }
        pool = taint_strays(pool, strays, taints_of_missing(self._missing, effects))
        self._published = pool.by_name
        return pool
