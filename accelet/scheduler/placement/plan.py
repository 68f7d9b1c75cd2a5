"""Gangs in order and a cluster to a plan: who sits where, how far apart, how well proven, or why not."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from accelet.assignments.assignment import Assignment
from accelet.kube.pods import Pod
from accelet.scheduler.cluster.layout import Layout
from accelet.scheduler.cluster.room import Room
from accelet.scheduler.cluster.topology import ROOT, Ints
from accelet.scheduler.errors import UnknownLevelError
from accelet.scheduler.gangs.grouping import Gang, required_level
from accelet.scheduler.placement.identical import Shortfall, place_identical
from accelet.scheduler.placement.problem import PlacementProblem
from accelet.scheduler.placement.repair import repair
from accelet.scheduler.placement.unlike import USUAL_EFFORT, Effort, place_unlike
from accelet.scheduler.placement.why import explain_shortfall, explain_unlike, level_name
from resourcemanager.target import describe

_UNDECIDED = "its pods have nodes, but there are too many ways to share the cards there to find one"


@dataclass(frozen=True, slots=True)
class Plan:
    """What was decided for one gang.

    `nodes` has the node of each of the gang's pods, and `assignments` the cards and tiles of those that
    get any; or `nodes` is None and `reason` says why, for people. Then `distance` is None too. The distance
    is that of the whole gang, with members that were placed before. No placement has less distance than
    `lower_bound`; `is_optimal` says that this one has no more. `fault` is an error of ours that kept the gang
    from being planned.
    """

    gang: Gang
    nodes: tuple[str, ...] | None = None
    assignments: tuple[Assignment | None, ...] = ()
    distance: int | None = None
    lower_bound: int = 0
    is_optimal: bool = False
    reason: str | None = None
    fault: Exception | None = None

    @property
    def placements(self) -> Iterable[tuple[Pod, str]]:
        return zip(self.gang.pods, self.nodes or (), strict=False)


def describe_plan(plan: Plan) -> str:
    """What was decided, for people: `on n3: main has 0000-03-00.0 tile 1`."""
    nodes = dict.fromkeys(plan.nodes or ())
    if len(plan.gang.pods) == 1:
        (where,), (assignment,) = nodes, plan.assignments or (None,)
        given = assignment.containers.items() if assignment else ()
        cards = [
            f"{name} has {describe(pieces)}" for name, resources in given for pieces in resources.values()
        ]
        return f"on {where}" + (f": {'; '.join(cards)}" if cards else "")
    distance = plan.distance or 0
    proof = "optimal" if plan.is_optimal else f"at most {distance - plan.lower_bound:,} too far"
    return f"{len(plan.gang.pods)} pods on {len(nodes)} nodes, distance {distance:,}, {proof}"


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
    except UnknownLevelError as error:
        return Plan(gang, reason=str(error))
    problem = PlacementProblem(layout.tree, room, gang.shapes, within, gang.is_exclusive)
    kept = _kept(gang, layout)
    if any(leaf is not None for leaf in kept):
        plan, leaves = _repair(gang, _around_kept(problem, kept), kept, layout, effort)
    else:
        plan, leaves = _place(gang, problem, layout, effort)
    if plan.nodes is None:
        return plan
    assignments = room.take(leaves, gang.shapes)
    if assignments is None:
        return Plan(gang, lower_bound=plan.lower_bound, reason=_UNDECIDED)
    return replace(plan, assignments=tuple(assignments))


def _place(gang: Gang, problem: PlacementProblem, layout: Layout, effort: Effort) -> tuple[Plan, list[int]]:
    tree = problem.tree
    if len(problem.kinds) > 1:
        outcome = place_unlike(problem, effort)
        if outcome.leaves is None:
            reason = explain_unlike(problem, is_settled=outcome.is_settled)
            return Plan(gang, lower_bound=outcome.lower_bound, reason=reason), []
        leaves, lower_bound, is_optimal = outcome.leaves, outcome.lower_bound, outcome.is_settled
    else:
        found = place_identical(tree, problem.slots[0], len(gang.pods), problem.within)
        if isinstance(found, Shortfall):
            return Plan(gang, reason=explain_shortfall(problem, 0, found)), []
        leaves, lower_bound, is_optimal = found, tree.length(found), True
    names, distance = _names(layout, leaves), tree.length(leaves)
    plan = Plan(gang, names, distance=distance, lower_bound=lower_bound, is_optimal=is_optimal)
    return plan, leaves.tolist()


def _kept(gang: Gang, layout: Layout) -> list[int | None]:
    """By rank, the leaf of each member that has a node, and None for each that is to be placed."""
    pending = {pod.key for pod in gang.pods}
    kept: list[int | None] = []
    for member in gang.members:
        if member.key in pending:
            kept.append(None)
        elif member.node_name and member.node_name in layout.leaf_of:
            kept.append(layout.leaf_of[member.node_name])
    return kept


def _around_kept(problem: PlacementProblem, kept: list[int | None]) -> PlacementProblem:
    """The problem within that domain of the required level in which the gang is already."""
    if problem.within == ROOT:
        return problem
    codes = problem.tree.codes[problem.within]
    home = next(codes[leaf] for leaf in kept if leaf is not None)
    room = problem.room.without(codes != home, f"in another {level_name(problem)} than the rest of the gang")
    return replace(problem, room=room)


def _repair(
    gang: Gang, problem: PlacementProblem, kept: list[int | None], layout: Layout, effort: Effort
) -> tuple[Plan, list[int]]:
    repaired = repair(problem, kept, effort)
    if repaired is None:
        placed = sum(leaf is not None for leaf in kept)
        reason = explain_unlike(replace(problem, within=ROOT), is_settled=False)
        return Plan(gang, reason=f"to join the {placed} pods of the gang that are placed, {reason}"), []
    is_optimal = repaired.distance == repaired.lower_bound
    nodes = _names(layout, repaired.leaves)
    plan = Plan(
        gang, nodes, distance=repaired.distance, lower_bound=repaired.lower_bound, is_optimal=is_optimal
    )
    return plan, repaired.leaves.tolist()


def _names(layout: Layout, leaves: Ints) -> tuple[str, ...]:
    return tuple(layout.nodes[leaf].name for leaf in leaves)
