"""A pool as the API's ResourceSlices: counters first, then devices, in the order of the pool.

Limits are those of Kubernetes 1.36, pkg/apis/resource/validation. The division does not depend on taints,
so that one that comes or goes moves no device to another slice.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from accelet.dra.pool import MEMORY, Attribute, Capacity, CounterSet, DevicePool, DeviceTaint, PoolDevice
from accelet.kube.apiresources import ApiResource, Body

RESOURCE_SLICES: Final = ApiResource("ResourceSlice", "resourceslices", "resource.k8s.io", "v1")

MOST_COUNTER_SETS: Final = 8
MOST_DEVICES: Final = 64
"""In one slice: with counters or taints; 128 without either."""

_LONGEST_PREFIX: Final = 58
"""What the API server cuts a generateName to before it appends five characters."""

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Slice:
    """One ResourceSlice of a pool: counter sets or devices, at its place in the pool."""

    index: int
    counter_sets: tuple[CounterSet, ...] = ()
    devices: tuple[PoolDevice, ...] = ()


def divide(pool: DevicePool) -> tuple[Slice, ...]:
    """The slices of a pool, an empty one where there is nothing to publish."""
    counters = [Slice(0, counter_sets=sets) for sets in _batches(pool.counter_sets, MOST_COUNTER_SETS)]
    devices = [Slice(0, devices=some) for some in _batches(pool.devices, MOST_DEVICES)]
    parts = [*counters, *devices] or [Slice(0)]
    return tuple(Slice(index, part.counter_sets, part.devices) for index, part in enumerate(parts))


def _batches(items: tuple[T, ...], size: int) -> Sequence[tuple[T, ...]]:
    return [items[first : first + size] for first in range(0, len(items), size)]


def name_prefix(index: int, driver: str, node: str) -> str:
    """The beginning of a slice's name: its place in the pool first, by which schedulers order them."""
    return f"{index:05x}-{driver}-{node}-"[:_LONGEST_PREFIX]


def render(pool: DevicePool, part: Slice, *, generation: int, count: int) -> Body:
    """The ResourceSlice for `part` of a pool of `count` slices."""
    spec: dict[str, object] = {
        "driver": pool.driver,
        "nodeName": pool.node,
        "pool": {"name": pool.node, "generation": generation, "resourceSliceCount": count},
    }
    if part.counter_sets:
        spec["sharedCounters"] = [_counter_set(one) for one in part.counter_sets]
    if part.devices:
        spec["devices"] = [_device(pool.driver, device) for device in part.devices]
    return {
        "apiVersion": RESOURCE_SLICES.api_version,
        "kind": RESOURCE_SLICES.kind,
        "metadata": {"generateName": name_prefix(part.index, pool.driver, pool.node)},
        "spec": spec,
    }


def render_all(pool: DevicePool, generation: int = 1) -> tuple[Body, ...]:
    """Every slice of a pool that nobody has published yet."""
    parts = divide(pool)
    return tuple(render(pool, part, generation=generation, count=len(parts)) for part in parts)


def _counter_set(one: CounterSet) -> Mapping[str, object]:
    return {"name": one.name, "counters": _counters(one.counters)}


def _counters(counters: Mapping[str, int]) -> Mapping[str, object]:
    return {name: {"value": amount_text(name, value)} for name, value in counters.items()}


def _device(driver: str, device: PoolDevice) -> Mapping[str, object]:
    return dict(_device_fields(driver, device))


def _device_fields(driver: str, device: PoolDevice) -> Iterator[tuple[str, object]]:
    yield "name", device.name
    yield "attributes", {name: _attribute(value) for name, value in device.attributes.items()}
    if device.capacities:
        shared = device.is_shareable
        yield (
            "capacity",
            {name: _capacity(name, one, shared=shared) for name, one in device.capacities.items()},
        )
    if device.counter_set is not None:
        used = {"counterSet": device.counter_set, "counters": _counters(device.counters)}
        yield "consumesCounters", [used]
    if device.is_shareable:
        yield "allowMultipleAllocations", True
    if device.taints:
        yield "taints", [_taint(driver, taint) for taint in device.taints]


def _attribute(value: Attribute) -> Mapping[str, object]:
    match value:
        case bool():
            return {"bool": value}
        case int():
            return {"int": value}
    return {"string": value}


def _capacity(name: str, capacity: Capacity, *, shared: bool) -> Mapping[str, object]:
    value = amount_text(name, capacity.value)
    if not shared:
        return {"value": value}
    default = amount_text(name, capacity.default)
    if capacity.is_fixed:
        return {"value": value, "requestPolicy": {"default": default, "validValues": [default]}}
    valid = {
        "min": amount_text(name, capacity.least),
        "max": value,
        "step": amount_text(name, capacity.step),
    }
    return {"value": value, "requestPolicy": {"default": default, "validRange": valid}}


def _taint(driver: str, taint: DeviceTaint) -> Mapping[str, object]:
    told = {"key": f"{driver}/{taint.key}", "effect": taint.effect}
    return {**told, "value": taint.value} if taint.value else told


def amount_text(name: str, amount: int) -> str:
    """An amount as people write it: memory with the largest binary suffix that keeps it whole."""
    if name != MEMORY or amount == 0:
        return str(amount)
    for power, suffix in reversed(list(enumerate(("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")))):
        if amount % 1024**power == 0:
            return f"{amount // 1024**power}{suffix}"
    raise AssertionError("every whole number is a multiple of 1")
