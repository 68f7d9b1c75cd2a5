"""What all API objects have in common, and how raw JSON becomes a value or one clear error."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache, partial
from itertools import islice
from types import MappingProxyType
from typing import TypeVar

import msgspec

from accelet.kube.errors import MalformedObjectError, QuantityError
from accelet.kube.quantity import Quantity, parse_quantity
from accelet.runtime.foreign.nesting import decode_nested

RawObject = bytes | msgspec.Raw | Mapping[str, object]
"""An object as it came: JSON text, or what a JSON or YAML parser made of it."""

ObjectKey = tuple[str, str]
"""Namespace and name of an object of a known kind; another object may have them later."""

Amounts = Mapping[str, Quantity]
"""Exact amounts by resource name: `cpu` in cores, `memory` in bytes, devices in pieces."""

MOST_ANNOTATED = 256 * 1024
"""Of all annotations of an object together, in bytes, by the API server: no text of one is longer."""

EMPTY: Mapping[str, str] = MappingProxyType({})
NO_AMOUNTS: Amounts = MappingProxyType({})


def no_labels() -> Mapping[str, str]:
    return EMPTY


def no_amounts() -> Amounts:
    return NO_AMOUNTS


_LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_PROBLEM = re.compile(r"(?P<problem>.*?)(?: - at `(?:key in )?\$\.?(?P<field>.*)`)?", re.DOTALL)
_W = TypeVar("_W")


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


_SHARED_TEXT = 320
"""The longest key of a label, resource or annotation, and longer than any name."""

MOST_LABELS = 1000
"""Of one object, and as many annotations."""

ALWAYS_READ = (
    *("accelet.dev/assignment", "gas-container-cards", "gas-container-tiles", "gas-ts"),
    *("accelet.dev/waiting", "kubernetes.io/config.mirror"),
)
"""Annotations that say what a pod holds, what was told of it, and what its node calls it: nobody is rid of
them by writing many others.
"""

MOST_OWNERS = 100

WireQuantities = dict[str, str | int | float] | None


def read_object(raw: RawObject, kind: str, shape: type[_W]) -> _W:
    """`raw` in the given shape.

    Raises:
        MalformedObjectError: it does not fit; names the object as far as it says who it is.
    """
    try:
        return _convert(raw, shape)
    except (ValueError, RecursionError) as error:
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
        answer = decode_nested(_READ_LIST.decode, payload)
    except ValueError as error:
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
            amounts[share_text(resource)] = parse_quantity(str(text).strip())
        except (QuantityError, ValueError) as error:  # a number of thousands of digits has no text
            place = f"{field}[{resource}]"
            raise MalformedObjectError(
                kind, metadata.namespace or "", metadata.name, place, str(error)
            ) from None
    return amounts


def share_text(text: str) -> str:
    """The same text, and the same object for thousands of pods that say it.

    Not `sys.intern`: what that has seen once, Python 3.12 keeps for ever, whoever wrote it.
    """
    return _shared(text) if len(text) <= _SHARED_TEXT else text


@lru_cache(maxsize=16_384)
def _shared(text: str) -> str:
    return text


def read_labels(wire: dict[str, str] | None) -> Mapping[str, str]:
    """Labels or annotations with shared keys, without kubectl's copy of the whole object.

    Of more than MOST_LABELS the first are kept, and ALWAYS_READ: an object of a megabyte may have a hundred
    thousand, which would take ten times as much here.
    """
    if not wire:
        return EMPTY
    kept: Iterable[str] = wire
    if len(wire) > MOST_LABELS:
        kept = (*islice(wire, MOST_LABELS), *(key for key in ALWAYS_READ if key in wire))
    return {share_text(key): wire[key] for key in kept if key != _LAST_APPLIED}


def read_owners(wire: Iterable[WireOwner] | None) -> tuple[Owner, ...]:
    """Of more than MOST_OWNERS the first are kept, and the controller."""
    return tuple(
        Owner(share_text(o.kind), o.name, o.uid, share_text(o.api_version or ""), bool(o.controller))
        for number, o in enumerate(wire or ())
        if number < MOST_OWNERS or o.controller
    )


def read_conditions(wire: Iterable[WireCondition] | None) -> tuple[Condition, ...]:
    return tuple(
        Condition(share_text(c.type), share_text(c.status), share_text(c.reason or "")) for c in wire or ()
    )


def _identify(raw: RawObject) -> tuple[str, str]:
    try:
        metadata = _convert(raw, _Named).metadata
        return str(metadata.namespace or ""), str(metadata.name or "")
    except (ValueError, RecursionError):
        return "", ""


def _convert(raw: RawObject, shape: type[_W]) -> _W:
    if isinstance(raw, Mapping):
        return msgspec.convert(raw, shape)
    decoded: _W = decode_nested(partial(msgspec.json.decode, type=shape), raw)
    return decoded
