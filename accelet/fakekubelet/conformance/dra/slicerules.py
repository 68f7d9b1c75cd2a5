"""What Kubernetes 1.36 takes as the ResourceSlices of a pool. Nothing here is called but with a pool.

Sources: the API server's pkg/apis/resource/validation/validation.go and types.go, which refuses a slice; the
scheduler's k8s.io/dynamic-resource-allocation/structured/internal/incubating/pools_incubating.go, which
skips a whole pool (`buildPool`), and allocator_incubating.go, which never allocates a device that wants more
of a counter than there is (`checkAvailableCounters`).
"""

import re
from collections import Counter as Count
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from math import ceil
from typing import Final

from accelet.fakekubelet.conformance.dra.sliceforms import (
    INT64,
    Amount,
    Attribute,
    Capacity,
    CounterSet,
    SliceDevice,
    SliceSpec,
    Taint,
    ValidRange,
)
from accelet.kube.errors import QuantityError
from accelet.kube.quantity import Quantity, parse_quantity

_LABEL: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_SUBDOMAIN: Final = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_IDENTIFIER: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_LABEL_NAME: Final = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?", re.ASCII)
_VERSION: Final = re.compile(
    r"(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)"
    r"(-(0|[1-9][0-9]*|[0-9]*[a-zA-Z-][0-9a-zA-Z-]*)(\.(0|[1-9][0-9]*|[0-9]*[a-zA-Z-][0-9a-zA-Z-]*))*)?"
    r"(\+[0-9a-zA-Z-]+(\.[0-9a-zA-Z-]+)*)?"
)
_EFFECTS: Final = ("None", "NoSchedule", "NoExecute")

MOST_DEVICES: Final = 128
MOST_ADVANCED_DEVICES: Final = 64
_MOST_SETS: Final = 8
_MOST_COUNTERS: Final = 32
_MOST_CONSUMED_SETS: Final = 2
_MOST_ATTRIBUTES: Final = 32
_MOST_VALUES: Final = 48
_MOST_TAINTS: Final = 16
_MOST_CONDITIONS: Final = 4
_MOST_VALID_VALUES: Final = 10
_LONGEST_TEXT: Final = 64
_LONGEST_IDENTIFIER: Final = 32
_LONGEST_DOMAIN: Final = 63
_LONGEST_SUBDOMAIN: Final = 253


class Rule(Enum):
    """What a fault is against."""

    POOL = "one whole pool of this node, with each device once"
    SIZE = "no more of anything than is allowed"
    COUNTERS = "counters that are there, and no more than there is"
    NAMES = "names and keys"
    VALUES = "values of attributes"
    TAINTS = "taints"
    SEPARATE = "devices and counters in slices of their own"
    CAPACITIES = "capacities, and what may be asked of them"


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing that Kubernetes would not take."""

    rule: Rule
    text: str


def pool_faults(specs: Sequence[SliceSpec]) -> list[Fault]:
    """What is wrong with the slices of one pool, all of one generation."""
    return [
        *_pool_faults(specs),
        *_counter_faults(specs),
        *(fault for spec in specs for fault in _slice_faults(spec)),
        *(fault for spec in specs for device in spec.devices or () for fault in _device_faults(device)),
    ]


def _pool_faults(specs: Sequence[SliceSpec]) -> Iterator[Fault]:
    if any(spec.pool.resource_slice_count != len(specs) for spec in specs):
        counts = sorted({spec.pool.resource_slice_count for spec in specs})
        yield Fault(Rule.POOL, f"{len(specs)} slices are there, and they say {', '.join(map(str, counts))}")
    names = Count(device.name for spec in specs for device in spec.devices or ())
    for name, count in names.items():
        if count > 1:
            yield Fault(Rule.POOL, f"the device {name} is in its pool {count} times")


def _slice_faults(spec: SliceSpec) -> Iterator[Fault]:
    if spec.pool.generation < 0:
        yield Fault(Rule.POOL, f"the generation {spec.pool.generation} is below 0")
    chosen = [spec.node_name, spec.node_selector, spec.all_nodes, spec.per_device_node_selection]
    if sum(each is not None for each in chosen) != 1 or "" in chosen or False in chosen:
        yield Fault(
            Rule.POOL,
            "one of nodeName, nodeSelector, allNodes and perDeviceNodeSelection is needed, and one only",
        )
    if spec.devices is not None and spec.shared_counters is not None:
        yield Fault(
            Rule.SEPARATE, "a slice has devices and sharedCounters; leave one of them out, also if empty"
        )
    devices = spec.devices or ()
    most = MOST_ADVANCED_DEVICES if any(each.is_advanced for each in devices) else MOST_DEVICES
    if len(devices) > most:
        yield Fault(Rule.SIZE, f"a slice has {len(devices)} devices; {most} are allowed")
    for device in devices:
        if (
            why := _selection_fault(device, is_per_device=spec.per_device_node_selection is True)
        ) is not None:
            yield Fault(Rule.POOL, f"{device.name} {why}")
    yield from _name_faults(spec)


def _selection_fault(device: SliceDevice, *, is_per_device: bool) -> str | None:
    chosen = [each for each in (device.node_name, device.node_selector, device.all_nodes) if each is not None]
    if not is_per_device:
        return "names a node, and perDeviceNodeSelection is not true" if chosen else None
    if len(chosen) != 1 or "" in chosen or False in chosen:
        return "has to name one of nodeName, nodeSelector and allNodes"
    return None


def _name_faults(spec: SliceSpec) -> Iterator[Fault]:
    if not _is_domain(spec.driver):
        yield Fault(
            Rule.NAMES, f"{spec.driver!r} is no name of a driver: a DNS subdomain of up to 63 characters"
        )
    parts = spec.pool.name.split("/")
    if len(spec.pool.name) > _LONGEST_SUBDOMAIN or not all(map(_is_subdomain, parts)):
        yield Fault(Rule.NAMES, f"{spec.pool.name!r} is no name of a pool: DNS subdomains joined by /")
    for name in _counter_names(spec):
        if _LABEL.fullmatch(name) is None:
            yield Fault(Rule.NAMES, f"{name!r} is no name of counters: a DNS label")
    for device in spec.devices or ():
        if _LABEL.fullmatch(device.name) is None:
            yield Fault(Rule.NAMES, f"{device.name!r} is no name of a device: a DNS label")
        for key in (*(device.attributes or {}), *(device.capacity or {})):
            if (why := _key_fault(key)) is not None:
                yield Fault(Rule.NAMES, f"{device.name}: the key {key!r} {why}")


def _counter_names(spec: SliceSpec) -> Iterator[str]:
    """Of sets and counters, as they are shared and as they are consumed."""
    for one in spec.shared_counters or ():
        yield from (one.name, *(one.counters or {}))
    for device in spec.devices or ():
        for used in device.consumes_counters or ():
            yield from (used.counter_set, *(used.counters or {}))


def _is_subdomain(text: str, longest: int = _LONGEST_SUBDOMAIN) -> bool:
    return _SUBDOMAIN.fullmatch(text) is not None and len(text) <= longest


def _is_domain(text: str) -> bool:
    """A driver, or the domain of a key: of either case, since both are judged as CSI drivers' names are."""
    return _is_subdomain(text.lower(), _LONGEST_DOMAIN)


def _key_fault(key: str) -> str | None:
    """Why `key` is no name of an attribute or a capacity. The API server looks at no key of two slashes."""
    if key.count("/") > 1:
        return None
    domain, slash, identifier = key.rpartition("/")
    if slash and not _is_domain(domain):
        return "has a domain that is no DNS subdomain of up to 63 characters"
    if _IDENTIFIER.fullmatch(identifier) is None:
        return "is no C identifier: letters, digits and _ alone"
    if len(identifier) > _LONGEST_IDENTIFIER:
        return f"has {len(identifier)} characters; {_LONGEST_IDENTIFIER} are allowed"
    return None


# Counters.


def _counter_faults(specs: Sequence[SliceSpec]) -> Iterator[Fault]:
    sets = [one for spec in specs for one in spec.shared_counters or ()]
    for name, count in Count(one.name for one in sets).items():
        if count > 1:
            yield Fault(Rule.COUNTERS, f"the counter set {name} is in its pool {count} times")
    for spec in specs:
        if len(spec.shared_counters or ()) > _MOST_SETS:
            yield Fault(Rule.SIZE, f"a slice has more than {_MOST_SETS} counter sets")
    for one in sets:
        yield from _set_faults(one)
    there = {one.name: _amounts(one) for one in sets}
    for spec in specs:
        for device in spec.devices or ():
            yield from (Fault(rule, f"{device.name} {text}") for rule, text in _used_faults(device, there))


def _set_faults(one: CounterSet) -> Iterator[Fault]:
    counters = one.counters or {}
    if not 1 <= len(counters) <= _MOST_COUNTERS:
        yield Fault(
            Rule.SIZE, f"the counter set {one.name} has {len(counters)} counters; 1 to 32 are allowed"
        )
    for name, counter in counters.items():
        if _quantity(counter.value) is None:
            yield Fault(Rule.COUNTERS, f"{counter.value!r} of the counter {one.name}/{name} is no quantity")


def _amounts(one: CounterSet) -> dict[str, Quantity]:
    return {name: _quantity(counter.value) or 0 for name, counter in (one.counters or {}).items()}


def _used_faults(
    device: SliceDevice, there: Mapping[str, Mapping[str, Quantity]]
) -> Iterator[tuple[Rule, str]]:
    used = device.consumes_counters or ()
    if len(used) > _MOST_CONSUMED_SETS:
        yield Rule.SIZE, f"consumes from {len(used)} counter sets; {_MOST_CONSUMED_SETS} are allowed"
    if len({one.counter_set for one in used}) != len(used):
        yield Rule.COUNTERS, "names a counter set twice"
    for one in used:
        if not 1 <= len(one.counters or {}) <= _MOST_COUNTERS:
            yield Rule.SIZE, f"consumes {len(one.counters or {})} counters of a set; 1 to 32 are allowed"
        for name, counter in (one.counters or {}).items():
            if (why := _used_fault(counter.value, there.get(one.counter_set), name)) is not None:
                yield Rule.COUNTERS, f"consumes {counter.value!r} of {one.counter_set}/{name}, {why}"


def _used_fault(wanted: Amount, counters: Mapping[str, Quantity] | None, name: str) -> str | None:
    amount = _quantity(wanted)
    if amount is None:
        return "which is no quantity"
    if counters is None:
        return "a counter set that no slice has"
    if (there := counters.get(name)) is None:
        return "which is not there"
    return f"of which there is {there}" if amount > there else None


# Devices.


def _device_faults(device: SliceDevice) -> Iterator[Fault]:
    attributes, capacity = device.attributes or {}, device.capacity or {}
    if (count := len(attributes) + len(capacity)) > _MOST_ATTRIBUTES:
        text = f"{device.name} has {count} attributes and capacities; {_MOST_ATTRIBUTES} are allowed"
        yield Fault(Rule.SIZE, text)
    if (count := sum(map(_count_values, attributes.values()))) > _MOST_VALUES:
        yield Fault(Rule.SIZE, f"{device.name} has {count} values; {_MOST_VALUES} are allowed")
    for key, attribute in attributes.items():
        for text in _value_faults(attribute):
            yield Fault(Rule.VALUES, f"{device.name}: {key} {text}")
    for key, one in capacity.items():
        for text in _capacity_faults(one, is_shared=bool(device.allow_multiple_allocations)):
            yield Fault(Rule.CAPACITIES, f"{device.name}: {key} {text}")
    if len(device.taints or ()) > _MOST_TAINTS:
        yield Fault(Rule.SIZE, f"{device.name} has more than {_MOST_TAINTS} taints")
    for taint in device.taints or ():
        for text in _taint_faults(taint):
            yield Fault(Rule.TAINTS, f"{device.name}: {text}")
    yield from (Fault(Rule.POOL, f"{device.name}: {text}") for text in _condition_faults(device))


def _count_values(attribute: Attribute) -> int:
    return sum(len(value) if isinstance(value, list) else 1 for value in attribute.values().values())


def _value_faults(attribute: Attribute) -> Iterator[str]:
    given = attribute.values()
    if len(given) != 1:
        kinds = " and ".join(given) or "no value"
        yield f"has {kinds}; one of int, bool, string and version is needed"
    for kind, value in given.items():
        if value == []:
            yield "has an empty list"
        for each in value if isinstance(value, list) else [value]:
            if (why := _one_value_fault(kind.rstrip("s"), each)) is not None:
                yield why


def _one_value_fault(kind: str, value: object) -> str | None:
    if kind == "int" and value not in INT64:
        return f"is {value}, which has more than 64 bits"
    if not isinstance(value, str):
        return None
    if (length := len(value.encode())) > _LONGEST_TEXT:
        return f"has {length} bytes; {_LONGEST_TEXT} are allowed"
    if kind == "version" and _VERSION.fullmatch(value) is None:
        return f"is {value!r}, which is no version of the form 1.2.3"
    return None


def _taint_faults(taint: Taint) -> Iterator[str]:
    prefix, slash, name = taint.key.rpartition("/")
    if (slash and not _is_subdomain(prefix)) or _LABEL_NAME.fullmatch(name) is None:
        yield f"the taint's key {taint.key!r} is no label key"
    if taint.value and _LABEL_NAME.fullmatch(taint.value) is None:
        yield f"the taint's value {taint.value!r} is no label value"
    if taint.effect not in _EFFECTS:
        yield f"the taint's effect is {taint.effect!r}; {', '.join(_EFFECTS)} are known"


def _condition_faults(device: SliceDevice) -> Iterator[str]:
    """Binding conditions: up to four of each kind, both kinds or none, none twice."""
    good, bad = device.binding_conditions or [], device.binding_failure_conditions or []
    if max(len(good), len(bad)) > _MOST_CONDITIONS:
        yield f"more than {_MOST_CONDITIONS} binding conditions"
    if bool(good) != bool(bad):
        yield "bindingConditions and bindingFailureConditions go together"
    if len({*good, *bad}) != len(good) + len(bad):
        yield "a binding condition twice"


# Capacities.


def _capacity_faults(capacity: Capacity, *, is_shared: bool) -> Iterator[str]:
    value, policy = _quantity(capacity.value), capacity.request_policy
    odd = [amount for amount in _amounts_of(capacity) if amount is not None and _quantity(amount) is None]
    if odd or value is None:
        yield f"has {odd[0]!r}, which is no quantity"
        return
    if policy is None:
        return
    if not is_shared:
        yield "has a requestPolicy, and allowMultipleAllocations is not true"
        return
    if policy.valid_values and policy.valid_range is not None:
        yield "has validValues and validRange; one of them is allowed"
        return
    if not policy.valid_values and policy.valid_range is None:
        return
    default = _quantity(policy.default)
    if default is None:
        yield "has no default, which its requestPolicy needs"
    elif policy.valid_range is not None:
        yield from _range_faults(default, value, policy.valid_range)
    else:
        choices = map(_quantity, policy.valid_values or ())
        yield from _choice_faults(default, value, [choice for choice in choices if choice is not None])


def _amounts_of(capacity: Capacity) -> Iterator[Amount | None]:
    """All that are in it; the API server refuses a slice for one that is no quantity, wherever it is."""
    yield capacity.value
    if (policy := capacity.request_policy) is not None:
        yield from (policy.default, *(policy.valid_values or ()))
        if (given := policy.valid_range) is not None:
            yield from (given.min, given.max, given.step)


def _choice_faults(default: Quantity, most: Quantity, values: list[Quantity]) -> Iterator[str]:
    if len(values) > _MOST_VALID_VALUES:
        yield f"has {len(values)} valid values; {_MOST_VALID_VALUES} are allowed"
    if values != sorted(set(values)):
        yield "has valid values that do not ascend"
    if max(values, default=most) > most:
        yield f"has a valid value above its {most}"
    if default not in values:
        yield f"has the default {default}, which is no valid value"


def _range_faults(default: Quantity, value: Quantity, given: ValidRange) -> Iterator[str]:
    least, most, step = _quantity(given.min), _quantity(given.max), _quantity(given.step)
    if least is None:
        yield "has a validRange without min"
        return
    # Without max 1.36 takes a default above the value, which nothing that asks for no amount could be given.
    if not least <= default <= (value if most is None else most) <= value:
        text = " <= ".join(["min", "default", *(["max"] if most is not None else []), "value"])
        yield f"breaks {text}"
    if step is None:
        return
    if step <= 0:
        # 1.36 takes a step of 0, and its scheduler divides by it.
        yield f"has a step of {step}"
        return
    if least + step > value:
        yield f"has one step of {step} above {least}, which is beyond {value}"
    ends: Iterable[Quantity] = [default] if most is None else [default, most]
    if any((ceil(end) - ceil(least)) % ceil(step) for end in ends):
        yield f"has a default or max that no number of steps of {step} from {least} reaches"


def _quantity(amount: Amount | None) -> Quantity | None:
    """The exact amount; None if there is none, or it is no quantity."""
    try:
        return None if amount is None else parse_quantity(str(amount))
    except QuantityError:
        return None
