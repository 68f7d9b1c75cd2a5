"""The form in which an API server keeps a slice: amounts written otherwise, and what admission changed.

A MutatingAdmissionPolicy or a webhook may change slices whenever they are written. Writing them again does
not help: what the server answered is the form to expect.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from types import MappingProxyType

from accelet.kube.errors import QuantityError
from accelet.kube.quantity import parse_quantity

_AMOUNTS = frozenset({"value", "default", "min", "max", "step", "validValues"})
_LONGEST_PATH = 200


@dataclass(frozen=True, slots=True)
class Content:
    """What a slice says, without the generation of its pool; equal for equal contents.

    `owner` is the UID of the Node that owns it, empty for none.
    """

    spec: object
    owner: str


@dataclass(frozen=True, slots=True)
class Rewritten:
    """A slice that the API server keeps in another form than it was sent in."""

    sent: Content
    kept: Content


Rewrites = Mapping[int, Rewritten]
"""By the slice's place in its pool."""

NO_REWRITES: Rewrites = MappingProxyType({})


def content_of(spec: Mapping[str, object], owner: str) -> Content:
    pool = spec.get("pool")
    rest = (
        {name: part for name, part in pool.items() if name != "generation"}
        if isinstance(pool, Mapping)
        else pool
    )
    return Content(comparable({**spec, "pool": rest}), owner)


def is_kept(sent: Content, kept: Content, rewritten: Rewritten | None) -> bool:
    """Whether the server has what it was sent, as it is or in the form in which it keeps just that."""
    return sent == kept or (rewritten is not None and (sent, kept) == (rewritten.sent, rewritten.kept))


def after_answer(before: Rewrites, index: int, sent: Content, kept: Content) -> Rewrites:
    """The forms that are known after the server answered `kept` to `sent`."""
    others = {place: one for place, one in before.items() if place != index}
    return MappingProxyType(others if sent == kept else {**others, index: Rewritten(sent, kept)})


def comparable(value: object, key: str = "") -> object:
    """A part of a slice's spec in a form in which equal contents are equal.

    Amounts as numbers, since the API server writes `1k` for `1000`; without the times it sets itself, and
    without what is empty.
    """
    if isinstance(value, Mapping):
        items = {name: comparable(part, name) for name, part in value.items() if name != "timeAdded"}
        return {name: part for name, part in items.items() if not _is_empty(part)}
    if isinstance(value, list | tuple):
        return [comparable(part, key) for part in value]
    if isinstance(value, str) and key in _AMOUNTS:
        try:
            return parse_quantity(value)
        except QuantityError:
            return value
    return value


def _is_empty(part: object) -> bool:
    return part is None or part is False or (isinstance(part, str | Mapping | list) and not part)


def describe_rewrite(sent: Content, kept: Content) -> str:
    """The first place where they differ, as a sentence: `it adds spec.devices[0].attributes.rack`."""
    path = _find_difference(sent.spec, kept.spec, "spec")
    if path is None:
        return "it changes the owner"
    verb, place = path
    return f"it {verb} {place[:_LONGEST_PATH]}"


def _find_difference(sent: object, kept: object, path: str) -> tuple[str, str] | None:
    if isinstance(sent, Mapping) and isinstance(kept, Mapping):
        pairs = [
            (f"{path}.{name}", sent.get(name), kept.get(name)) for name in sorted({*sent, *kept}, key=str)
        ]
    elif _is_list(sent) and _is_list(kept):
        pairs = [
            (f"{path}[{place}]", one, other)
            for place, (one, other) in enumerate(zip_longest(sent, kept))  # type: ignore[call-overload]
        ]
    elif sent == kept:
        return None
    else:
        return ("adds" if sent is None else "removes" if kept is None else "changes"), path
    return next((found for name, one, other in pairs if (found := _find_difference(one, other, name))), None)


def _is_list(value: object) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str)
