"""Which units claims are kept off, and why."""

from collections.abc import Collection, Iterable, Mapping
from typing import Final

from accelet.accelerators.device import UnitId
from accelet.dra.pool import Effect, Taint
from accelet.dra.publishing.served import ServedResource, units_of

UNHEALTHY: Final = "unhealthy"
LOST: Final = "lost"
HELD_BY_DEVICE_PLUGIN: Final = "held-by-device-plugin"


def taints_of(
    resources: Iterable[ServedResource],
    *,
    sick: Effect = "NoSchedule",
    lost: Collection[UnitId] = (),
    held_by_device_plugin: Collection[UnitId] = (),
) -> Mapping[UnitId, tuple[Taint, ...]]:
    """The taints of each unit, one for each dimension.

    `sick` is what a unit's loss of health, or its disappearance while it is held (`lost`), does:
    `NoSchedule` leaves its holders alone.
    """
    found: dict[UnitId, list[Taint]] = {}
    for served in units_of(tuple(resources)):
        if not served.device.health.is_healthy:
            found.setdefault(served.unit, []).append(Taint(UNHEALTHY, sick))
    for unit in lost:
        found.setdefault(unit, []).append(Taint(LOST, sick))
    for unit in held_by_device_plugin:
        found.setdefault(unit, []).append(Taint(HELD_BY_DEVICE_PLUGIN, "NoSchedule"))
    return {unit: tuple(taints) for unit, taints in found.items()}
