"""Owners that make their pods in stages: how many of them they will make now.

To wait for pods that only come when others run would be to wait for ever. The rules are those of JobSet
v1alpha2 (`dependsOn`, `startupPolicy`) and of Jobs with `backoffLimitPerIndex`.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from accelet.kube.objects import Wire

_INDEXES = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?", re.ASCII)
_MOST_INDEXES = 10**6


class WireDependency(Wire, frozen=True):
    name: str
    status: str | None = None


class WireJobState(Wire, frozen=True):
    name: str
    ready: int | None = None
    succeeded: int | None = None


@dataclass(frozen=True, slots=True)
class JobStage:
    """One kind of Jobs of a JobSet: `replicas` of them, of `parallel` pods each, when `after` allows it."""

    name: str
    replicas: int
    parallel: int
    after: Sequence[WireDependency] = ()


def pods_now(stages: Sequence[JobStage], states: Sequence[WireJobState], *, in_order: bool) -> int:
    """How many pods a JobSet has once it has made all that it will make before others are ready.

    Jobs that have succeeded make none. `in_order`: each kind of Jobs waits until those before it are ready.
    """
    seen = {state.name: state for state in states}
    replicas = {stage.name: stage.replicas for stage in stages}
    pods = 0
    for stage in stages:
        if not all(_is_met(dependency, seen, replicas) for dependency in stage.after):
            continue
        state = seen.get(stage.name, WireJobState(stage.name))
        pods += max(0, stage.replicas - (state.succeeded or 0)) * max(0, stage.parallel)
        if in_order and not _is_ready(state, stage.replicas):
            break
    return pods


def count_indexes(text: str) -> int:
    """How many indexes `1,3-5` names; what is no such list counts as none."""
    count = 0
    for part in text.split(",", _MOST_INDEXES) if text else ():
        match = _INDEXES.fullmatch(part)
        if match is None:
            return 0
        count += max(0, int(match[2] or match[1]) - int(match[1]) + 1)
    return count


def _is_met(
    dependency: WireDependency, states: Mapping[str, WireJobState], replicas: Mapping[str, int]
) -> bool:
    state = states.get(dependency.name)
    if state is None or dependency.name not in replicas:
        return False
    if dependency.status == "Complete":
        return (state.succeeded or 0) >= replicas[dependency.name]
    return _is_ready(state, replicas[dependency.name])


def _is_ready(state: WireJobState, replicas: int) -> bool:
    return (state.ready or 0) + (state.succeeded or 0) >= replicas
