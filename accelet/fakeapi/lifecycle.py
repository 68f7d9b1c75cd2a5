"""What an API server itself decides about an object: identity, generation, status, its end."""

from collections.abc import Iterable, Iterator
from typing import Any

from accelet.fakeapi.jsoncopy import copy_json

Json = dict[str, Any]

_NODES = "api/v1/nodes"
_BUILT_IN_GROUPS = frozenset({"apps", "batch", "coordination.k8s.io", "events.k8s.io", "resource.k8s.io"})
_WITHOUT_STATUS = frozenset(
    {
        "configmaps",
        "deviceclasses",
        "events",
        "leases",
        "resourceclaimtemplates",
        "resourceslices",
        "secrets",
        "serviceaccounts",
    }
)
_WITHOUT_GENERATION = frozenset({"leases", "nodes", "resourceclaims", "resourceclaimtemplates"})
_FIXED = ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "name", "namespace")


def has_status(resource: str) -> bool:
    """Whether objects have a `status` that is written by the subresource of that name alone.

    `resource` is a path without a namespace, as `apis/batch/v1/jobs`. Of custom kinds all have one.
    """
    return _plural(resource) not in _WITHOUT_STATUS


def created(
    resource: str, body: Json, *, namespace: str, uid: str, now: str, subresource: str | None
) -> Json:
    """The object that is stored for a `body` that has a name already; of its status only a Node's."""
    obj = copy_json(body)
    metadata = obj["metadata"]
    if namespace:
        metadata["namespace"] = namespace
    metadata |= {"uid": uid, "creationTimestamp": now}
    if subresource is not None:
        for name in ("deletionTimestamp", "deletionGracePeriodSeconds"):
            metadata.pop(name, None)
        if has_status(resource) and resource != _NODES:
            obj.pop("status", None)
    if "spec" in obj and _plural(resource) not in _WITHOUT_GENERATION:
        metadata["generation"] = 1
    return obj


def written(resource: str, before: Json, body: Json, subresource: str | None) -> Json:
    """The object that follows `before` when `body` is written by a subresource, empty for the object itself.

    By None everything can be changed but what identifies the object: so a test sets up a world.
    """
    after = copy_json(body)
    if subresource == "status" and _is_custom(resource):
        after = {**copy_json(before), **({"status": after["status"]} if "status" in after else {})}
    elif subresource is not None and has_status(resource):
        kept = "spec" if subresource == "status" else "status"
        after.pop(kept, None)
        after |= {kept: before[kept]} if kept in before else {}
    metadata = after.setdefault("metadata", {})
    for name in _FIXED if subresource is not None else ("uid", "creationTimestamp", "name", "namespace"):
        metadata.pop(name, None)
        if name in before["metadata"]:
            metadata[name] = before["metadata"][name]
    generation = before["metadata"].get("generation")
    if generation is not None:
        metadata["generation"] = generation + (after.get("spec") != before.get("spec"))
    return after


def deleting(obj: Json, now: str) -> Json:
    """An object that has finalizers, once its deletion was asked for."""
    after = copy_json(obj)
    after["metadata"].setdefault("deletionTimestamp", now)
    after["metadata"].setdefault("deletionGracePeriodSeconds", 0)
    return after


def is_let_go(before: Json, after: Json) -> bool:
    """Whether a write has taken away the last finalizer that kept a deleted object."""
    metadata = after["metadata"]
    return bool(
        metadata.get("deletionTimestamp")
        and before["metadata"].get("finalizers")
        and not metadata.get("finalizers")
    )


def find_wrong(before: Json, after: Json) -> Iterator[tuple[str, str]]:
    """What no kind allows, each as field and message."""
    old, new = before["metadata"], after["metadata"]
    added = set(new.get("finalizers") or ()) - set(old.get("finalizers") or ())
    if old.get("deletionTimestamp") and added:
        message = "Forbidden: no new finalizers can be added if the object is being deleted"
        yield "metadata.finalizers", f"{message}, found new finalizers {sorted(added)}"


def find_meddling(before: Json, body: Json, *, is_patch: bool) -> Iterator[tuple[str, str]]:
    """What a writer may not set of an object that is there; another uid in a PUT is a conflict instead."""
    old, new = before["metadata"], body.get("metadata") or {}
    for name in ("uid", "deletionTimestamp") if is_patch else ("deletionTimestamp",):
        if new.get(name) and new[name] != old.get(name):
            yield f"metadata.{name}", f'Invalid value: "{new[name]}": field is immutable'


def is_covered(pod: Json, budget: Json) -> bool:
    """Whether a disruption budget of the same namespace is about a pod; of selectors by `matchLabels`."""
    selector = (budget.get("spec") or {}).get("selector")
    labels = pod["metadata"].get("labels") or {}
    return selector is not None and (selector.get("matchLabels") or {}).items() <= labels.items()


def orphans(objects: Iterable[Json]) -> list[Json]:
    """The objects whose owners are all gone, as the garbage collector finds them."""
    everything = list(objects)
    alive = {obj["metadata"]["uid"] for obj in everything}
    return [
        obj
        for obj in everything
        if (owners := obj["metadata"].get("ownerReferences"))
        and not any(owner.get("uid") in alive for owner in owners)
    ]


def _plural(resource: str) -> str:
    return resource.rsplit("/", 1)[-1]


def _is_custom(resource: str) -> bool:
    kind_of_root, group = resource.split("/")[:2]
    return kind_of_root == "apis" and group not in _BUILT_IN_GROUPS
