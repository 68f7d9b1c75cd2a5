"""DeviceClasses and ResourceClaims as slim values (resource.k8s.io/v1): what is asked, and who holds what."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

import msgspec

from accelet.claims.slices import DeviceId
from accelet.kube.errors import MalformedObjectError, QuantityError
from accelet.kube.objects import (
    ObjectKey,
    Owner,
    RawObject,
    Wire,
    WireMetadata,
    WireObject,
    read_labels,
    read_object,
    read_owners,
    share_text,
)
from accelet.kube.quantity import Quantity, parse_quantity
from accelet.kube.selection import (
    NodeTerm,
    Toleration,
    WireSelector,
    WireToleration,
    read_term,
    read_tolerations,
)

MOST_REQUESTS: Final = 32
"""Of a claim, by the API server; so many constraints too, selectors a request, results."""

MOST_ALTERNATIVES: Final = 8
MOST_TOLERATIONS: Final = 16
MOST_USERS: Final = 256


@dataclass(frozen=True, slots=True)
class DeviceClass:
    """Selectors that every device of the class meets."""

    name: str
    selectors: tuple[str | None, ...] = ()
    extended_resource: str | None = None


@dataclass(frozen=True, slots=True)
class Exactly:
    """Some devices of one class. `count` is None for all of them; a selector is None if it is no CEL."""

    name: str
    class_name: str
    selectors: tuple[str | None, ...] = ()
    count: int | None = 1
    is_admin: bool = False
    tolerations: tuple[Toleration, ...] = ()
    capacity: Mapping[str, Quantity] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DeviceRequest:
    """One request: `choices` in order of preference. `is_list`: they are alternatives, each with its name."""

    name: str
    choices: tuple[Exactly, ...]
    is_list: bool = False


@dataclass(frozen=True, slots=True)
class Constraint:
    """Devices of `requests` (none: of all) share the attribute, or, where `is_distinct`, each has another."""

    attribute: str | None
    requests: frozenset[str] = frozenset()
    is_distinct: bool = False


@dataclass(frozen=True, slots=True)
class Held:
    """One device that a claim was given. `consumed` is what it takes of a shared one, None of another."""

    request: str
    device: DeviceId
    is_admin: bool = False
    consumed: Mapping[str, Quantity] | None = None


@dataclass(frozen=True, slots=True)
class Claim:
    """A ResourceClaim. `held` is None until it is allocated; `reach` says then to which nodes it is bound."""

    namespace: str
    name: str
    uid: str = ""
    requests: tuple[DeviceRequest, ...] = ()
    constraints: tuple[Constraint, ...] = ()
    held: tuple[Held, ...] | None = None
    reach: tuple[NodeTerm, ...] | None = None
    users: frozenset[str] = frozenset()
    owner: Owner | None = None
    pod_claim: str | None = None

    @property
    def key(self) -> ObjectKey:
        return self.namespace, self.name


class _WireCel(Wire, frozen=True):
    expression: str


class _WireSelector(Wire, frozen=True):
    cel: _WireCel | None = None


class _WireClassSpec(Wire, frozen=True):
    selectors: list[_WireSelector] | None = None
    extended_resource_name: str | None = None


class _WireClass(WireObject, frozen=True):
    spec: _WireClassSpec


class _WireCapacity(Wire, frozen=True):
    requests: dict[str, str | int] | None = None


class _WireExactly(Wire, frozen=True):
    device_class_name: str = ""
    name: str = ""
    selectors: list[_WireSelector] | None = None
    allocation_mode: str | None = None
    count: int | None = None
    admin_access: bool | None = None
    tolerations: list[WireToleration] | None = None
    capacity: _WireCapacity | None = None


class _WireRequest(Wire, frozen=True):
    name: str
    exactly: _WireExactly | None = None
    first_available: list[_WireExactly] | None = None
    device_class_name: str | None = None


class _WireConstraint(Wire, frozen=True):
    requests: list[str] | None = None
    match_attribute: str | None = None
    distinct_attribute: str | None = None


class _WireDevices(Wire, frozen=True):
    requests: list[_WireRequest] | None = None
    constraints: list[_WireConstraint] | None = None


class _WireClaimSpec(Wire, frozen=True):
    devices: _WireDevices = _WireDevices()


class _WireResult(Wire, frozen=True):
    request: str
    driver: str
    pool: str
    device: str
    admin_access: bool | None = None
    share_id: str | None = msgspec.field(name="shareID", default=None)
    consumed_capacity: dict[str, str | int] | None = None


class _WireResults(Wire, frozen=True):
    results: list[_WireResult] | None = None


class _WireAllocation(Wire, frozen=True):
    devices: _WireResults = _WireResults()
    node_selector: WireSelector | None = None


class _WireUser(Wire, frozen=True):
    uid: str


class _WireStatus(Wire, frozen=True):
    allocation: _WireAllocation | None = None
    reserved_for: list[_WireUser] | None = None


class _WireClaim(WireObject, frozen=True):
    spec: _WireClaimSpec = _WireClaimSpec()
    status: _WireStatus | None = None


class _WireTemplateSpec(Wire, frozen=True):
    spec: _WireClaimSpec


class _WireTemplate(WireObject, frozen=True):
    spec: _WireTemplateSpec


_POD_CLAIM: Final = "resource.kubernetes.io/pod-claim-name"


def parse_device_class(raw: RawObject) -> DeviceClass:
    """The DeviceClass that `raw` describes.

    Raises:
        MalformedObjectError: a field is not what the API promises, or has more entries than it allows.
    """
    wire = read_object(raw, "DeviceClass", _WireClass)
    reader = _Reader("DeviceClass", wire.metadata)
    return DeviceClass(
        wire.metadata.name,
        reader.selectors("spec.selectors", wire.spec.selectors),
        wire.spec.extended_resource_name,
    )


def parse_claim(raw: RawObject) -> Claim:
    """The ResourceClaim that `raw` describes.

    Raises:
        MalformedObjectError: a field is not what the API promises, or has more entries than it allows.
    """
    wire = read_object(raw, "ResourceClaim", _WireClaim)
    metadata, status = wire.metadata, wire.status or _WireStatus()
    reader = _Reader("ResourceClaim", metadata)
    allocation = status.allocation
    owners = read_owners(metadata.owner_references)
    selects = allocation.node_selector if allocation else None
    return Claim(
        metadata.namespace or "default",
        metadata.name,
        metadata.uid or "",
        *reader.devices("spec.devices", wire.spec.devices),
        None if allocation is None else tuple(reader.held(allocation.devices.results)),
        None if selects is None else tuple(map(read_term, selects.node_selector_terms or ())),
        frozenset(one.uid for one in (status.reserved_for or ())[:MOST_USERS]),
        next((owner for owner in owners if owner.is_controller), None),
        read_labels(metadata.annotations).get(_POD_CLAIM),
    )


def parse_claim_template(raw: RawObject) -> Claim:
    """The claim that is made of the ResourceClaimTemplate `raw`; its name is that of the template.

    Raises:
        MalformedObjectError: a field is not what the API promises, or has more entries than it allows.
    """
    wire = read_object(raw, "ResourceClaimTemplate", _WireTemplate)
    reader = _Reader("ResourceClaimTemplate", wire.metadata)
    asked = reader.devices("spec.spec.devices", wire.spec.spec.devices)
    return Claim(wire.metadata.namespace or "default", wire.metadata.name, "", *asked)


class _Reader:
    """Reads the parts of one object; its errors name the object and the field."""

    def __init__(self, kind: str, metadata: WireMetadata) -> None:
        self._kind, self._metadata = kind, metadata

    def error(self, place: str, problem: str) -> MalformedObjectError:
        metadata = self._metadata
        return MalformedObjectError(self._kind, metadata.namespace or "", metadata.name, place, problem)

    def bound(self, place: str, count: int, most: int) -> None:
        if count > most:
            raise self.error(place, f"there are {count}, more than the {most} that there may be")

    def selectors(self, place: str, wire: list[_WireSelector] | None) -> tuple[str | None, ...]:
        self.bound(place, len(wire or ()), MOST_REQUESTS)
        return tuple(None if one.cel is None else share_text(one.cel.expression) for one in wire or ())

    def amounts(self, place: str, wire: Mapping[str, str | int] | None) -> Mapping[str, Quantity]:
        self.bound(place, len(wire or ()), MOST_REQUESTS)
        try:
            return {share_text(name): parse_quantity(str(text)) for name, text in (wire or {}).items()}
        except (QuantityError, ValueError) as error:
            raise self.error(place, str(error)) from None

    def devices(
        self, place: str, wire: _WireDevices
    ) -> tuple[tuple[DeviceRequest, ...], tuple[Constraint, ...]]:
        self.bound(f"{place}.requests", len(wire.requests or ()), MOST_REQUESTS)
        self.bound(f"{place}.constraints", len(wire.constraints or ()), MOST_REQUESTS)
        requests = tuple(
            self.request(f"{place}.requests[{at}]", one) for at, one in enumerate(wire.requests or ())
        )
        constraints = tuple(
            Constraint(
                one.match_attribute or one.distinct_attribute,
                frozenset((one.requests or ())[:MOST_REQUESTS]),
                one.match_attribute is None and one.distinct_attribute is not None,
            )
            for one in wire.constraints or ()
        )
        return requests, constraints

    def request(self, place: str, wire: _WireRequest) -> DeviceRequest:
        if wire.device_class_name is not None:
            raise self.error(place, "it is of resource.k8s.io/v1beta1; give claims as v1 has them")
        if wire.first_available:
            self.bound(f"{place}.firstAvailable", len(wire.first_available), MOST_ALTERNATIVES)
            choices = tuple(
                self.exactly(f"{place}.firstAvailable[{at}]", one.name, one)
                for at, one in enumerate(wire.first_available)
            )
            return DeviceRequest(wire.name, choices, is_list=True)
        if wire.exactly is None:
            raise self.error(place, "it has neither exactly nor firstAvailable")
        return DeviceRequest(wire.name, (self.exactly(f"{place}.exactly", wire.name, wire.exactly),))

    def exactly(self, place: str, name: str, wire: _WireExactly) -> Exactly:
        mode = wire.allocation_mode or "ExactCount"
        if mode not in {"ExactCount", "All"}:
            raise self.error(f"{place}.allocationMode", f"{mode[:40]!r} is not known")
        self.bound(f"{place}.tolerations", len(wire.tolerations or ()), MOST_TOLERATIONS)
        return Exactly(
            name,
            share_text(wire.device_class_name),
            self.selectors(f"{place}.selectors", wire.selectors),
            None if mode == "All" else 1 if wire.count is None else wire.count,
            bool(wire.admin_access),
            read_tolerations(wire.tolerations),
            self.amounts(f"{place}.capacity", wire.capacity.requests if wire.capacity else None),
        )

    def held(self, wire: list[_WireResult] | None) -> Iterator[Held]:
        self.bound("status.allocation.devices.results", len(wire or ()), MOST_REQUESTS)
        for one in wire or ():
            consumed = None
            if one.share_id is not None or one.consumed_capacity:
                consumed = self.amounts("status.allocation.devices.results", one.consumed_capacity)
            yield Held(
                one.request,
                DeviceId(share_text(one.driver), share_text(one.pool), one.device),
                bool(one.admin_access),
                consumed,
            )
