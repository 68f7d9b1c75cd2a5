"""GPUTasks out of flags, and what of a manifest nobody would read."""

import re
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec

from accelet.kinds.gputask import GPU_TASKS, GPUTaskSpec
from accelet.kinds.schema import structural_schema

_LONGEST_BASE = 44
"""The API server adds six letters, and a name has fifty."""


class TaskFlags(msgspec.Struct, frozen=True, kw_only=True):
    """What can be said on the command line."""

    name: str | None = None
    ranks: int = 1
    min_ranks: int | None = None
    cards: int | None = None
    tiles: int | None = None
    memory: str | None = None
    resource: str | None = None
    level: str | None = None
    retries: int = 0


def manifest_of(image: str, words: Sequence[str], flags: TaskFlags) -> dict[str, Any]:
    """The GPUTask that was asked for."""
    cards = {
        key: value
        for key, value in {
            "resource": flags.resource,
            "cards": flags.cards,
            "tiles": flags.tiles,
            "memory": flags.memory,
        }.items()
        if value is not None
    }
    spec: dict[str, Any] = {"container": {"image": image}, "replicas": flags.ranks}
    if flags.min_ranks is not None:
        spec["minReplicas"] = flags.min_ranks
    if words:
        spec["container"]["command"] = list(words)
    if cards:
        spec["cards"] = cards
    if flags.level:
        spec["network"] = {"requiredLevel": flags.level}
    if flags.retries:
        spec["onFailure"] = {"retries": flags.retries}
    named = {"name": flags.name} if flags.name else {"generateName": f"{_base(image)}-"}
    return {"apiVersion": GPU_TASKS.api_version, "kind": GPU_TASKS.kind, "metadata": named, "spec": spec}


def unknown_fields(body: dict[str, Any]) -> list[str]:
    """The fields of a GPUTask's spec that the kind has not: the API server drops them without a word."""
    return list(_unknown(body.get("spec"), structural_schema(GPUTaskSpec), "spec"))


def _unknown(value: Any, schema: dict[str, Any], place: str) -> Iterator[str]:
    known = schema.get("properties")
    if isinstance(value, dict) and known is not None:
        for key, inner in value.items():
            if key not in known:
                yield f"{place}.{key}"
            else:
                yield from _unknown(inner, known[key], f"{place}.{key}")
    if isinstance(value, list) and "items" in schema:
        for index, inner in enumerate(value):
            yield from _unknown(inner, schema["items"], f"{place}[{index}]")


def _base(image: str) -> str:
    """What of an image's name can begin a task's."""
    last = re.split(r"[:@]", image.rpartition("/")[2])[0].lower()
    cleaned = re.sub(r"[^a-z0-9]+", "-", last).strip("-")
    begun = cleaned if cleaned[:1].isalpha() else f"task-{cleaned}".rstrip("-")
    return begun[:_LONGEST_BASE].rstrip("-")
