"""What a reflector knows: the objects of one resource, and what changed."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Generic, Literal, TypeVar

import msgspec

from accelet.kube.errors import MalformedObjectError
from accelet.kube.objects import Wire
from accelet.runtime.foreign.nesting import decode_nested

T = TypeVar("T")
P = TypeVar("P")
_PART = 100
Key = tuple[str, str]
"""Namespace (empty where the resource has none) and name."""


@dataclass(frozen=True, slots=True)
class Item(Generic[T]):
    """One object at one version."""

    key: Key
    uid: str
    resource_version: str
    value: T


@dataclass(frozen=True, slots=True)
class Change(Generic[T]):
    """`before` is absent exactly for `added`, `after` exactly for `deleted`.

    An object that was deleted and made anew under its name is `deleted` and then `added`.
    """

    kind: Literal["added", "modified", "deleted"]
    key: Key
    before: T | None
    after: T | None


class _WireIdentity(Wire, frozen=True):
    name: str = ""
    namespace: str | None = None
    uid: str | None = None
    resource_version: str | None = None


class _WireIdentified(Wire, frozen=True):
    metadata: _WireIdentity


@dataclass(frozen=True, slots=True)
class ObjectIdentity:
    """Who an object is and of which version; a bookmark has a version only."""

    key: Key
    uid: str
    resource_version: str


_read_identified = partial(msgspec.json.decode, type=_WireIdentified)

_FAULTS_OF_PARSERS = (ValueError, TypeError, LookupError, ArithmeticError, RecursionError)
"""What code that meets a value nobody has thought of raises."""


def read_identity(raw: msgspec.Raw, kind: str) -> ObjectIdentity:
    """
    Raises:
        MalformedObjectError: it says not who it is.
    """
    try:
        wire = decode_nested(_read_identified, raw).metadata
    except ValueError as error:
        raise MalformedObjectError(kind, "", "", "metadata", str(error)) from None
    return ObjectIdentity((wire.namespace or "", wire.name), wire.uid or "", wire.resource_version or "")


def read_item(raw: msgspec.Raw, kind: str, parse: Callable[[msgspec.Raw], T]) -> Item[T]:
    """The object as an item.

    A fault of `parse` counts as the object's: whoever has written that one must harm no other.

    Raises:
        MalformedObjectError: it says not who it is, or `parse` cannot read it.
    """
    who = read_identity(raw, kind)
    try:
        value = parse(raw)
    except _FAULTS_OF_PARSERS as fault:
        problem = f"cannot be read ({type(fault).__name__})"
        raise MalformedObjectError(kind, *who.key, "", problem) from fault
    return Item(who.key, who.uid, who.resource_version, value)


def precedes(resource_version: str, other: str, *, or_equals: bool = False) -> bool:
    """Whether one version is known to come before the other; never known where one is no number."""
    if not (resource_version.isdecimal() and other.isdecimal()):
        return False
    return int(resource_version) < int(other) + or_equals


def _parts(whole: Sequence[P]) -> Iterator[Sequence[P]]:
    return (whole[first : first + _PART] for first in range(0, len(whole), _PART))


class Store(Generic[T]):
    """The objects by key, as of `resource_version`; plain and synchronous."""

    def __init__(self) -> None:
        self._items: dict[Key, Item[T]] = {}
        self.resource_version = ""

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[T]:
        """The values, in a snapshot: what changes meanwhile is not seen."""
        return iter([item.value for item in self._items.values()])

    def get(self, key: Key) -> T | None:
        item = self._items.get(key)
        return None if item is None else item.value

    def has(self, who: ObjectIdentity) -> bool:
        """Whether it has this object in this version."""
        item = self._items.get(who.key)
        return item is not None and (item.uid, item.resource_version) == (who.uid, who.resource_version)

    def is_older_than(self, resource_version: str) -> bool:
        """Whether something at `resource_version` is news. Versions that are no numbers always are.

        That numbers can be compared is promised by the API conventions since Kubernetes 1.35, and was so
        before.
        """
        return not precedes(resource_version, self.resource_version, or_equals=True)

    def replace(
        self, items: Iterable[Item[T]], unreadable: Iterable[Key], resource_version: str
    ) -> list[Change[T]]:
        """Takes over a whole list. What the store has of `unreadable` objects stays as it was."""
        return [change for part in self.replacing(items, unreadable, resource_version) for change in part]

    def replacing(
        self, items: Iterable[Item[T]], unreadable: Iterable[Key], resource_version: str
    ) -> Iterator[list[Change[T]]]:
        """As `replace`, part by part: a list may be long. Nobody else may change the store meanwhile."""
        found = {item.key: item for item in items}
        kept = frozenset(unreadable)
        gone = [key for key in self._items if key not in found and key not in kept]
        for keys in _parts(gone):
            yield [change for key in keys for change in self._remove(key)]
        for put in _parts(list(found.values())):
            yield [change for item in put for change in self._put(item)]
        self.resource_version = resource_version

    def put(self, item: Item[T]) -> list[Change[T]]:
        """Takes over a watch's object, unless a list has brought something newer meanwhile."""
        if not self.is_older_than(item.resource_version):
            return []
        self.resource_version = item.resource_version
        return self._put(item)

    def remove(self, key: Key, resource_version: str) -> list[Change[T]]:
        """Takes over a watch's deletion, unless a list has brought something newer meanwhile."""
        if not self.is_older_than(resource_version):
            return []
        self.resource_version = resource_version
        return self._remove(key)

    def advance(self, resource_version: str) -> None:
        """Takes over a bookmark: nothing else has changed up to here."""
        if self.is_older_than(resource_version):
            self.resource_version = resource_version

    def _put(self, item: Item[T]) -> list[Change[T]]:
        before = self._items.get(item.key)
        if before is not None and before.uid != item.uid:
            return [*self._remove(item.key), *self._put(item)]
        if before is not None and before.resource_version == item.resource_version:
            return []
        self._items[item.key] = item
        if before is None:
            return [Change("added", item.key, None, item.value)]
        return [Change("modified", item.key, before.value, item.value)]

    def _remove(self, key: Key) -> list[Change[T]]:
        before = self._items.pop(key, None)
        return [] if before is None else [Change("deleted", key, before.value, None)]
