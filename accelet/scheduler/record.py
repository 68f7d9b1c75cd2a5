"""A gang's plan as it is written down before anything is done: one ConfigMap."""

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, NamedTuple

import msgspec

from accelet.assignments.ownform import render_own
from accelet.kube.errors import MalformedObjectError
from accelet.kube.objects import RawObject, Wire, WireObject, read_object
from accelet.scheduler.errors import BrokenPlanError, PlanTooLargeError
from accelet.scheduler.gangs.grouping import GangKey
from accelet.scheduler.gangs.withheld import is_stand_in
from accelet.scheduler.placement.plan import Plan

LABEL = "accelet.dev/placement-plan"
SELECTOR = f"{LABEL}=v1"
PLAN_NAME = "accelet-plan-"
"""What the names of plans begin with; a policy keeps others from such names."""

MOST_BYTES = 1_000_000
"""A ConfigMap may have 1 MiB: plans of some 8,000 pods."""

_DATA = "plan.json"


@dataclass(frozen=True, slots=True)
class Placement:
    """One pod, that one and no later one of its name, and its node.

    `assignment` is the text of its annotation, empty where it gets no cards.
    """

    pod: str
    uid: str
    node: str
    assignment: str = ""


def placements_of(plan: Plan) -> tuple[Placement, ...]:
    """A plan's places as they are written down: the only way to there, and open to checked plans alone.

    Those of pods that are still to be made are not: they are placed when they are there, beside the others.

    Raises:
        BrokenPlanError: nobody has checked it.
    """
    if plan.nodes is None:
        return ()
    if not plan.is_checked:
        raise BrokenPlanError("nobody has checked it")
    return tuple(
        Placement(pod.name, pod.uid, node, render_own(assignment) if assignment else "")
        for (pod, node), assignment in zip(plan.placements, plan.assignments, strict=True)
        if not is_stand_in(pod)
    )


class Evicted(NamedTuple):
    """A pod that must be gone before a plan can be carried out: that one and no later one of its name."""

    namespace: str
    pod: str
    uid: str


class Awaited(NamedTuple):
    """A Move that must be done before a plan can be carried out: that one and no later one of its name."""

    namespace: str
    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class Record:
    """What a gang's ConfigMap says. `resource_version` and `uid` are empty until the API server has it.

    `evicted` pods of other gangs, of lower priority, make room for it, or `awaited` Moves do: until
    `until_s`, in seconds since the epoch, or the plan is given up.
    """

    gang: GangKey
    placements: tuple[Placement, ...]
    distance: int
    lower_bound: int
    resource_version: str = ""
    uid: str = ""
    evicted: tuple[Evicted, ...] = ()
    awaited: tuple[Awaited, ...] = ()
    until_s: float = 0.0

    @property
    def name(self) -> str:
        """The ConfigMap's name, which only this gang has."""
        text = f"{self.gang.kind}/{self.gang.name}"
        return f"{PLAN_NAME}{hashlib.sha256(text.encode()).hexdigest()[:16]}"

    @property
    def key(self) -> tuple[str, str]:
        return self.gang.namespace, self.name

    def part(self, first: int, count: int) -> "Record":
        """The same plan with some of its placements only."""
        return replace(self, placements=self.placements[first : first + count])

    def to_body(self) -> Mapping[str, object]:
        """The ConfigMap as it is sent.

        Raises:
            PlanTooLargeError: the gang is too large for one ConfigMap.
        """
        plan = _WirePlan(
            gang=_WireGang(self.gang.kind, self.gang.name),
            placements=[(p.pod, p.uid, p.node) for p in self.placements],
            assignments={p.pod: p.assignment for p in self.placements if p.assignment},
            distance=self.distance,
            lower_bound=self.lower_bound,
            evicted=list(self.evicted),
            awaited=list(self.awaited),
            until_s=self.until_s,
        )
        text = msgspec.json.encode(plan).decode()
        if len(text) > MOST_BYTES:
            raise PlanTooLargeError(
                f"a plan of {len(self.placements):,} pods does not fit into one ConfigMap"
            )
        version = {"resourceVersion": self.resource_version} if self.resource_version else {}
        return {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {
                "name": self.name,
                "namespace": self.gang.namespace,
                "labels": {LABEL: "v1"},
                **version,
            },
            "data": {_DATA: text},
        }


class _WireGang(Wire, frozen=True):
    kind: str
    name: str


_Until = Annotated[float, msgspec.Meta(ge=0, le=2**40)]
_Distance = Annotated[int, msgspec.Meta(ge=0, le=2**62)]


class _WirePlan(Wire, frozen=True):
    gang: _WireGang
    placements: list[tuple[str, str, str]]
    distance: _Distance
    lower_bound: _Distance
    assignments: dict[str, str] = msgspec.field(default_factory=dict)
    evicted: list[Evicted] = msgspec.field(default_factory=list)
    awaited: list[Awaited] = msgspec.field(default_factory=list)
    until_s: _Until = 0.0


class _WireConfigMap(WireObject, frozen=True):
    data: dict[str, str] | None = None


def parse_record(raw: RawObject) -> Record:
    """The plan that a ConfigMap holds: one with the label that nobody else may write, under its gang's name.

    Raises:
        MalformedObjectError: it holds none.
    """
    wire = read_object(raw, "ConfigMap", _WireConfigMap)
    metadata = wire.metadata
    namespace = metadata.namespace or ""
    if (metadata.labels or {}).get(LABEL) != "v1":
        problem = f"is no plan of the scheduler's, for it has no label {SELECTOR}"
        raise MalformedObjectError("ConfigMap", namespace, metadata.name, "metadata.labels", problem)
    try:
        plan = msgspec.json.decode((wire.data or {}).get(_DATA, ""), type=_WirePlan)
    except (ValueError, RecursionError) as error:
        raise MalformedObjectError(
            "ConfigMap", namespace, metadata.name, f"data[{_DATA}]", str(error)
        ) from None
    record = Record(
        gang=GangKey(namespace, plan.gang.name, plan.gang.kind),
        placements=tuple(
            Placement(*placement, plan.assignments.get(placement[0], "")) for placement in plan.placements
        ),
        distance=plan.distance,
        lower_bound=plan.lower_bound,
        resource_version=metadata.resource_version or "",
        uid=metadata.uid or "",
        evicted=tuple(plan.evicted),
        awaited=tuple(plan.awaited),
        until_s=plan.until_s,
    )
    if record.name != metadata.name:
        problem = f"is of another gang, whose plan is called {record.name}"
        raise MalformedObjectError("ConfigMap", namespace, metadata.name, f"data[{_DATA}]", problem)
    return record
