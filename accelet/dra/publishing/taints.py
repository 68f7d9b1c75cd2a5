"""Which units claims are kept off, and why."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from accelet.accelerators.device import UnitId
from accelet.dra.pool import DevicePool, DeviceTaint, Effect
from accelet.dra.publishing.served import ServedResource, units_of

UNHEALTHY: Final = "unhealthy"
LOST: Final = "lost"
HELD_BY_DEVICE_PLUGIN: Final = "held-by-device-plugin"
STILL_HELD: Final = "still-held"
NO_RECORD: Final = "record-unreadable"


def taints_of(
    resources: Sequence[ServedResource],
    *,
    failed: Collection[UnitId] = (),
    held_by_device_plugin: Collection[UnitId] = (),
    still_held: Collection[UnitId] = (),
    held: Collection[UnitId] = (),
) -> Mapping[UnitId, tuple[DeviceTaint, ...]]:
    """The taints of each unit, one for each dimension.

    Claims are kept off unhealthy units. A unit's resource says what becomes of its holders once it has
    `failed` for good. `still_held` are units prepared for allocations that are none any more, `held` all that
    claims hold. Claims are kept off virtual functions too whose physical one is held.
    """
    found: dict[UnitId, list[DeviceTaint]] = {}
    for one in units_of(resources):
        effect: Effect = one.resource.failed if one.unit in failed else "NoSchedule"
        if not one.device.health.is_healthy:
            found[one.unit] = [DeviceTaint(UNHEALTHY, effect)]
    by_plugin = {*held_by_device_plugin, *_functions_of(held_by_device_plugin, resources)}
    by_claims = {*still_held, *_functions_of({*still_held, *held}, resources)}
    for key, units in ((HELD_BY_DEVICE_PLUGIN, by_plugin), (STILL_HELD, by_claims)):
        for unit in units:
            found.setdefault(unit, []).append(DeviceTaint(key, "NoSchedule"))
    return {unit: tuple(taints) for unit, taints in found.items()}


def close_pool(pool: DevicePool) -> DevicePool:
    """The pool with no device open to new claims, monitors included: the driver would refuse them all."""
    closed = DeviceTaint(NO_RECORD, "NoSchedule")
    devices = (replace(one, taints=(*one.taints, closed)) for one in pool.devices)
    return replace(pool, devices=tuple(devices))


def _functions_of(held: Collection[UnitId], resources: Sequence[ServedResource]) -> Iterator[UnitId]:
    """The virtual functions of held physical ones, which are parts of what is held."""
    return (one.unit for one in units_of(resources) if one.device.parent in held)
