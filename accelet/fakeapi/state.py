"""The objects of a fake API server: versions, a log of changes, preconditions."""

import copy
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal

from accelet.fakeapi.patches import PatchError, json_patch, merge_patch
from accelet.fakeapi.selectors import matches

Json = dict[str, Any]
Key = tuple[str, str]
_NODES = "api/v1/nodes"
Validate = Callable[[Json | None, Json], list[tuple[str, str]]]
"""Old object (None when created) and new one, to the (field, message) pairs that are wrong."""


@dataclass
class RefusedError(Exception):
    """An answer that is an error."""

    status: int
    reason: str
    message: str
    causes: list[tuple[str, str]] = field(default_factory=list)


@dataclass(frozen=True)
class Logged:
    version: int
    type: Literal["ADDED", "MODIFIED", "DELETED"]
    before: Json | None
    after: Json
    at_s: float


class Collection:
    """All objects of one resource."""

    def __init__(self) -> None:
        self.objects: dict[Key, Json] = {}
        self.log: list[Logged] = []
        self.floor = 0


class State:
    """Every collection, one version counter, one lock. Objects handed out are copies."""

    def __init__(self) -> None:
        self.changed = threading.Condition(threading.RLock())
        self.version = 1000
        self.validate: dict[str, Validate] = {}
        self._collections: dict[str, Collection] = {}
        self._snapshots: dict[str, tuple[int, list[Json]]] = {}

    def collection(self, resource: str) -> Collection:
        return self._collections.setdefault(resource, Collection())

    def get(self, resource: str, key: Key) -> Json:
        with self.changed:
            found = self.collection(resource).objects.get(key)
            if found is None:
                raise RefusedError(404, "NotFound", f'{resource.rsplit("/", 1)[-1]} "{key[1]}" not found')
            return copy.deepcopy(found)

    def list(self, resource: str, query: dict[str, str], namespace: str | None) -> Json:
        with self.changed:
            limit = int(query.get("limit", 0))
            if token := query.get("continue"):
                if token not in self._snapshots:
                    raise RefusedError(410, "Expired", "The provided continue parameter is too old")
                version, objects = self._snapshots.pop(token)
            else:
                version = self.version
                objects = [
                    copy.deepcopy(obj)
                    for (space, _), obj in sorted(self.collection(resource).objects.items())
                    if namespace in (None, space) and _selected(obj, query)
                ]
            metadata: Json = {"resourceVersion": str(version)}
            if limit and len(objects) > limit:
                token = uuid.uuid4().hex
                self._snapshots[token] = (version, objects[limit:])
                metadata |= {"continue": token, "remainingItemCount": len(objects) - limit}
                objects = objects[:limit]
            return {"kind": "List", "apiVersion": "v1", "metadata": metadata, "items": objects}

    def expire_pages(self) -> None:
        with self.changed:
            self._snapshots.clear()

    def compact(self) -> None:
        """Forget all history: every version up to now is too old to watch from."""
        with self.changed:
            for collection in self._collections.values():
                collection.log.clear()
                collection.floor = self.version
            self._snapshots.clear()

    def create(self, resource: str, namespace: str, body: Json, *, dry_run: bool = False) -> Json:
        with self.changed:
            obj = copy.deepcopy(body)
            metadata = obj.setdefault("metadata", {})
            if "name" not in metadata and "generateName" in metadata:
                metadata["name"] = metadata["generateName"] + uuid.uuid4().hex[:5]
            if namespace:
                metadata["namespace"] = namespace
            key = (namespace, metadata["name"])
            if key in self.collection(resource).objects:
                raise RefusedError(409, "AlreadyExists", f'"{key[1]}" already exists')
            metadata["uid"] = str(uuid.uuid4())
            metadata["creationTimestamp"] = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
            return self._store(resource, key, None, obj, dry_run=dry_run)

    def replace(self, resource: str, key: Key, body: Json, *, dry_run: bool = False) -> Json:
        with self.changed:
            before = self.get(resource, key)
            obj = copy.deepcopy(body)
            wanted = obj.setdefault("metadata", {}).get("resourceVersion")
            if wanted and wanted != before["metadata"]["resourceVersion"]:
                raise RefusedError(
                    409, "Conflict", "the object has been modified; please apply your changes again"
                )
            for name in ("uid", "creationTimestamp", "name", "namespace"):
                if name in before["metadata"]:
                    obj["metadata"][name] = before["metadata"][name]
            return self._store(resource, key, before, obj, dry_run=dry_run)

    def patch(
        self,
        resource: str,
        key: Key,
        kind: str,
        body: Any,
        *,
        dry_run: bool = False,
        subresource: str | None = None,
    ) -> Json:
        """By its `status` subresource an object's spec stays; a Node's status changes by that alone.

        Without saying by which (`None`), as nobody can by HTTP, everything can be changed.
        """
        with self.changed:
            if kind == "apply-patch" and key not in self.collection(resource).objects:
                named = merge_patch(body, {"metadata": {"name": key[1]}})
                return self.create(resource, key[0], named, dry_run=dry_run)
            before = self.get(resource, key)
            try:
                after = json_patch(before, body) if kind == "json-patch" else merge_patch(before, body)
            except PatchError as error:
                raise RefusedError(422, "Invalid", f"the server rejected our request: {error}") from None
            kept = "spec" if subresource == "status" else "status" if resource == _NODES else None
            if subresource is not None and kept is not None:
                after = {name: value for name, value in after.items() if name != kept}
                after |= {kept: before[kept]} if kept in before else {}
            return self.replace(resource, key, after, dry_run=dry_run)

    def delete(self, resource: str, key: Key, body: Json | None = None, *, dry_run: bool = False) -> Json:
        with self.changed:
            before = self.get(resource, key)
            uid = ((body or {}).get("preconditions") or {}).get("uid")
            if uid and uid != before["metadata"]["uid"]:
                raise RefusedError(409, "Conflict", "Precondition failed: UID in precondition does not match")
            if not dry_run:
                after = copy.deepcopy(before)
                after["metadata"]["resourceVersion"] = self._next()
                del self.collection(resource).objects[key]
                self._log(resource, "DELETED", before, after)
            return before

    def newest(self, resource: str, until_s: float) -> int:
        """The version up to which a watch is current that sees only what happened before `until_s`."""
        later = [entry.version for entry in self.collection(resource).log if entry.at_s > until_s]
        return min(later) - 1 if later else self.version

    def events(
        self, resource: str, after: int, query: dict[str, str], until_s: float
    ) -> Iterator[tuple[str, Json, int]]:
        """What a watch with these selectors sees of what has happened after a version, up to a time."""
        for entry in self.collection(resource).log:
            if entry.version <= after or entry.at_s > until_s:
                continue
            was = entry.before is not None and _selected(entry.before, query)
            now = entry.type != "DELETED" and _selected(entry.after, query)
            if was or now:
                kind = "MODIFIED" if was and now else "ADDED" if now else "DELETED"
                yield kind, entry.after, entry.version

    def _store(self, resource: str, key: Key, before: Json | None, obj: Json, *, dry_run: bool) -> Json:
        check = self.validate.get(resource.rsplit("/", 1)[-1])
        if check and (causes := check(before, obj)):
            raise RefusedError(422, "Invalid", f'"{key[1]}" is invalid', causes)
        unchanged = before is not None and _content(before) == _content(obj)
        if dry_run or unchanged:
            obj["metadata"]["resourceVersion"] = (before or {"metadata": {}})["metadata"].get(
                "resourceVersion", ""
            )
            return obj
        obj["metadata"]["resourceVersion"] = self._next()
        self.collection(resource).objects[key] = obj
        self._log(resource, "MODIFIED" if before else "ADDED", before, obj)
        return copy.deepcopy(obj)

    def _log(
        self, resource: str, kind: Literal["ADDED", "MODIFIED", "DELETED"], before: Json | None, after: Json
    ) -> None:
        entry = Logged(self.version, kind, before, copy.deepcopy(after), time.monotonic())
        self.collection(resource).log.append(entry)
        self.changed.notify_all()

    def _next(self) -> str:
        self.version += 1
        return str(self.version)


def _selected(obj: Json, query: dict[str, str]) -> bool:
    return matches(obj, query.get("labelSelector", ""), query.get("fieldSelector", ""))


def _content(obj: Json) -> Json:
    metadata = {key: value for key, value in obj["metadata"].items() if key != "resourceVersion"}
    return {**obj, "metadata": metadata}
