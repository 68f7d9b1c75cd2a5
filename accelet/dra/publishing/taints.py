"""Which units claims are kept off, and why."""

from collections.abc import Collection, Iterable, Mapping
from typing import Final

from accelet.accelerators.device import UnitId
from accelet.dra.pool import DeviceTaint
from accelet.dra.publishing.served import ServedResource, units_of

UNHEALTHY: Final = "unhealthy"
LOST: Final = "lost"
HELD_BY_DEVICE_PLUGIN: Final = "held-by-device-plugin"
STILL_HELD: Final = "still-held"


def taints_of(
    resources: Iterable[ServedResource],
    *,
    lost: Collection[UnitId] = (),
    held_by_device_plugin: Collection[UnitId] = (),
    still_held: Collection[UnitId] = (),
) -> Mapping[UnitId, tuple[DeviceTaint, ...]]:
    """The taints of each unit, one for each dimension.

    What `lost` units do, which disappeared while they are held, and what ill ones do, their resource says.
    `still_held` are units prepared for allocations that are none any more.
    """
    found: dict[UnitId, list[DeviceTaint]] = {}
    for one in units_of(tuple(resources)):
        if one.unit in lost:
            found[one.unit] = [DeviceTaint(LOST, one.resource.sick)]
        elif not one.device.health.is_healthy:
            found[one.unit] = [DeviceTaint(UNHEALTHY, one.resource.sick)]
    dimensions = ((HELD_BY_DEVICE_PLUGIN, held_by_device_plugin), (STILL_HELD, still_held))
    for key, units in dimensions:
        for unit in units:
            found.setdefault(unit, []).append(DeviceTaint(key, "NoSchedule"))
    return {unit: tuple(taints) for unit, taints in found.items()}
