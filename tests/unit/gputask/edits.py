"""What follows from an edit of each field of a GPUTask, and when: docs/gputask.md has the same."""

from collections.abc import Iterator
from typing import Any, Literal, get_args, get_origin

import msgspec

from accelet.kinds.gputask import GPUTaskSpec

Follows = Literal["refused", "at once", "at the next end", "at the next Move"]

EDITS: dict[str, Follows] = {
    "container": "refused",
    "cards": "refused",
    "network": "refused",
    "rendezvous": "refused",
    "success": "refused",
    "minReplicas": "refused",
    "queue": "refused",
    "graceSeconds": "refused",
    "priorityClassName": "refused",
    "serviceAccountName": "refused",
    "nodeSelector": "refused",
    "tolerations": "refused",
    "imagePullSecrets": "refused",
    "runtimeClassName": "refused",
    "securityContext": "refused",
    "podLabels": "refused",
    "podAnnotations": "refused",
    "template": "refused",
    "onFailure.restart": "refused",
    "onFailure.fatalExitCodes": "refused",
    "onFailure.forgiveDisruptions": "refused",
    "onFailure.retries": "at the next end",
    "replicas": "at once",
    "suspend": "at once",
    "deadlineSeconds": "at once",
    "ttlSeconds": "at once",
    "move.policy": "at the next Move",
    "move.saveSeconds": "at the next Move",
    "move.minRunSeconds": "at the next Move",
    "move.maxMoves": "at the next Move",
}
"""Of each field, by its path; what stands for a whole part holds for all below it."""


def fields_of(kind: type[msgspec.Struct] = GPUTaskSpec, above: str = "") -> Iterator[str]:
    """The paths of all fields of the schema that hold values, as manifests write them."""
    for field in msgspec.structs.fields(kind):
        path = f"{above}{field.encode_name}"
        part = _struct_of(field.type)
        if part is None:
            yield path
        else:
            yield from fields_of(part, f"{path}.")


def row_of(path: str) -> str | None:
    """The row of the table that speaks of a field; None where none does."""
    parts = path.split(".")
    found = [row for count in range(1, len(parts) + 1) if (row := ".".join(parts[:count])) in EDITS]
    assert len(found) <= 1, f"{path} has several rows: {found}"
    return found[0] if found else None


def _struct_of(kind: Any) -> type[msgspec.Struct] | None:
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return kind
    if get_origin(kind) in (tuple, list, dict):
        return None
    found = [one for inner in get_args(kind) if (one := _struct_of(inner)) is not None]
    return found[0] if found else None
