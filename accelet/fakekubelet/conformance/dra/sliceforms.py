"""ResourceSlices as a driver writes them, parsed: only so far as rules ask for it.

Source: k8s.io/api/resource/v1/types.go, Kubernetes 1.36. What has another shape is no ResourceSlice.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

import msgspec

INT64: Final = range(-(2**63), 2**63)
Json = Mapping[str, Any]


class _Form(msgspec.Struct, frozen=True, rename="camel"):
    """What it does not know is left out, as the API server does with a warning."""


class Attribute(_Form, frozen=True, rename=lambda name: name.rstrip("_")):
    """One value of a device, of one of these kinds."""

    int_: int | None = None
    bool_: bool | None = None
    string: str | None = None
    version: str | None = None
    ints: list[int] | None = None
    bools: list[bool] | None = None
    strings: list[str] | None = None
    versions: list[str] | None = None

    def values(self) -> dict[str, object]:
        """Those that are there, by kind."""
        every = {name: getattr(self, name) for name in self.__struct_fields__}
        return {name.rstrip("_"): value for name, value in every.items() if value is not None}


Amount = str | int | float
"""A quantity: text, or a number, which Kubernetes reads too."""


class ValidRange(_Form, frozen=True):
    """Amounts that may be asked for, in steps."""

    min: Amount | None = None
    max: Amount | None = None
    step: Amount | None = None


class RequestPolicy(_Form, frozen=True):
    """What may be asked of a capacity."""

    default: Amount | None = None
    valid_values: list[Amount] | None = None
    valid_range: ValidRange | None = None


class Capacity(_Form, frozen=True):
    """How much of something a device has."""

    value: Amount
    request_policy: RequestPolicy | None = None


class Counter(_Form, frozen=True):
    """How much of a counter there is, or is used up."""

    value: Amount


class CounterSet(_Form, frozen=True):
    """Counters that the devices of a pool share."""

    name: str = ""
    counters: dict[str, Counter] | None = None


class Consumption(_Form, frozen=True):
    """What a device uses up of a counter set."""

    counter_set: str = ""
    counters: dict[str, Counter] | None = None


class Taint(_Form, frozen=True):
    """Why a device should not be used."""

    key: str = ""
    value: str = ""
    effect: str = ""


class SliceDevice(_Form, frozen=True):
    """One device."""

    name: str = ""
    attributes: dict[str, Attribute] | None = None
    capacity: dict[str, Capacity] | None = None
    consumes_counters: list[Consumption] | None = None
    taints: list[Taint] | None = None
    allow_multiple_allocations: bool | None = None
    binding_conditions: list[str] | None = None
    binding_failure_conditions: list[str] | None = None
    node_name: str | None = None
    node_selector: dict[str, Any] | None = None
    all_nodes: bool | None = None

    @property
    def is_advanced(self) -> bool:
        """Whether it has what a slice of more than 64 devices may not have."""
        lists = ("ints", "bools", "strings", "versions")
        has_lists = any(each.values().keys() & set(lists) for each in (self.attributes or {}).values())
        return bool(self.taints or self.consumes_counters) or has_lists


class SlicePool(_Form, frozen=True):
    """Which pool a slice is part of."""

    name: str = ""
    generation: int = 0
    resource_slice_count: int = 0


class SliceSpec(_Form, frozen=True):
    """The `spec` of a ResourceSlice. A list that is there and empty is not one that is left out."""

    driver: str = ""
    pool: SlicePool = SlicePool()
    node_name: str | None = None
    node_selector: dict[str, Any] | None = None
    all_nodes: bool | None = None
    per_device_node_selection: bool | None = None
    devices: list[SliceDevice] | None = None
    shared_counters: list[CounterSet] | None = None


class SliceError(Exception):
    """An object is no ResourceSlice. The text says where and why."""


def parse_spec(raw: object) -> SliceSpec:
    """The `spec` of a slice.

    Raises:
        SliceError: it has another shape.
    """
    try:
        return msgspec.convert(raw, type=SliceSpec)
    except msgspec.ValidationError as error:
        raise SliceError(f"a slice is no ResourceSlice: {error}") from error


def newest(specs: Iterable[SliceSpec]) -> dict[str, list[SliceSpec]]:
    """The slices of each pool's newest generation, by the pool's name; older ones count no more."""
    found: dict[str, list[SliceSpec]] = {}
    for spec in specs:
        others = found.setdefault(spec.pool.name, [])
        if others and others[0].pool.generation < spec.pool.generation:
            others.clear()
        if not others or others[0].pool.generation == spec.pool.generation:
            others.append(spec)
    return found
