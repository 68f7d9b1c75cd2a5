"""Running tasks as the planner looks at them when they are to be elsewhere."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from accelet.assignments.annotations import ASSIGNED_BY
from accelet.assignments.assignment import Assignment
from accelet.assignments.ownform import ASSIGNMENT_ANNOTATION
from accelet.kube.objects import ObjectKey
from accelet.kube.pods import Pod
from accelet.scheduler.cluster.layout import Layout
from accelet.scheduler.cluster.shape import PodAsk
from accelet.scheduler.cluster.supposing import Arrival
from accelet.scheduler.gangs.exclusive import as_occupant
from accelet.scheduler.gangs.grouping import CARDS_GATE, GATE_PREFIX, Gang, GangKey, make_gang
from accelet.scheduler.moves.tasks import TaskTerms
from accelet.scheduler.placement.plan import Plan
from accelet.scheduler.release import unpinned_terms
from accelet.scheduler.state import SchedulerState

_INDEX = "batch.kubernetes.io/job-completion-index"
_MOST_DIGITS = 9
_PARTS = frozenset(("tiles", "millicores", "memory.max"))


@dataclass(frozen=True, slots=True)
class MovableTask:
    """A task of which every rank runs. `gang` is that of its pods as if none had a node, in rank order.

    `ranks` has the number of each of these pods: ranks that have come to their end are not among them.
    `nodes` has where each of them is now, `cards` what it is assigned there, empty without any. `since_s` is
    from when all of it has run there, in seconds since the epoch.
    """

    terms: TaskTerms
    gang: Gang
    ranks: tuple[int, ...]
    nodes: tuple[str, ...]
    cards: tuple[str, ...]
    since_s: float = 0.0

    @property
    def uid(self) -> str:
        return self.terms.uid

    @property
    def pods(self) -> tuple[ObjectKey, ...]:
        return tuple(pod.key for pod in self.gang.pods)

    @property
    def ending_s(self) -> int:
        """How long its pods are given to end."""
        return max((pod.ending_s for pod in self.gang.pods), default=0)

    def distance(self, layout: Layout) -> int | None:
        """How far apart its ranks are now; None where a node of theirs is not in the layout."""
        if any(node not in layout.leaf_of for node in self.nodes):
            return None
        return distance_of(self.nodes, layout)


def distance_of(nodes: Sequence[str], layout: Layout) -> int:
    """How far apart ranks on these nodes are, in rank order."""
    return layout.tree.length(np.array([layout.leaf_of[node] for node in nodes], dtype=np.int64))


@dataclass(frozen=True, slots=True)
class Relocation:
    """A task and the place of each of its ranks afterwards, with what that is assigned there.

    The ranks in `kept` keep what they have.
    """

    task: MovableTask
    nodes: tuple[str, ...]
    assignments: tuple[Assignment | None, ...]
    kept: frozenset[int] = frozenset()

    @property
    def arrivals(self) -> Sequence[Arrival]:
        """Those ranks that get another place, which may be on the same node."""
        places = zip(self.task.pods, self.task.gang.shapes, self.nodes, self.assignments, strict=True)
        occupant = as_occupant(self.task.gang)
        return [Arrival(*place, occupant) for rank, place in enumerate(places) if rank not in self.kept]


def relocation_of(task: MovableTask, plan: Plan) -> Relocation | None:
    """What a plan for all ranks of a task comes to."""
    if plan.nodes is None or len(plan.nodes) != len(task.nodes):
        return None
    return Relocation(task, plan.nodes, plan.assignments)


def movable_task(terms: TaskTerms, pods: Sequence[Pod], gang: Gang, since_s: float) -> MovableTask | None:
    """The task of these pods, of which `gang` is that of the same pods `as_if_waiting`.

    None where one of them has no node, no rank, or is not in the gang.
    """
    by_key = {pod.key: pod for pod in pods}
    running = [by_key[pod.key] for pod in gang.pods if pod.key in by_key]
    ranks = [rank for pod in running if (rank := rank_of_task(pod)) is not None]
    nodes = tuple(pod.node_name for pod in running if pod.node_name)
    if not gang.pods or min(len(ranks), len(nodes)) < max(len(pods), len(gang.pods)):
        return None
    cards = tuple(pod.annotations.get(ASSIGNMENT_ANNOTATION, "") for pod in running)
    return MovableTask(terms, gang, tuple(ranks), nodes, cards, since_s)


def running_task(terms: TaskTerms, state: SchedulerState) -> MovableTask | None:
    """The task, where each of its ranks runs and is ready; None where one does not, or is still to come.

    None too of one that has a domain to itself: what is held for a move would have to be so as well.
    """
    key = gang_of_task(terms)
    pods = [pod for pod in state.members(key) if not pod.is_terminal]
    if not pods or not all(map(_is_ready, pods)):
        return None
    asks = {pod.key: unpinned_ask(pod, state.asked_by(pod)) for pod in pods}
    waiting = [as_if_waiting(pod, state.prefix) for pod in pods]
    gang = make_gang(key, waiting, state.owners, state.prefix, lambda pod: asks[pod.key])
    if gang is None or gang.missing or gang.is_alone:
        return None
    gang = replace(gang, least=None, excluded=state.excluded(key))
    since_s = max(pod.started_s or pod.created_s for pod in pods)
    return movable_task(terms, pods, gang, since_s)


def _is_ready(pod: Pod) -> bool:
    ready = any(one.type == "Ready" and one.status == "True" for one in pod.conditions)
    return ready and pod.phase == "Running" and pod.deleted_s is None


def gang_of_task(terms: TaskTerms) -> GangKey:
    """The gang of a task's pods: those of one Job, which its controller names so."""
    return GangKey(terms.namespace, f"{terms.name}-{terms.attempt}", "Job")


def rank_of_task(pod: Pod) -> int | None:
    """A pod's rank in its task, as its Job has numbered it; None of one without."""
    text = pod.annotations.get(_INDEX, "")
    return int(text) if text.isascii() and text.isdecimal() and len(text) <= _MOST_DIGITS else None


def as_if_waiting(pod: Pod, prefix: str = GATE_PREFIX) -> Pod:
    """A running pod as it was when it waited for its place: gated, and pinned to no node."""
    annotations = {name: text for name, text in pod.annotations.items() if name not in ASSIGNED_BY}
    gates = (f"{prefix}move", *((CARDS_GATE,) if len(annotations) < len(pod.annotations) else ()))
    return replace(
        pod,
        node_name=None,
        phase="Pending",
        gates=gates,
        annotations=annotations,
        required_terms=unpinned_terms(pod),
    )


def unpinned_ask(pod: Pod, ask: PodAsk) -> PodAsk:
    """What a running pod asks of any node, of what it asks as it is."""
    rules = replace(ask.shape.rules, required_terms=unpinned_terms(pod))
    return replace(ask, shape=replace(ask.shape, rules=rules))


def extended_amounts(gang: Gang) -> Mapping[str, int]:
    """How much of each extended resource the gang asks for in all."""
    total: Counter[str] = Counter()
    for shape in gang.shapes:
        total.update({resource: amount for resource, amount in shape.units if "/" in resource})
    return total


def is_worth(waiting: Gang, moved: Sequence[MovableTask], factor: float) -> bool:
    """Whether what gets in is at least `factor` times what is moved, in everything that both ask for.

    Where both ask for parts of cards, these are compared and not how many cards they are spread over. Where
    they have no extended resource in common, their pods are counted.
    """
    wanted = extended_amounts(waiting)
    moving: Counter[str] = Counter()
    for task in moved:
        moving.update(extended_amounts(task.gang))
    shared = wanted.keys() & moving.keys()
    if not shared:
        return len(waiting.pods) >= factor * sum(len(task.nodes) for task in moved)
    parts = {resource for resource in shared if resource.partition("/")[2] in _PARTS}
    return all(wanted[resource] >= factor * moving[resource] for resource in parts or shared)
