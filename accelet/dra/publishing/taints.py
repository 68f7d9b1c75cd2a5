"""Which units claims are kept off, and why."""

from collections.abc import Collection, Iterable, Mapping
from typing import Final

from accelet.accelerators.device import UnitId
from accelet.dra.pool import DeviceTaint, Effect
from accelet.dra.publishing.served import ServedResource, units_of

UNHEALTHY: Final = "unhealthy"
LOST: Final = "lost"
HELD_BY_DEVICE_PLUGIN: Final = "held-by-device-plugin"
STILL_HELD: Final = "still-held"


def taints_of(
    resources: Iterable[ServedResource],
    *,
    sick: Effect = "NoSchedule",
    lost: Collection[UnitId] = (),
    held_by_device_plugin: Collection[UnitId] = (),
    still_held: Collection[UnitId] = (),
) -> Mapping[UnitId, tuple[DeviceTaint, ...]]:
    """The taints of each unit, one for each dimension.

    `sick` is what a unit's loss of health, or its disappearance while it is held (`lost`), does:
    `NoSchedule` leaves its holders alone. `still_held` are units prepared for allocations that are none
    any more.
    """
    found: dict[UnitId, list[DeviceTaint]] = {}
    unhealthy = (one.unit for one in units_of(tuple(resources)) if not one.device.health.is_healthy)
    dimensions: tuple[tuple[str, Effect, Iterable[UnitId]], ...] = (
        (UNHEALTHY, sick, set(unhealthy) - set(lost)),
        (LOST, sick, lost),
        (HELD_BY_DEVICE_PLUGIN, "NoSchedule", held_by_device_plugin),
        (STILL_HELD, "NoSchedule", still_held),
    )
    for key, effect, units in dimensions:
        for unit in units:
            found.setdefault(unit, []).append(DeviceTaint(key, effect))
    return {unit: tuple(taints) for unit, taints in found.items()}
