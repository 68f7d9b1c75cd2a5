"""The objects of a fake API server: versions, preconditions, a log of changes."""

import threading
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Literal

from accelet.fakeapi.history import Collection, Key, Logged
from accelet.fakeapi.jsoncopy import copy_json
from accelet.fakeapi.lifecycle import (
    Json,
    created,
    deleting,
    find_meddling,
    find_wrong,
    is_covered,
    is_let_go,
    orphans,
    written,
)
from accelet.fakeapi.patches import PatchError, json_patch, merge_patch

_BUDGETS = "apis/policy/v1/poddisruptionbudgets"

Validate = Callable[[Json | None, Json], list[tuple[str, str]]]
"""Old object (None when created) and new one, to the (field, message) pairs that are wrong."""


@dataclass
class RefusedError(Exception):
    """An answer that is an error."""

    status: int
    reason: str
    message: str
    causes: list[tuple[str, str]] = field(default_factory=list)


class State:
    """Every collection, one version counter, one lock. Objects handed out are copies.

    A resource is named by its path without a namespace, as `apis/batch/v1/jobs`; those in `unserved` are
    unknown. `validate` checks what is written, by plural. With `collects_garbage`, whatever has lost all
    its owners goes with the last of them.

    A `subresource` is `status`, or empty for the object itself. None stands for whoever sets up a world and
    may change everything, as nobody can by HTTP.
    """

    def __init__(self) -> None:
        self.changed = threading.Condition(threading.RLock())
        self.version = 1000
        self.validate: dict[str, Validate] = {}
        self.unserved: set[str] = set()
        self.collects_garbage = False
        self._collections: dict[str, Collection] = {}
        self._snapshots: dict[str, tuple[int, list[Json]]] = {}

    def collection(self, resource: str) -> Collection:
        if resource in self.unserved:
            raise RefusedError(404, "NotFound", "the server could not find the requested resource")
        return self._collections.setdefault(resource, Collection())

    def get(self, resource: str, key: Key) -> Json:
        with self.changed:
            found = self.collection(resource).objects.get(key)
            if found is None:
                raise RefusedError(404, "NotFound", f'{_plural(resource)} "{key[1]}" not found')
            return copy_json(found)

    def list(self, resource: str, query: dict[str, str], namespace: str | None) -> Json:
        with self.changed:
            limit = int(query.get("limit", 0))
            if token := query.get("continue"):
                if token not in self._snapshots:
                    raise RefusedError(410, "Expired", "The provided continue parameter is too old")
                version, objects = self._snapshots.pop(token)
            else:
                version, at = self.version, None
                if query.get("resourceVersionMatch") == "Exact":
                    version = at = self._remembered(resource, int(query["resourceVersion"]))
                objects = copy_json(self.collection(resource).selected(namespace, query, at))
            metadata: Json = {"resourceVersion": str(version)}
            if limit and len(objects) > limit:
                token = uuid.uuid4().hex
                self._snapshots[token] = (version, objects[limit:])
                metadata |= {"continue": token, "remainingItemCount": len(objects) - limit}
                objects = objects[:limit]
            return {"kind": "List", "apiVersion": "v1", "metadata": metadata, "items": objects}

    def _remembered(self, resource: str, version: int) -> int:
        if version < self.collection(resource).floor:
            raise RefusedError(410, "Expired", f"too old resource version: {version}")
        return version

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

    def create(
        self,
        resource: str,
        namespace: str,
        body: Json,
        *,
        dry_run: bool = False,
        subresource: str | None = None,
    ) -> Json:
        with self.changed:
            named = {**body, "metadata": dict(body.get("metadata") or {})}
            metadata = named["metadata"]
            if "name" not in metadata and "generateName" in metadata:
                metadata["name"] = metadata["generateName"] + uuid.uuid4().hex[:5]
            if not metadata.get("name"):
                cause = ("metadata.name", "Required value: name or generateName is required")
                raise _invalid("", [cause])
            key = (namespace, metadata["name"])
            if key in self.collection(resource).objects:
                raise RefusedError(409, "AlreadyExists", f'{_plural(resource)} "{key[1]}" already exists')
            obj = created(
                resource,
                named,
                namespace=namespace,
                uid=str(uuid.uuid4()),
                now=_now(),
                subresource=subresource,
            )
            return self._store(resource, key, None, obj, dry_run=dry_run)

    def replace(
        self,
        resource: str,
        key: Key,
        body: Json,
        *,
        dry_run: bool = False,
        subresource: str | None = None,
    ) -> Json:
        with self.changed:
            before = self.get(resource, key)
            _insist(before, body.get("metadata") or {}, "uid")
            return self._write(resource, key, before, body, dry_run=dry_run, subresource=subresource)

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
        with self.changed:
            if kind == "apply-patch" and key not in self.collection(resource).objects:
                named = merge_patch(body, {"metadata": {"name": key[1]}})
                return self.create(resource, key[0], named, dry_run=dry_run, subresource=subresource)
            before = self.get(resource, key)
            try:
                after = json_patch(before, body) if kind == "json-patch" else merge_patch(before, body)
            except PatchError as error:
                raise RefusedError(422, "Invalid", f"the server rejected our request: {error}") from None
            return self._write(
                resource, key, before, after, dry_run=dry_run, subresource=subresource, is_patch=True
            )

    def delete(self, resource: str, key: Key, body: Json | None = None, *, dry_run: bool = False) -> Json:
        """Takes an object away, or marks it as one to go while it has finalizers."""
        with self.changed:
            before = self.get(resource, key)
            wanted = (body or {}).get("preconditions") or {}
            _insist(before, wanted, "uid")
            _insist(before, wanted, "resourceVersion")
            if before["metadata"].get("finalizers"):
                return self._store(resource, key, before, deleting(before, _now()), dry_run=dry_run)
            if not dry_run:
                self._remove(resource, key, before, copy_json(before))
            return before

    def bind(self, key: Key, node: str, *, dry_run: bool = False) -> None:
        """What the `binding` subresource of a pod does."""
        with self.changed:
            pod = self.get("api/v1/pods", key)
            if pod["spec"].get("nodeName"):
                raise RefusedError(409, "Conflict", f'pod "{key[1]}" is already assigned to a node')
            if pod["spec"].get("schedulingGates"):
                cause = ("spec.schedulingGates", "Forbidden: may not assign node while it is not empty")
                raise RefusedError(409, "Conflict", f'pod "{key[1]}" has scheduling gates', [cause])
            pod["spec"]["nodeName"] = node
            self.replace("api/v1/pods", key, pod, dry_run=dry_run)

    def evict(self, key: Key, options: Json | None = None, *, dry_run: bool = False) -> None:
        """What the `eviction` subresource of a pod does: each disruption budget about it lets one less go."""
        with self.changed:
            pod = self.get("api/v1/pods", key)
            _insist(pod, (options or {}).get("preconditions") or {}, "uid")
            there = self.collection(_BUDGETS).objects
            budgets = [
                name for name, budget in there.items() if name[0] == key[0] and is_covered(pod, budget)
            ]
            allowed = {
                name: (there[name].get("status") or {}).get("disruptionsAllowed", 0) for name in budgets
            }
            if any(count < 1 for count in allowed.values()):
                message = "Cannot evict pod as it would violate the pod's disruption budget."
                raise RefusedError(429, "TooManyRequests", message)
            for name, count in allowed.items() if not dry_run else ():
                status = {"status": {"disruptionsAllowed": count - 1}}
                self.patch(_BUDGETS, name, "merge-patch", status)
            self.delete("api/v1/pods", key, dry_run=dry_run)

    def newest(self, resource: str, until_s: float) -> int:
        return self.collection(resource).newest(self.version, until_s)

    def events(
        self, resource: str, after: int, query: dict[str, str], until_s: float
    ) -> Iterator[tuple[str, Json, int]]:
        return self.collection(resource).events(after, query, until_s)

    def _write(
        self,
        resource: str,
        key: Key,
        before: Json,
        body: Json,
        *,
        dry_run: bool,
        subresource: str | None,
        is_patch: bool = False,
    ) -> Json:
        _insist(before, body.get("metadata") or {}, "resourceVersion")
        causes = list(find_meddling(before, body, is_patch=is_patch))
        if causes and subresource is not None:
            raise _invalid(key[1], causes)
        after = written(resource, before, body, subresource)
        return self._store(resource, key, before, after, dry_run=dry_run)

    def _store(self, resource: str, key: Key, before: Json | None, obj: Json, *, dry_run: bool) -> Json:
        check = self.validate.get(_plural(resource))
        causes = [*(find_wrong(before, obj) if before else ()), *(check(before, obj) if check else ())]
        if causes:
            raise _invalid(key[1], causes)
        unchanged = before is not None and _content(before) == _content(obj)
        if dry_run or unchanged:
            obj["metadata"]["resourceVersion"] = (before or {"metadata": {}})["metadata"].get(
                "resourceVersion", ""
            )
            return obj
        if before is not None and is_let_go(before, obj):
            self._remove(resource, key, before, obj)
            return copy_json(obj)
        obj["metadata"]["resourceVersion"] = self._next()
        self.collection(resource).objects[key] = obj
        self._log(resource, "MODIFIED" if before else "ADDED", before, obj)
        return copy_json(obj)

    def _remove(self, resource: str, key: Key, before: Json, last: Json) -> None:
        last["metadata"]["resourceVersion"] = self._next()
        del self.collection(resource).objects[key]
        self._log(resource, "DELETED", before, last)
        if self.collects_garbage:
            self._collect()

    def _collect(self) -> None:
        """Deletes what has no owner any more, which may leave more without one."""
        places = {
            obj["metadata"]["uid"]: (resource, key)
            for resource, collection in self._collections.items()
            for key, obj in collection.objects.items()
        }
        found = [obj for collection in self._collections.values() for obj in collection.objects.values()]
        for obj in orphans(found):
            resource, key = places[obj["metadata"]["uid"]]
            if key in self.collection(resource).objects and not obj["metadata"].get("deletionTimestamp"):
                self.delete(resource, key)

    def _log(
        self, resource: str, kind: Literal["ADDED", "MODIFIED", "DELETED"], before: Json | None, after: Json
    ) -> None:
        entry = Logged(self.version, kind, before, copy_json(after), time.monotonic())
        self.collection(resource).log.append(entry)
        self.changed.notify_all()

    def _next(self) -> str:
        self.version += 1
        return str(self.version)


def _invalid(name: str, causes: list[tuple[str, str]]) -> RefusedError:
    said = ", ".join(f"{field}: {message}" for field, message in causes)
    return RefusedError(422, "Invalid", f'"{name}" is invalid: {said}', causes)


def _insist(before: Json, wanted: Json, name: str) -> None:
    """Refuses a write that is meant for another version, or for another object, of this name."""
    value = wanted.get(name)
    if not value or value == before["metadata"][name]:
        return
    if name == "uid":
        raise RefusedError(409, "Conflict", "Precondition failed: UID in precondition does not match")
    raise RefusedError(409, "Conflict", "the object has been modified; please apply your changes again")


def _plural(resource: str) -> str:
    return resource.rsplit("/", 1)[-1]


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _content(obj: Json) -> Json:
    metadata = {key: value for key, value in obj["metadata"].items() if key != "resourceVersion"}
    return {**obj, "metadata": metadata}
