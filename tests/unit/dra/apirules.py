"""What Kubernetes 1.36 takes as a ResourceSlice, written down apart from the product.

Source: pkg/apis/resource/validation/validation.go. `faults` returns a sentence for each violation.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,31}")
_QUANTITY = re.compile(r"(0|[1-9][0-9]*)(Ki|Mi|Gi|Ti|Pi|Ei|k|M|G)?")
_TAINT_KEY = re.compile(r"[a-z0-9.-]+/[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?")
_TAINT_VALUE = re.compile(r"([A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)?")
_FACTORS: dict[str, int] = {"": 1, "k": 10**3, "M": 10**6, "G": 10**9} | {
    f"{letter}i": 1024 ** (power + 1) for power, letter in enumerate("KMGTPE")
}


def number(text: str) -> int:
    """The amount of a quantity of the plain forms that a publisher writes."""
    match = _QUANTITY.fullmatch(text)
    assert match is not None, text
    amount = int(match[1]) * _FACTORS[match[2] or ""]
    assert amount < 2**63, f"{text} would be cut to {2**63 - 1}, which no step divides"
    return amount


def faults(slices: Sequence[Mapping[str, Any]]) -> list[str]:
    """What is wrong with a whole pool."""
    return [*_pool_faults(slices), *(fault for one in slices for fault in _slice_faults(one["spec"]))]


def _pool_faults(slices: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    specs = [one["spec"] for one in slices]
    if len({(s["driver"], s["pool"]["name"], s["nodeName"], s["pool"]["generation"]) for s in specs}) != 1:
        yield "slices of different pools or generations"
    if any(spec["pool"]["resourceSliceCount"] != len(specs) for spec in specs):
        yield "wrong count"
    names = [device["name"] for spec in specs for device in spec.get("devices", ())]
    if len(names) != len(set(names)):
        yield "a device name twice"
    sets = [one for spec in specs for one in spec.get("sharedCounters", ())]
    counters = {one["name"]: one["counters"] for one in sets}
    if len(counters) != len(sets):
        yield "a counter set twice"
    for spec in specs:
        for device in spec.get("devices", ()):
            for used in device.get("consumesCounters", ()):
                known = counters.get(used["counterSet"])
                if known is None or not used["counters"].keys() <= known.keys():
                    yield f"{device['name']} consumes counters that nobody has"
                elif any(
                    number(amount["value"]) > number(known[name]["value"])
                    for name, amount in used["counters"].items()
                ):
                    yield f"{device['name']} consumes more than there is"


def _slice_faults(spec: Mapping[str, Any]) -> Iterator[str]:
    devices, sets = spec.get("devices", ()), spec.get("sharedCounters", ())
    is_special = any("taints" in device or "consumesCounters" in device for device in devices)
    rules = {
        "driver": _is_subdomain(spec["driver"], 63),
        "pool name": _is_subdomain(spec["pool"]["name"], 253),
        "pool numbers": spec["pool"]["generation"] >= 0 and spec["pool"]["resourceSliceCount"] > 0,
        "devices and counters in one slice": not ("devices" in spec and "sharedCounters" in spec),
        "an empty list": ("devices" not in spec or devices) and ("sharedCounters" not in spec or sets),
        "too many devices": len(devices) <= (64 if is_special else 128),
        "too many counter sets": len(sets) <= 8,
        "counter set": all(_LABEL.fullmatch(one["name"]) and 1 <= len(one["counters"]) <= 32 for one in sets),
        "counter name": all(_LABEL.fullmatch(name) for one in sets for name in one["counters"]),
    }
    yield from (name for name, holds in rules.items() if not holds)
    for device in devices:
        yield from (f"{device['name']}: {fault}" for fault in _device_faults(device))


def _is_subdomain(text: str, longest: int) -> bool:
    return _SUBDOMAIN.fullmatch(text) is not None and len(text) <= longest


def _device_faults(device: Mapping[str, Any]) -> Iterator[str]:
    attributes, capacities = device.get("attributes", {}), device.get("capacity", {})
    taints = device.get("taints", ())
    values = list(attributes.values())
    rules = {
        "name": _LABEL.fullmatch(device["name"]),
        "too many attributes": len(attributes) + len(capacities) <= 32,
        "key": all(_is_key(key) for key in (*attributes, *capacities)),
        "attribute value": all(
            len(value) == 1 and value.keys() <= {"int", "bool", "string", "version"} for value in values
        ),
        "attribute text": all(len(str(value.get("string", "")).encode()) <= 64 for value in values),
        "counter sets used": len(device.get("consumesCounters", ())) <= 2,
        "too many taints": len(taints) <= 16,
        "taint effect": all(taint["effect"] in ("None", "NoSchedule", "NoExecute") for taint in taints),
        "taint key": all(_TAINT_KEY.fullmatch(taint["key"]) for taint in taints),
        "taint value": all(_TAINT_VALUE.fullmatch(taint.get("value", "")) for taint in taints),
    }
    yield from (name for name, holds in rules.items() if not holds)
    for capacity in capacities.values():
        yield from _capacity_faults(capacity, shared=device.get("allowMultipleAllocations", False))


def _is_key(key: str) -> bool:
    domain, _, identifier = key.rpartition("/")
    return _IDENTIFIER.fullmatch(identifier) is not None and (not domain or _is_subdomain(domain, 63))


def _capacity_faults(capacity: Mapping[str, Any], *, shared: bool) -> Iterator[str]:
    value, policy = number(capacity["value"]), capacity.get("requestPolicy")
    if policy is None:
        return
    if not shared:
        yield "a policy without sharing"
    default = number(policy["default"])
    if "validValues" in policy:
        values = [number(one) for one in policy["validValues"]]
        if values != sorted(set(values)) or default not in values or len(values) > 10 or max(values) > value:
            yield "valid values"
        return
    least, most, step = (number(policy["validRange"][name]) for name in ("min", "max", "step"))
    if not least <= default <= most <= value:
        yield "range"
    if step < 1 or (default - least) % step or (most - least) % step or least + step > value:
        yield "step"
