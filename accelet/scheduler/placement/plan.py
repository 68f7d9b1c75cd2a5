"""Gangs in order and a cluster to a plan: who sits where, how far apart, how well proven, or why not."""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from accelet.assignments.assignment import Assignment
from accelet.kube.pods import Pod
from accelet.scheduler.budget import Budget, BudgetSpentError
from accelet.scheduler.cards.account import list_uses
from accelet.scheduler.cluster.layout import Layout
from accelet.scheduler.cluster.residents import Resident, Residents
from accelet.scheduler.cluster.room import Room
from accelet.scheduler.cluster.topology import ROOT, Ints
from accelet.scheduler.errors import BrokenPlanError, UnknownLevelError
from accelet.scheduler.gangs.exclusive import explain_nearest, occupants_of
from accelet.scheduler.gangs.grouping import Gang
from accelet.scheduler.gangs.rankslices import UNLIKE_SLICES, SliceTerms
from accelet.scheduler.placement.checking.promises import find_broken_promise
from accelet.scheduler.placement.gangproblems import (
    kept_of,
    levels_of,
    members_of,
    places_of,
    problems_of,
    slices_of,
)
from accelet.scheduler.placement.identical import Shortfall, place_identical
from accelet.scheduler.placement.podsets.owndomains import place_in_own_domains
from accelet.scheduler.placement.podsets.placing import place_sets
from accelet.scheduler.placement.problem import PlacementProblem
from accelet.scheduler.placement.repairs.gaps import Repaired, repair
from accelet.scheduler.placement.repairs.slices import repair_slices
from accelet.scheduler.placement.unlike import QUICK_EFFORT, USUAL_EFFORT, Effort, place_unlike
from accelet.scheduler.placement.why import explain_lacking, explain_shortfall, explain_unlike
from resourcemanager.target import describe

_PART = 3
"""Where there is more than one question about a gang, each may take one part in so many of what is left."""

_MOST_SEARCHED = 5

_UNDECIDED = "its pods have nodes, but there are too many ways to share the cards there to find one"
_TOO_MUCH = "no place was found with the work that one gang may take; that is not proven impossible"


@dataclass(frozen=True, slots=True)
class Plan:
    """What was decided for one gang.

    `nodes` has the node of each of the gang's pods, and `assignments` the cards and tiles of those that
    get any; or `nodes` is None and `reason` says why, for people. Then `distance` is None too. The distance
    is that of the whole gang, with members that were placed before. No placement that keeps the same level
    has less than `lower_bound`; `is_optimal` says that this one has no more. `is_settled` says that more work
    would not change the decision. `fault` is an error of ours that kept the gang from being planned. What
    `is_checked` keeps every promise, and may be written down; nothing else may.
    The gang is that of the pods which are placed: of one that may begin with fewer, not always all.
    """

    gang: Gang
    nodes: tuple[str, ...] | None = None
    assignments: tuple[Assignment | None, ...] = ()
    distance: int | None = None
    lower_bound: int = 0
    is_optimal: bool = False
    is_settled: bool = True
    reason: str | None = None
    fault: Exception | None = None
    is_checked: bool = False

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
    others = "" if plan.gang.least is None or not plan.gang.missing else f" of {plan.gang.size}"
    return f"{len(plan.gang.pods)}{others} pods on {len(nodes)} nodes, distance {distance:,}, {proof}"


def plan_gangs(
    gangs: Iterable[Gang],
    layout: Layout,
    room: Room,
    effort: Effort = USUAL_EFFORT,
    budget: Budget | None = None,
) -> list[Plan]:
    """Plans one gang after the other; what a gang is given is taken from `room` for those behind it.

    A gang that must wait takes nothing and stops nobody. When all have taken what is in `budget`, that of
    `_MOST_SEARCHED` gangs if none is given, each of the others gets a quick search.
    """
    left, plans = budget or Budget(_MOST_SEARCHED * effort.units), list[Plan]()
    for gang in gangs:
        allowed = effort if left.left > 0 or effort.units <= QUICK_EFFORT.units else QUICK_EFFORT
        own = Budget(allowed.units)
        plans.append(plan_gang(gang, layout, room, allowed, own))
        left.left -= own.spent
    return plans


def plan_gang(
    gang: Gang, layout: Layout, room: Room, effort: Effort = USUAL_EFFORT, budget: Budget | None = None
) -> Plan:
    """Plans one gang and takes its places from `room`; a plan that breaks a promise is a fault, and none."""
    try:
        return take_places(find_places(gang, layout, room, effort, budget), layout, room)
    except BrokenPlanError as fault:
        return faulty_plan(gang, fault)


def faulty_plan(gang: Gang, fault: Exception) -> Plan:
    """That there is no plan for a gang, by a fault of ours."""
    reason = "cannot be planned by a fault of the scheduler; see its log"
    if isinstance(fault, BrokenPlanError):
        reason = f"its plan is not carried out, by a fault of the scheduler: {fault}"
    return Plan(gang, reason=reason, fault=fault)


def find_places(
    gang: Gang, layout: Layout, room: Room, effort: Effort = USUAL_EFFORT, budget: Budget | None = None
) -> Plan:
    """Plans one gang with as much work as `effort` allows, and leaves `room` as it is.

    What it costs is taken from `budget`, one of `effort.units` if None is given. Of a gang that may begin
    with fewer pods than all, the plan has as many of the lowest ranks as there is a place for.
    """
    if gang.objection:
        return Plan(gang, reason=gang.objection)
    if gang.lacking:
        return Plan(gang, reason=explain_lacking(gang))
    room = room.metered(budget or Budget(effort.units))
    try:
        levels, _ = levels_of(gang, layout), slices_of(gang, layout)
    except UnknownLevelError as error:
        return Plan(gang, reason=str(error))
    found = _find_nearest(gang, levels, layout, room, effort)
    if found.nodes is None and len(gang.parts) > 1:
        found = _find_most(found, lambda part: _find_nearest(part, levels, layout, room, effort))
    if found.nodes is None and (nearest := explain_nearest(gang.least_part, layout, room)):
        return replace(found, reason=f"{found.reason}; {nearest}")
    return found


def _find_most(whole: Plan, find: Callable[[Gang], Plan]) -> Plan:
    """The most of a gang's lowest ranks for which there is a place, once there is none for all.

    Whoever finds a place for some ranks finds one for fewer, so that halving finds the most. Where `find`
    leaves a question open, there may be more, and the plan is not settled.
    """
    gang = whole.gang
    fewest, *more = gang.parts
    least = find(gang.first(fewest))
    if least.nodes is None:
        reason = f"for the {fewest} of its pods that it needs at least, {least.reason}"
        return replace(least, gang=gang, reason=reason)
    plans = {len(gang.pods): whole, fewest: least}

    def is_refused(count: int) -> bool:
        plans[count] = find(gang.first(count))
        return plans[count].nodes is None

    most = gang.parts[bisect_left(more[:-1], 1, key=is_refused)]
    is_settled = plans[most].is_settled and all(p.is_settled for p in plans.values() if p.nodes is None)
    return replace(plans[most], is_settled=is_settled)


def _find_nearest(gang: Gang, levels: Sequence[int], layout: Layout, room: Room, effort: Effort) -> Plan:
    """The plan within the first of the levels within which there is one; each takes a part of the budget."""
    is_settled = True
    for level in levels[:-1]:
        with room.budget.part(_PART) as part:
            plan = _find_within(gang, level, layout, room.metered(part), effort)
        is_settled &= plan.is_settled
        if plan.nodes is not None:
            return replace(plan, is_settled=is_settled)
    is_part = len(levels) > 1 or gang.least is not None
    with room.budget.part(_PART if is_part else 1) as part:
        plan = _find_within(gang, levels[-1], layout, room.metered(part), effort)
    return replace(plan, is_settled=is_settled and plan.is_settled)


def _find_within(gang: Gang, level: int, layout: Layout, room: Room, effort: Effort) -> Plan:
    try:
        problems = problems_of(gang, layout, room, level)
    except BudgetSpentError:
        return Plan(gang, reason=_TOO_MUCH, is_settled=False)
    plans: list[Plan] = []
    for number, problem in enumerate(problems):
        with room.budget.part(len(problems) - number) as part:
            metered = replace(problem, room=problem.room.metered(part))
            try:
                plans.append(_find(gang, metered, layout, effort))
            except BudgetSpentError:
                plans.append(Plan(gang, reason=_TOO_MUCH, is_settled=False))
    return plans[0] if len(plans) == 1 else _nearest(plans)


def _nearest(plans: Sequence[Plan]) -> Plan:
    """The best of plans for one gang, each within another part of the cluster; or why the first is none."""
    found = min((plan for plan in plans if plan.distance is not None), key=_distance, default=None)
    if found is None:
        reason = f"{plans[0].reason}; pod affinity keeps it in one of {len(plans)} parts of the cluster"
        return replace(plans[0], reason=reason, is_settled=all(plan.is_settled for plan in plans))
    possible = (plan for plan in plans if plan.nodes is not None or not plan.is_settled)
    lower_bound = min(plan.lower_bound for plan in possible)
    is_optimal = _distance(found) <= lower_bound
    return replace(found, lower_bound=lower_bound, is_optimal=is_optimal, is_settled=is_optimal)


def _distance(plan: Plan) -> int:
    return plan.distance or 0


def _find(gang: Gang, problem: PlacementProblem, layout: Layout, effort: Effort) -> Plan:
    kept = kept_of(gang, layout)
    if gang.pod_sets or gang.own_domains:
        return _place_sets(gang, problem, kept, layout, effort)
    if gang.slices is not None and (why_not := _why_no_slices(gang, gang.slices, problem, kept)):
        return Plan(gang, reason=why_not)
    is_part = gang.slices is not None and not gang.slices.are_whole(gang.pods)
    if is_part or any(leaf is not None for leaf in kept):
        if gang.slices is not None and gang.slices.inner is not None:
            return _place_sets(gang, problem, kept, layout, effort)
        return _repair(gang, problem, kept, layout, effort)
    if len(problem.kinds) > 1:
        return _place_unlike(gang, problem, layout, effort)
    return _place_alike(gang, problem, layout)


def take_places(plan: Plan, layout: Layout, room: Room) -> Plan:
    """The plan with the cards and tiles of its pods, once its places are taken from `room`, and checked.

    Raises:
        BrokenPlanError: the plan breaks a promise. What it takes of `room` stays taken.
    """
    if plan.nodes is None:
        return plan
    leaves = [layout.leaf_of[name] for name in plan.nodes]
    assignments = room.take(leaves, plan.gang.shapes)
    if assignments is None:
        return Plan(plan.gang, lower_bound=plan.lower_bound, reason=_UNDECIDED, is_settled=False)
    checked = check_plan(replace(plan, assignments=tuple(assignments)), layout, room.residents)
    _settle_in(checked, room.residents)
    return checked


def check_plan(plan: Plan, layout: Layout, residents: Residents) -> Plan:
    """A plan that was found to keep every promise, whoever made it.

    `residents` are the pods that its nodes have without it.

    Raises:
        BrokenPlanError: it breaks one; says which.
    """
    broken = find_broken_promise(plan.gang, plan.nodes or (), plan.assignments, layout, residents)
    if broken is not None:
        raise BrokenPlanError(broken)
    return replace(plan, is_checked=True)


def _settle_in(plan: Plan, residents: Residents) -> None:
    """The pods of a plan are residents for whoever is planned after them."""
    by_node: defaultdict[str, list[Resident]] = defaultdict(list)
    places = zip(plan.gang.pods, plan.gang.shapes, plan.assignments, plan.nodes or (), strict=True)
    for (pod, shape, given, node), occupant in zip(places, occupants_of(plan.gang), strict=True):
        uses = list_uses(given, shape.cards) if given is not None else ()
        by_node[node].append(Resident(pod.key, dict(shape.units), shape.host_ports, uses, occupant))
    for node, some in by_node.items():
        residents.add(node, some)


def _place_unlike(gang: Gang, problem: PlacementProblem, layout: Layout, effort: Effort) -> Plan:
    outcome = place_unlike(problem, effort)
    if outcome.leaves is None:
        reason = explain_unlike(problem, is_settled=outcome.is_settled)
        return Plan(gang, lower_bound=outcome.lower_bound, reason=reason, is_settled=outcome.is_settled)
    return _placed(gang, problem, layout, outcome.leaves, outcome.lower_bound)


def _place_sets(
    gang: Gang, problem: PlacementProblem, kept: list[int | None], layout: Layout, effort: Effort
) -> Plan:
    if gang.own_domains:
        found = place_in_own_domains(gang, problem, layout, places_of(gang, layout), effort)
    else:
        found = place_sets(gang, problem, members_of(gang, layout), kept, effort)
    if found.leaves is None:
        placed = sum(leaf is not None for leaf in kept)
        join = f"to join the {placed} pods of the gang that are placed, " if placed else ""
        return Plan(gang, reason=f"{join}{found.reason}", is_settled=found.is_settled and not placed)
    is_optimal = found.distance <= found.lower_bound
    return Plan(
        gang,
        _names(layout, found.leaves),
        distance=found.distance,
        lower_bound=found.lower_bound,
        is_optimal=is_optimal,
        is_settled=is_optimal and found.is_settled,
    )


def _why_no_slices(
    gang: Gang, slices: SliceTerms, problem: PlacementProblem, kept: Sequence[int | None]
) -> str | None:
    """What forbids to place these pods of a gang of slices, if anything does."""
    if len(problem.kinds) > 1:
        return UNLIKE_SLICES
    if gang.missing and all(leaf is None for leaf in kept) and not slices.are_whole(gang.pods):
        return f"waits until its slices of {slices.size} pods are whole"
    return None


def _place_alike(gang: Gang, problem: PlacementProblem, layout: Layout) -> Plan:
    tree, pods = problem.tree, len(gang.pods)
    found = place_identical(tree, problem.slots[0], pods, problem.within, problem.slices)
    nearest = found
    if not problem.is_decided:
        nearest = place_identical(tree, problem.slots_at_most[0], pods, problem.within, problem.slices)
    if isinstance(found, Shortfall):
        is_settled = isinstance(nearest, Shortfall)
        reason = explain_shortfall(problem, 0, found, is_settled=is_settled)
        return Plan(gang, reason=reason, is_settled=is_settled)
    assert not isinstance(nearest, Shortfall), "where there is room for certain, there can be room"
    return _placed(gang, problem, layout, found, tree.length(nearest))


def _placed(gang: Gang, problem: PlacementProblem, layout: Layout, leaves: Ints, lower_bound: int) -> Plan:
    distance = problem.tree.length(leaves)
    is_optimal = distance <= lower_bound
    return Plan(
        gang,
        _names(layout, leaves),
        distance=distance,
        lower_bound=min(distance, lower_bound),
        is_optimal=is_optimal,
        is_settled=is_optimal,
    )


def _repair(
    gang: Gang, problem: PlacementProblem, kept: list[int | None], layout: Layout, effort: Effort
) -> Plan:
    repaired = _repaired(gang, problem, kept, layout, effort)
    if repaired is None:
        placed = sum(leaf is not None for leaf in kept)
        where = replace(problem, within=ROOT) if placed else problem
        reason = explain_unlike(where, is_settled=False)
        if placed:
            reason = f"to join the {placed} pods of the gang that are placed, {reason}"
        return Plan(gang, reason=reason, is_settled=False)
    is_optimal = repaired.distance == repaired.lower_bound
    return Plan(
        gang,
        _names(layout, repaired.leaves),
        distance=repaired.distance,
        lower_bound=repaired.lower_bound,
        is_optimal=is_optimal,
        is_settled=is_optimal,
    )


def _repaired(
    gang: Gang, problem: PlacementProblem, kept: list[int | None], layout: Layout, effort: Effort
) -> Repaired | None:
    if gang.slices is None:
        return repair(problem, kept, effort)
    return repair_slices(problem, kept, [gang.slices.of[member.key] for member, _ in places_of(gang, layout)])


def _names(layout: Layout, leaves: Ints) -> tuple[str, ...]:
    return tuple(layout.nodes[leaf].name for leaf in leaves)
