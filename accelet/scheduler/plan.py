"""Gangs in order and a cluster to a plan: who sits where, how far apart, how well proven, or why not."""

from collections.abc import Iterable
from dataclasses import dataclass

from accelet.kube.pods import Pod
from accelet.scheduler.gangs import Gang, required_level
from accelet.scheduler.identical import Shortfall, place_identical
from accelet.scheduler.layout import Layout
from accelet.scheduler.problem import Problem
from accelet.scheduler.room import Room
from accelet.scheduler.unlike import USUAL_EFFORT, Effort, place_unlike
from accelet.scheduler.why import explain_shortfall, explain_unlike


@dataclass(frozen=True, slots=True)
class Plan:
    """What was decided for one gang.

    `nodes` has the node of each of the gang's pods, or is None and `reason` says why, for people. Then
    `distance` is None too. No placement has less distance than `lower_bound`; `is_optimal` says that this
    one has no more.
    """

    gang: Gang
    nodes: tuple[str, ...] | None = None
    distance: int | None = None
    lower_bound: int = 0
    is_optimal: bool = False
    reason: str | None = None

    @property
    def placements(self) -> Iterable[tuple[Pod, str]]:
        return zip(self.gang.pods, self.nodes or (), strict=False)


def plan_gangs(
    gangs: Iterable[Gang], layout: Layout, room: Room, effort: Effort = USUAL_EFFORT
) -> list[Plan]:
    """Plans one gang after the other; what a gang is given is taken from `room` for those behind it.

    A gang that must wait takes nothing and stops nobody.
    """
    return [plan_gang(gang, layout, room, effort) for gang in gangs]


def plan_gang(gang: Gang, layout: Layout, room: Room, effort: Effort = USUAL_EFFORT) -> Plan:
    """Plans one gang and takes its places from `room`."""
    if gang.objection:
        return Plan(gang, reason=gang.objection)
    if gang.missing:
        return Plan(gang, reason=f"waits for {gang.missing} of its {gang.size} pods to be created")
    try:
        within = required_level(gang, layout.tree.scheme.levels)
    except LookupError as error:
        return Plan(gang, reason=str(error.args[0]))
    problem = Problem(layout.tree, room, gang.shapes, within, gang.is_exclusive)
    plan, leaves = _place(gang, problem, layout, effort)
    if leaves is None:
        return plan
    for leaf, shape in zip(leaves, gang.shapes, strict=True):
        room.take(leaf, shape)
    return plan


def _place(gang: Gang, problem: Problem, layout: Layout, effort: Effort) -> tuple[Plan, list[int] | None]:
    tree = problem.tree
    if len(problem.kinds) > 1:
        outcome = place_unlike(problem, effort)
        if outcome.leaves is None:
            reason = explain_unlike(problem, is_settled=outcome.is_settled)
            return Plan(gang, lower_bound=outcome.lower_bound, reason=reason), None
        leaves, lower_bound, is_optimal = outcome.leaves, outcome.lower_bound, outcome.is_settled
    else:
        slots = problem.slots[0]
        found = place_identical(tree, slots, len(gang.pods), problem.within)
        if isinstance(found, Shortfall):
            reason = explain_shortfall(problem, 0, found)
            return Plan(gang, reason=reason), None
        leaves, lower_bound, is_optimal = found, tree.length(found), True
    nodes = tuple(layout.nodes[leaf].name for leaf in leaves)
    return Plan(gang, nodes, tree.length(leaves), lower_bound, is_optimal), leaves.tolist()
