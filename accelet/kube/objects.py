"""What all API objects have in common, and how raw JSON becomes a value or one clear error."""

import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType
from typing import TypeVar

import msgspec

from accelet.kube.errors import MalformedObjectError, QuantityError
from accelet.kube.quantity import Quantity, parse_quantity

RawObject = bytes | msgspec.Raw | Mapping[str, object]
"""An object as it came: JSON text, or what a JSON or YAML parser made of it."""

ObjectKey = tuple[str, str]
"""Namespace and name of an object of a known kind; another object may have them later."""

Amounts = Mapping[str, Quantity]
"""Exact amounts by resource name: `cpu` in cores, `memory` in bytes, devices in pieces."""

EMPTY: Mapping[str, str] = MappingProxyType({})
NO_AMOUNTS: Amounts = MappingProxyType({})


def no_labels() -> Mapping[str, str]:
    return EMPTY


def no_amounts() -> Amounts:
    return NO_AMOUNTS


_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_PROBLEM = re.compile(r"(?P<problem>.*?)(?: - at `(?:key in )?\$\.?(?P<field>.*)`)?", re.DOTALL)
_W = TypeVar("_W", bound="WireObject")


@dataclass(frozen=True, slots=True)
class Owner:
    """One entry of `metadata.ownerReferences`."""

    kind: str
    name: str
    uid: str
    api_version: str = ""
    is_controller: bool = False


@dataclass(frozen=True, slots=True)
class Condition:
    """One entry of `status.conditions`; `status` is `True`, `False` or `Unknown`."""

    type: str
    status: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Page:
    """A list answer, its items still raw, so that one bad item loses no other."""

    items: tuple[msgspec.Raw, ...]
    resource_version: str = ""
    continue_token: str = ""


class Wire(msgspec.Struct, frozen=True, rename="camel"):
    """Base of the shapes that are read from JSON: unknown fields are skipped, null is absence."""


class WireOwner(Wire, frozen=True):
    kind: str
    name: str
    uid: str
    api_version: str | None = None
    controller: bool | None = None


class WireMetadata(Wire, frozen=True):
    name: str
    namespace: str | None = None
    uid: str | None = None
    resource_version: str | None = None
    creation_timestamp: datetime | None = None
    deletion_timestamp: datetime | None = None
    deletion_grace_period_seconds: int | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    owner_references: list[WireOwner] | None = None


class WireCondition(Wire, frozen=True):
    type: str
    status: str
    reason: str | None = None


class WireObject(Wire, frozen=True):
    metadata: WireMetadata


class _Name(msgspec.Struct, frozen=True):
    name: object = None
    namespace: object = None


class _Named(msgspec.Struct, frozen=True):
    metadata: _Name


class _WireListMetadata(msgspec.Struct, frozen=True, rename={"resource_version": "resourceVersion"}):
    resource_version: str | None = None
    continue_: str | None = msgspec.field(name="continue", default=None)


class _WireList(msgspec.Struct, frozen=True):
    items: list[msgspec.Raw] | None = None
    metadata: _WireListMetadata | None = None


# Used on several threads, so made before there are any: see docs/decisions/0003.
_READ_LIST = msgspec.json.Decoder(_WireList)


WireQuantities = dict[str, str | int | float] | None


def read_object(raw: RawObject, kind: str, shape: type[_W]) -> _W:
    """`raw` in the given shape.

    Raises:
        MalformedObjectError: it does not fit; names the object as far as it says who it is.
    """
    try:
        if isinstance(raw, Mapping):
            return msgspec.convert(raw, shape)
        return msgspec.json.decode(raw, type=shape)
    except msgspec.DecodeError as error:
        match = _PROBLEM.fullmatch(str(error))
        field, problem = (match["field"] or "", match["problem"]) if match else ("", str(error))
        namespace, name = _identify(raw)
        raise MalformedObjectError(kind, namespace, name, field, problem) from None


def read_page(payload: bytes, kind: str) -> Page:
    """A list answer, or the output of `kubectl get -o json`, split into raw items.

    Raises:
        MalformedObjectError: it is no list.
    """
    try:
        answer = _READ_LIST.decode(payload)
    except msgspec.DecodeError as error:
        raise MalformedObjectError(f"list of {kind}s", "", "", "", str(error)) from None
    metadata = answer.metadata or _WireListMetadata()
    return Page(tuple(answer.items or ()), metadata.resource_version or "", metadata.continue_ or "")


def read_resources(wire: WireQuantities, field: str, kind: str, metadata: WireMetadata) -> Amounts:
    """The exact amounts of a resource list found at `field`.

    Raises:
        MalformedObjectError: one of them is no quantity.
    """
    if not wire:
        return NO_AMOUNTS
    amounts: dict[str, Quantity] = {}
    for resource, text in wire.items():
        try:
            amounts[sys.intern(resource)] = parse_quantity(str(text).strip())
        except QuantityError as error:
            place = f"{field}[{resource}]"
            raise MalformedObjectError(
                kind, metadata.namespace or "", metadata.name, place, str(error)
            ) from None
    return amounts


def read_labels(wire: dict[str, str] | None) -> Mapping[str, str]:
    """Labels or annotations with shared keys, without kubectl's copy of the whole object."""
    if not wire:
        return EMPTY
    return {sys.intern(key): value for key, value in wire.items() if key != _LAST_APPLIED}


def read_owners(wire: Iterable[WireOwner] | None) -> tuple[Owner, ...]:
    return tuple(
        Owner(sys.intern(o.kind), o.name, o.uid, sys.intern(o.api_version or ""), bool(o.controller))
        for o in wire or ()
    )


def read_conditions(wire: Iterable[WireCondition] | None) -> tuple[Condition, ...]:
    return tuple(
        Condition(sys.intern(c.type), sys.intern(c.status), sys.intern(c.reason or "")) for c in wire or ()
    )


def _identify(raw: RawObject) -> tuple[str, str]:
    try:
        named = (
            msgspec.convert(raw, _Named)
            if isinstance(raw, Mapping)
            else msgspec.json.decode(raw, type=_Named)
        )
    except msgspec.DecodeError:
        return "", ""
    metadata = named.metadata
    return str(metadata.namespace or ""), str(metadata.name or "")
