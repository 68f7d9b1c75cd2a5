"""ResourceSlices with one thing wrong at a time, and some with nothing wrong."""

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from accelet.fakekubelet.conformance.dra.slicerules import Rule

Json = dict[str, Any]
DRIVER = "sample.example.com"


@dataclass(frozen=True, slots=True)
class Example:
    """A pool of slices. `breaks` is the rule it is against, `is_refused` whether API servers refuse it.

    What only a scheduler finds wrong, an API server takes.
    """

    name: str
    specs: list[Json]
    breaks: Rule | None = None
    is_refused: bool = False


def spec(**more: Any) -> Json:
    """A slice of a pool of one; None leaves a field out."""
    whole = {
        "driver": DRIVER,
        "nodeName": "node-1",
        "pool": {"name": "node-1", "generation": 1, "resourceSliceCount": 1},
        "devices": [{"name": "dev-0"}, {"name": "dev-1"}],
    }
    return {key: value for key, value in (whole | more).items() if value is not None}


def _device(**more: Any) -> Json:
    return spec(devices=[{"name": "dev-0"} | more])


def _attribute(value: Json, key: str = "model") -> Json:
    return _device(attributes={key: value})


def _capacity(policy: Json, value: str = "10Gi", *, is_shared: bool = True) -> Json:
    capacity = {"memory": {"value": value, "requestPolicy": policy}}
    return _device(capacity=capacity, allowMultipleAllocations=is_shared)


def _taint(**taint: str) -> Json:
    return _device(taints=[{"key": "example.com/lost", "effect": "NoSchedule"} | taint])


def _counting(consumed: list[Json], **counters: Any) -> list[Json]:
    """Counters in a slice of their own, and one device that consumes some."""
    one = spec(
        devices=None, sharedCounters=[{"name": "units", "counters": counters or {"a": {"value": "1"}}}]
    )
    other = _device(consumesCounters=consumed)
    for each in (one, other):
        each["pool"] = each["pool"] | {"resourceSliceCount": 2}
    return [one, other]


def _uses(name: str = "units", **counters: str) -> Json:
    return {"counterSet": name, "counters": {key: {"value": value} for key, value in counters.items()}}


def _numbered(count: int, **more: Any) -> list[Json]:
    return [{"name": f"dev-{number}"} | more for number in range(count)]


RANGE = {"default": "1Gi", "validRange": {"min": "1Gi", "max": "10Gi", "step": "1Gi"}}
LABEL = "a" * 63


def _good() -> Iterator[tuple[str, list[Json]]]:
    yield "a plain pool", [spec()]
    yield "no device at all", [spec(devices=None)]
    yield "128 devices", [spec(devices=_numbered(128))]
    yield "64 tainted devices", [spec(devices=_numbered(64, taints=[{"key": "a", "effect": "None"}]))]
    yield (
        "every kind of value",
        [
            _device(
                attributes={
                    "model": {"string": "x" * 64},
                    "resource.kubernetes.io/pciBusID": {"string": "0000:03:00.0"},
                    "_number": {"int": -(2**63)},
                    "isGood": {"bool": False},
                    "driverVersion": {"version": "1.2.3-alpha.1+build.5"},
                },
                capacity={"memory": {"value": "1.5Gi"}, "x" * 32: {"value": "2e3"}},
            )
        ],
    )
    yield "a range", [_capacity(RANGE)]
    yield "a range without end", [_capacity({"default": "2Gi", "validRange": {"min": "1Gi"}})]
    yield "choices", [_capacity({"default": "2Gi", "validValues": ["1Gi", "2Gi", "4Gi"]})]
    yield "a policy that says nothing", [_capacity({})]
    yield "a taint", [_taint(value="a_b", effect="NoExecute")]
    yield "binding conditions", [_device(bindingConditions=["a/b"], bindingFailureConditions=["a/c"])]
    yield "counters", _counting([_uses(a="1")])
    yield "counters of half a unit", _counting([_uses(a="500m")])
    yield "a driver in capitals", [spec(driver="Sample.example.com")]
    yield "a key of a domain in capitals", [_attribute({"int": 1}, "Example.com/a")]
    yield "long names", [_device(name=LABEL)]


def _bad() -> Iterator[tuple[Rule, str, list[Json]]]:
    """What an API server refuses."""
    yield Rule.POOL, "a device twice", [spec(devices=_numbered(1) * 2)]
    yield Rule.POOL, "no node", [spec(nodeName=None)]
    yield Rule.POOL, "two kinds of nodes", [spec(allNodes=True)]
    yield Rule.POOL, "a generation below 0", [spec(pool=spec()["pool"] | {"generation": -1})]
    yield Rule.POOL, "a device with a node of its own", [_device(nodeName="node-1")]
    nowhere = spec(nodeName=None, perDeviceNodeSelection=True)
    yield Rule.POOL, "a device without a node of its own", [nowhere]
    yield Rule.POOL, "failure conditions alone", [_device(bindingFailureConditions=["a/c"])]
    yield (
        Rule.POOL,
        "a binding condition twice",
        [_device(bindingConditions=["a/b"], bindingFailureConditions=["a/b"])],
    )
    yield Rule.SIZE, "129 devices", [spec(devices=_numbered(129))]
    tainted = [*_numbered(64), {"name": "tainted", "taints": [{"key": "a", "effect": "None"}]}]
    yield Rule.SIZE, "65 devices, one of them tainted", [spec(devices=tainted)]
    yield Rule.SIZE, "33 attributes", [_device(attributes={f"a{n}": {"int": n} for n in range(33)})]
    yield Rule.SIZE, "17 taints", [_device(taints=[{"key": f"a{n}", "effect": "None"} for n in range(17)])]
    sets = [{"name": f"set-{n}", "counters": {"a": {"value": "1"}}} for n in range(9)]
    yield Rule.SIZE, "9 counter sets", [spec(devices=None, sharedCounters=sets)]
    yield Rule.SIZE, "no counter of a set", _counting([_uses()])
    yield Rule.SIZE, "an empty counter set", [spec(devices=None, sharedCounters=[{"name": "units"}])]
    yield Rule.NAMES, "a device in capitals", [_device(name="GPU-0")]
    yield Rule.NAMES, "a device of 64 characters", [_device(name=LABEL + "a")]
    yield Rule.NAMES, "a device with a dot", [_device(name="gpu.0")]
    yield Rule.NAMES, "a key with a dash", [_attribute({"int": 1}, "serial-number")]
    yield Rule.NAMES, "a key of 33 characters", [_attribute({"int": 1}, "a" * 33)]
    yield Rule.NAMES, "a key that begins with a digit", [_attribute({"int": 1}, "2d")]
    yield Rule.NAMES, "a key of a domain with a dash at its end", [_attribute({"int": 1}, "example.com-/a")]
    yield Rule.NAMES, "a key without a name", [_attribute({"int": 1}, "example.com/")]
    yield Rule.NAMES, "a capacity with a dash", [_device(capacity={"mem-ory": {"value": "1"}})]
    counters = [{"name": "units", "counters": {"Unit_0": {"value": "1"}}}]
    yield Rule.NAMES, "a counter in capitals", [spec(devices=None, sharedCounters=counters)]
    yield Rule.NAMES, "a consumed counter in capitals", _counting([_uses(A="1")], A={"value": "1"})
    yield Rule.NAMES, "a driver with a space", [spec(driver="sample driver")]
    yield Rule.NAMES, "a driver of 64 characters", [spec(driver="a" * 64)]
    yield Rule.NAMES, "a pool in capitals", [spec(pool=spec()["pool"] | {"name": "Node"})]
    yield Rule.VALUES, "80 bytes of text", [_attribute({"string": "x" * 80})]
    yield Rule.VALUES, "65 bytes in fewer characters", [_attribute({"string": "ä" * 33})]
    yield Rule.VALUES, "a version of two numbers", [_attribute({"version": "1.2"})]
    yield Rule.VALUES, "a version with a leading zero", [_attribute({"version": "1.02.3"})]
    yield Rule.VALUES, "two values", [_attribute({"string": "x", "int": 1})]
    yield Rule.VALUES, "no value", [_attribute({})]
    yield Rule.TAINTS, "an effect that is none", [_taint(effect="Evict")]
    yield Rule.TAINTS, "no effect", [_taint(effect="")]
    yield Rule.TAINTS, "a sentence for a value", [_taint(value="fell off the bus")]
    yield Rule.TAINTS, "a key with a space", [_taint(key="has left")]
    yield Rule.TAINTS, "a key without a name", [_taint(key="example.com/")]
    yield Rule.TAINTS, "a key of 64 characters", [_taint(key="example.com/" + LABEL + "a")]
    both = [{"name": "units", "counters": {"a": {"value": "1"}}}]
    yield Rule.SEPARATE, "devices and counters", [spec(sharedCounters=both)]
    yield Rule.SEPARATE, "devices and no counters, in a list", [spec(sharedCounters=[])]
    yield Rule.CAPACITIES, "a policy without sharing", [_capacity(RANGE, is_shared=False)]
    yield Rule.CAPACITIES, "a range without default", [_capacity({"validRange": {"min": "1Gi"}})]
    yield Rule.CAPACITIES, "a default below the range", [_capacity(RANGE | {"default": "1Mi"})]
    yield Rule.CAPACITIES, "a range beyond the value", [_capacity(RANGE, "5Gi")]
    odd = {"default": "1536Mi", "validRange": {"min": "1Gi", "step": "1Gi"}}
    yield Rule.CAPACITIES, "a default between two steps", [_capacity(odd)]
    yield Rule.CAPACITIES, "a default that is no choice", [_capacity({"default": "1", "validValues": ["2"]})]
    falling = {"default": "2", "validValues": ["2", "1"]}
    yield Rule.CAPACITIES, "choices that fall", [_capacity(falling)]
    two = RANGE | {"validValues": ["1Gi"]}
    yield Rule.CAPACITIES, "choices and a range", [_capacity(two)]


def _skipped() -> Iterator[tuple[Rule, str, list[Json]]]:
    """What an API server takes, slice by slice, and a scheduler does nothing with."""
    yield Rule.POOL, "a slice that is not there", [spec(pool=spec()["pool"] | {"resourceSliceCount": 2})]
    halves = [spec(devices=_numbered(1)), spec(devices=_numbered(1))]
    for half in halves:
        half["pool"] = half["pool"] | {"resourceSliceCount": 2}
    yield Rule.POOL, "a device in two slices", halves
    yield Rule.COUNTERS, "more than there is", _counting([_uses(a="2")])
    yield Rule.COUNTERS, "a little more than there is", _counting([_uses(a="1001m")])
    yield Rule.COUNTERS, "a counter that is not there", _counting([_uses(b="1")])
    yield Rule.COUNTERS, "a set that is not there", _counting([_uses("others", a="1")])


EXAMPLES = [
    *(Example(name, specs) for name, specs in _good()),
    *(Example(name, specs, rule, is_refused=True) for rule, name, specs in _bad()),
    *(Example(name, specs, rule) for rule, name, specs in _skipped()),
]


def slice_of(one: Json, name: str) -> Json:
    """A whole ResourceSlice."""
    head = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": name}}
    return head | {"spec": copy.deepcopy(one)}
