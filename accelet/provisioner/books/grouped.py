"""Requests by something that several of them may have in common."""

from collections import Counter
from collections.abc import Hashable, Iterable
from typing import Generic, TypeVar

from accelet.provisioner.record import SliceRequest

G = TypeVar("G", bound=Hashable)
_Key = tuple[str, str]


class Grouped(Generic[G]):
    """The requests of each group, without a look at those of the others."""

    def __init__(self) -> None:
        self._groups: dict[G, dict[_Key, SliceRequest]] = {}

    def put(self, group: G, request: SliceRequest) -> None:
        self._groups.setdefault(group, {})[request.key] = request

    def drop(self, group: G, request: SliceRequest) -> None:
        """Takes a request out of a group, if it is there."""
        members = self._groups.get(group, {})
        if members.pop(request.key, None) is not None and not members:
            del self._groups[group]

    def of(self, group: G) -> list[SliceRequest]:
        return list(self._groups.get(group, {}).values())

    def of_all(self, groups: Iterable[G]) -> list[SliceRequest]:
        return [request for group in groups for request in self._groups.get(group, {}).values()]

    def size(self, group: G) -> int:
        return len(self._groups.get(group, ()))

    def sizes(self) -> dict[G, int]:
        """How many requests each group has."""
        return {group: len(members) for group, members in self._groups.items()}


def count_by(counter: Counter[G], key: G, change: int) -> None:
    """Counts a key up or down; one that is there no more takes no room."""
    counter[key] += change
    if not counter[key]:
        del counter[key]
