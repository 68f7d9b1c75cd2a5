"""The objects of one resource and what has happened to them, as lists and watches with selectors see it."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

from accelet.fakeapi.lifecycle import Json
from accelet.fakeapi.selectors import matches

Key = tuple[str, str]
"""Namespace, empty where there is none, and name."""


@dataclass(frozen=True, slots=True)
class Logged:
    """One change; `after` is the last state of an object that is gone."""

    version: int
    type: Literal["ADDED", "MODIFIED", "DELETED"]
    before: Json | None
    after: Json
    at_s: float


class Collection:
    """All objects of one resource. Versions below `floor` are forgotten."""

    def __init__(self) -> None:
        self.objects: dict[Key, Json] = {}
        self.log: list[Logged] = []
        self.floor = 0

    def selected(
        self, namespace: str | None, query: Mapping[str, str], version: int | None = None
    ) -> list[Json]:
        """As they are, or as they were at a version."""
        objects = self.objects if version is None else self._objects_at(version)
        return [
            obj
            for (space, _), obj in sorted(objects.items())
            if namespace in (None, space) and _is_selected(obj, query)
        ]

    def _objects_at(self, version: int) -> Mapping[Key, Json]:
        objects = dict(self.objects)
        for entry in reversed(self.log):
            if entry.version > version:
                metadata = entry.after["metadata"]
                key = (metadata.get("namespace", ""), metadata["name"])
                objects.pop(key, None)
                objects |= {key: entry.before} if entry.before is not None else {}
        return objects

    def events(self, after: int, query: Mapping[str, str], until_s: float) -> Iterator[tuple[str, Json, int]]:
        """What a watch with these selectors sees of what has happened after a version, up to a time."""
        for entry in self.log:
            if entry.version <= after or entry.at_s > until_s:
                continue
            was = entry.before is not None and _is_selected(entry.before, query)
            now = entry.type != "DELETED" and _is_selected(entry.after, query)
            if was or now:
                kind = "MODIFIED" if was and now else "ADDED" if now else "DELETED"
                yield kind, entry.after, entry.version

    def newest(self, version: int, until_s: float) -> int:
        """The version up to which a watch is current that sees only what happened before `until_s`."""
        later = [entry.version for entry in self.log if entry.at_s > until_s]
        return min(later) - 1 if later else version


def _is_selected(obj: Json, query: Mapping[str, str]) -> bool:
    return matches(obj, query.get("labelSelector", ""), query.get("fieldSelector", ""))
