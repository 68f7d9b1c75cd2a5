"""ResourceSlices as slim values: the devices of any DRA driver (resource.k8s.io/v1)."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from accelet.claims.cel import selector
from accelet.claims.cel.values import Amount, Value, parse_version
from accelet.kube.errors import MalformedObjectError, QuantityError
from accelet.kube.objects import RawObject, Wire, WireMetadata, WireObject, read_object, share_text
from accelet.kube.quantity import Quantity, parse_quantity
from accelet.kube.selection import NodeTerm, Taint, WireSelector, WireTaint, read_taints, read_term

MOST_DEVICES: Final = 128
"""Of one slice, by the API server, as are the other limits here (resource/v1, types.go)."""

MOST_ATTRIBUTES: Final = 32
MOST_COUNTER_SETS: Final = 32
MOST_COUNTERS: Final = 32
MOST_TAINTS: Final = 16


@dataclass(frozen=True, slots=True, order=True)
class DeviceId:
    driver: str
    pool: str
    name: str

    def __str__(self) -> str:
        return f"{self.driver}/{self.pool}/{self.name}"


@dataclass(frozen=True, slots=True)
class Attribute:
    """One attribute; `kind` is string, int, bool or version, or else one that selectors cannot read."""

    kind: str
    value: str | int | bool = ""


@dataclass(frozen=True, slots=True)
class DeviceCapacity:
    """An amount of a device, and by which steps a shared device gives it away."""

    value: Quantity
    default: Quantity | None = None
    least: Quantity | None = None
    most: Quantity | None = None
    step: Quantity | None = None
    choices: tuple[Quantity, ...] = ()


Counters = Mapping[str, Mapping[str, Quantity]]
"""Amounts by counter set and counter."""


@dataclass(frozen=True, slots=True)
class NodeReach:
    """Which nodes can use something: one by name, all, those that a term selects, or (all unset) none."""

    node: str | None = None
    is_everywhere: bool = False
    terms: tuple[NodeTerm, ...] | None = None


@dataclass(frozen=True, slots=True)
class ListedDevice:
    """One device. Names of attributes and capacities are as written: `id`, or `domain/id`."""

    id: DeviceId
    attributes: Mapping[str, Attribute] = field(default_factory=dict)
    capacity: Mapping[str, DeviceCapacity] = field(default_factory=dict)
    draws: Counters = field(default_factory=dict)
    taints: tuple[Taint, ...] = ()
    allows_multiple: bool = False
    waits_for_driver: bool = False
    reach: NodeReach | None = None

    def attribute(self, name: str) -> Attribute | None:
        """The attribute of this full name; without its domain too, if that is the driver."""
        found = self.attributes.get(name)
        domain, slash, bare = name.partition("/")
        if found is None and slash and domain == self.id.driver:
            return self.attributes.get(bare)
        return found

    def seen(self) -> selector.SeenDevice | None:
        """The device as selectors see it; None if it has an attribute that they cannot read."""
        attributes: dict[str, dict[str, Value]] = {}
        for name, attribute in self.attributes.items():
            value = _value(attribute)
            if value is None:
                return None
            domain, _, bare = name.rpartition("/")
            attributes.setdefault(domain or self.id.driver, {})[bare] = value
        capacity: dict[str, dict[str, Value]] = {}
        for name, one in self.capacity.items():
            domain, _, bare = name.rpartition("/")
            capacity.setdefault(domain or self.id.driver, {})[bare] = Amount(one.value)
        return selector.SeenDevice(self.id.driver, attributes, capacity, self.allows_multiple)


def _value(attribute: Attribute) -> Value:
    if attribute.kind == "version":
        return parse_version(str(attribute.value))
    return attribute.value if attribute.kind in {"string", "int", "bool"} else None


@dataclass(frozen=True, slots=True)
class ResourceSlice:
    """Some devices, or counter sets, of one pool. `reach` is None where each device says its own."""

    name: str
    driver: str
    pool: str
    generation: int
    slice_count: int
    reach: NodeReach | None
    devices: tuple[ListedDevice, ...] = ()
    counters: Counters = field(default_factory=dict)
    has_counters_twice: bool = False


class _WireAttribute(Wire, frozen=True, rename={"whole": "int", "truth": "bool"}):
    string: str | None = None
    whole: int | None = None
    truth: bool | None = None
    version: str | None = None


class _WireRange(Wire, frozen=True):
    min: str | None = None
    max: str | None = None
    step: str | None = None


class _WirePolicy(Wire, frozen=True):
    default: str | None = None
    valid_range: _WireRange | None = None
    valid_values: list[str] | None = None


class _WireCapacity(Wire, frozen=True):
    value: str | int
    request_policy: _WirePolicy | None = None


class _WireCounter(Wire, frozen=True):
    value: str | int


class _WireDraw(Wire, frozen=True):
    counter_set: str
    counters: dict[str, _WireCounter]


class _WireCounterSet(Wire, frozen=True):
    name: str
    counters: dict[str, _WireCounter]


class _WireReach(Wire, frozen=True):
    node_name: str | None = None
    all_nodes: bool | None = None
    node_selector: WireSelector | None = None


class _WireDevice(_WireReach, frozen=True):
    name: str = ""
    attributes: dict[str, _WireAttribute] | None = None
    capacity: dict[str, _WireCapacity] | None = None
    consumes_counters: list[_WireDraw] | None = None
    taints: list[WireTaint] | None = None
    allow_multiple_allocations: bool | None = None
    binding_conditions: list[str] | None = None
    basic: object = None


class _WirePool(Wire, frozen=True):
    name: str
    generation: int = 0
    resource_slice_count: int = 0


class _WireSpec(_WireReach, frozen=True):
    driver: str = ""
    pool: _WirePool = _WirePool("")
    per_device_node_selection: bool | None = None
    devices: list[_WireDevice] | None = None
    shared_counters: list[_WireCounterSet] | None = None


class _WireSlice(WireObject, frozen=True):
    spec: _WireSpec


class _Reader:
    """Reads the parts of one slice; its errors name the slice and the field."""

    def __init__(self, metadata: WireMetadata) -> None:
        self._name = metadata.name

    def error(self, place: str, problem: str) -> MalformedObjectError:
        return MalformedObjectError("ResourceSlice", "", self._name, place, problem)

    def bound(self, place: str, count: int, most: int) -> None:
        if count > most:
            raise self.error(place, f"there are {count}, more than the {most} that a slice may have")

    def quantity(self, place: str, text: str | int) -> Quantity:
        try:
            return parse_quantity(str(text))
        except (QuantityError, ValueError) as error:
            raise self.error(place, str(error)) from None

    def counters(self, place: str, wire: Mapping[str, _WireCounter]) -> Mapping[str, Quantity]:
        self.bound(place, len(wire), MOST_COUNTERS)
        return {share_text(name): self.quantity(f"{place}[{name}]", one.value) for name, one in wire.items()}

    def capacity(self, place: str, wire: _WireCapacity) -> DeviceCapacity:
        policy = wire.request_policy or _WirePolicy()
        limits = policy.valid_range or _WireRange()
        self.bound(f"{place}.requestPolicy.validValues", len(policy.valid_values or ()), MOST_ATTRIBUTES)

        def maybe(text: str | None) -> Quantity | None:
            return None if text is None else self.quantity(f"{place}.requestPolicy", text)

        return DeviceCapacity(
            self.quantity(place, wire.value),
            maybe(policy.default),
            maybe(limits.min),
            maybe(limits.max),
            maybe(limits.step),
            tuple(self.quantity(f"{place}.requestPolicy", text) for text in policy.valid_values or ()),
        )

    def device(self, place: str, wire: _WireDevice, spec: _WireSpec) -> ListedDevice:
        if wire.basic is not None:
            raise self.error(place, "it is of resource.k8s.io/v1beta1; give slices as v1 has them")
        self.bound(
            f"{place}.attributes", len(wire.attributes or ()) + len(wire.capacity or ()), MOST_ATTRIBUTES
        )
        self.bound(f"{place}.consumesCounters", len(wire.consumes_counters or ()), MOST_COUNTER_SETS)
        self.bound(f"{place}.taints", len(wire.taints or ()), MOST_TAINTS)
        return ListedDevice(
            DeviceId(share_text(spec.driver), share_text(spec.pool.name), wire.name),
            {share_text(name): _attribute(one) for name, one in (wire.attributes or {}).items()},
            {
                share_text(name): self.capacity(f"{place}.capacity[{name}]", one)
                for name, one in (wire.capacity or {}).items()
            },
            {
                share_text(one.counter_set): self.counters(f"{place}.consumesCounters", one.counters)
                for one in wire.consumes_counters or ()
            },
            read_taints(wire.taints),
            bool(wire.allow_multiple_allocations),
            bool(wire.binding_conditions),
            _reach(wire) if spec.per_device_node_selection else None,
        )


def _attribute(wire: _WireAttribute) -> Attribute:
    values = {"int": wire.whole, "bool": wire.truth, "string": wire.string, "version": wire.version}
    for kind, value in values.items():
        if value is not None:
            return Attribute(kind, share_text(value) if isinstance(value, str) else value)
    return Attribute("unknown")


def _reach(wire: _WireReach) -> NodeReach:
    selects = wire.node_selector
    if wire.node_name:
        return NodeReach(wire.node_name)
    if wire.all_nodes:
        return NodeReach(is_everywhere=True)
    terms = None if selects is None else tuple(map(read_term, selects.node_selector_terms or ()))
    return NodeReach(terms=terms)


def parse_slice(raw: RawObject) -> ResourceSlice:
    """The ResourceSlice that `raw` describes.

    Raises:
        MalformedObjectError: a field is not what the API promises, or has more entries than it allows.
    """
    wire = read_object(raw, "ResourceSlice", _WireSlice)
    spec, reader = wire.spec, _Reader(wire.metadata)
    reader.bound("spec.devices", len(spec.devices or ()), MOST_DEVICES)
    reader.bound("spec.sharedCounters", len(spec.shared_counters or ()), MOST_COUNTER_SETS)
    counters = {
        share_text(one.name): reader.counters(f"spec.sharedCounters[{one.name}]", one.counters)
        for one in spec.shared_counters or ()
    }
    return ResourceSlice(
        wire.metadata.name,
        share_text(spec.driver),
        share_text(spec.pool.name),
        spec.pool.generation,
        spec.pool.resource_slice_count,
        None if spec.per_device_node_selection else _reach(spec),
        tuple(_devices(reader, spec)),
        counters,
        len(counters) < len(spec.shared_counters or ()),
    )


def _devices(reader: _Reader, spec: _WireSpec) -> Iterator[ListedDevice]:
    for at, one in enumerate(spec.devices or ()):
        yield reader.device(f"spec.devices[{at}]", one, spec)
