"""Why there is no place for a gang whose pod sets are each to be in one domain."""

from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np

from accelet.scheduler.budget import BudgetSpentError
from accelet.scheduler.cluster.topology import ROOT
from accelet.scheduler.placement.identical import Shortfall
from accelet.scheduler.placement.knapsack import parent_room
from accelet.scheduler.placement.podsets.groups import PodsTogether
from accelet.scheduler.placement.problem import PlacementProblem
from accelet.scheduler.placement.why import explain_shortfall, explain_unlike, level_name

_MOST_NAMED = 4


def explain(
    problem: PlacementProblem, groups: Sequence[PodsTogether], *, is_settled: bool
) -> tuple[str, bool]:
    """The sentence, and whether it is proven by sums alone.

    Names the first group for which no domain has room even without the others, else that it is the gang.
    """
    try:
        for group in _unlike(problem, groups):
            own = _own_problem(problem, group)
            if not list(own.demand_at_most.scopes(own.tree, own.within)):
                return f"for {group.name}, {_explain_short(own)}", True
        if not list(problem.demand_at_most.scopes(problem.tree, problem.within)):
            return _explain_short(problem), True
    except BudgetSpentError:
        pass
    where = "the cluster" if problem.within == ROOT else f"any {level_name(problem)}"
    first = list(dict.fromkeys(group.name for group in groups if group.parent is None))
    names = ", ".join(first[:_MOST_NAMED]) + ", ..." * (len(first) > _MOST_NAMED)
    if is_settled:
        return f"{names}: each fits alone, but not all together in {where}", False
    return f"no place was found in {where} for {names} together; that is not proven impossible", False


def _unlike(problem: PlacementProblem, groups: Sequence[PodsTogether]) -> Iterable[PodsTogether]:
    """One of all groups that are alike, the first."""
    kinds = problem.demand.kinds
    found: dict[object, PodsTogether] = {}
    for group in groups:
        found.setdefault((group.level, tuple(kinds[list(group.ranks)].tolist()), group.homes), group)
    return found.values()


def _explain_short(problem: PlacementProblem) -> str:
    """What is missing, where no domain has room even by sums."""
    if len(problem.kinds) > 1:
        return explain_unlike(problem, is_settled=True)
    rooms = parent_room(problem.tree, problem.slots_at_most[0], problem.within)
    best = int(np.argmax(rooms)) if len(rooms) else 0
    return explain_shortfall(problem, 0, Shortfall(problem.within, best, int(rooms.max(initial=0))))


def _own_problem(problem: PlacementProblem, group: PodsTogether) -> PlacementProblem:
    """That of one group alone, in the domains in which it may be."""
    room = problem.room
    if group.homes:
        closed = ~np.isin(problem.tree.codes[group.level], sorted(group.homes))
        level = level_name(replace(problem, within=group.level))
        room = room.without(closed, f"in another {level} than the rest of {group.name}")
    shapes = tuple(problem.shapes[rank] for rank in group.ranks)
    return replace(problem, room=room, shapes=shapes, within=group.level, slices=None)
