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
    failed: Collection[UnitId] = (),
    lost: Collection[UnitId] = (),
    held_by_device_plugin: Collection[UnitId] = (),
    still_held: Collection[UnitId] = (),
) -> Mapping[UnitId, tuple[DeviceTaint, ...]]:
    """The taints of each unit, one for each dimension.

    Claims are kept off unhealthy units, and off `lost` ones, which disappeared while they are held. A unit's
    resource says what becomes of its holders once it has `failed` for good.
    `still_held` are units prepared for allocations that are none any more.
    """
    found: dict[UnitId, list[DeviceTaint]] = {}
    for one in units_of(tuple(resources)):
        effect: Effect = one.resource.failed if one.unit in failed else "NoSchedule"
        if one.unit in lost:
            found[one.unit] = [DeviceTaint(LOST, effect)]
        elif not one.device.health.is_healthy:
            found[one.unit] = [DeviceTaint(UNHEALTHY, effect)]
    dimensions = ((HELD_BY_DEVICE_PLUGIN, held_by_device_plugin), (STILL_HELD, still_held))
    for key, units in dimensions:
        for unit in units:
            found.setdefault(unit, []).append(DeviceTaint(key, "NoSchedule"))
    return {unit: tuple(taints) for unit, taints in found.items()}
