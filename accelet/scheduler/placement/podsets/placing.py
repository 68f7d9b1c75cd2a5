"""Places for a gang of which pod sets are each to be in one domain, or a sentence why there are none."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice

from accelet.scheduler.budget import Budget, BudgetSpentError
from accelet.scheduler.cluster.topology import Ints
from accelet.scheduler.gangs.grouping import Gang
from accelet.scheduler.placement.certificate import lower_bound
from accelet.scheduler.placement.identical import Shortfall, place_identical, work_to_place
from accelet.scheduler.placement.knapsack import RankSlices
from accelet.scheduler.placement.podsets.choice import Chooser, Tries
from accelet.scheduler.placement.podsets.filling import fill
from accelet.scheduler.placement.podsets.groups import (
    MOST_GROUPS,
    Members,
    PodsTogether,
    as_slices,
    find_levels,
    make_groups,
    sets_of,
)
from accelet.scheduler.placement.podsets.reasons import explain
from accelet.scheduler.placement.problem import PlacementProblem
from accelet.scheduler.placement.repairs.gaps import length_of_known
from accelet.scheduler.placement.unlike import Effort

_PART = 3
_MOST_SCOPES, _MOST_WAYS, _STEPS_A_SCOPE = 16, 4, 300
"""Of each level so many domains are looked at, so many choices in each, after so many steps at most."""

_MOST_FOUND = 8
"""So many placements are compared."""


@dataclass(frozen=True, slots=True)
class SetsOutcome:
    """`leaves` by rank, and the distance of the whole gang; or None, and why.

    `is_settled` says that more work would not change it. No placement has less distance than `lower_bound`.
    """

    leaves: Ints | None
    distance: int = 0
    lower_bound: int = 0
    is_settled: bool = False
    reason: str | None = None


def place_sets(
    gang: Gang,
    problem: PlacementProblem,
    members: Members,
    kept: Sequence[int | None],
    effort: Effort,
) -> SetsOutcome:
    """The pods of the gang, each pod set and each slice in one domain of its level.

    Levels that are preferred are kept by all sets that say so, if that can be, else set by set, the first
    ones first. `kept` has, by rank of the members, the leaf of each that stays.

    Raises:
        BudgetSpentError: it takes too much work even to begin.
    """
    if reason := _why_not_whole(gang, kept):
        return SetsOutcome(None, is_settled=True, reason=reason)
    options = find_levels(gang, problem.tree, members)
    widest = [levels[-1] for levels in options]
    groups = make_groups(gang, problem.tree, members, widest)
    needed = len(groups)
    if needed > MOST_GROUPS and (len(problem.kinds) > 1 or as_slices(groups, len(problem.shapes)) is None):
        return SetsOutcome(None, is_settled=True, reason=_too_many(needed))
    placing = _Placing(gang, problem, members, kept, effort)
    nearest = [levels[0] for levels in options]
    if nearest == widest:
        return placing.place(widest)
    with suppress(BudgetSpentError), problem.budget.part(_PART) as part:
        found = placing.paid_from(part).place(nearest)
        if found.leaves is not None:
            return found
    best = placing.place(widest)
    if best.leaves is None:
        return best
    now = widest
    with suppress(BudgetSpentError):
        for number, levels in enumerate(options):
            for level in levels[:-1]:
                tried = [*now[:number], level, *now[number + 1 :]]
                with problem.budget.part(_PART) as part:
                    found = placing.paid_from(part).place(tried)
                if found.leaves is not None:
                    best, now = found, tried
                    break
    return replace(best, is_settled=False)


def _too_many(groups: int) -> str:
    return f"its pod sets and slices with pods to be placed are {groups}; {MOST_GROUPS} are placed"


def _why_not_whole(gang: Gang, kept: Sequence[int | None]) -> str | None:
    """A gang that begins with fewer pods than all does so with whole slices."""
    if not gang.missing or any(leaf is not None for leaf in kept):
        return None
    for terms in sets_of(gang):
        if terms.slices is not None:
            placed = [pod for pod in gang.pods if pod.key in terms.slices.of]
            if not terms.slices.are_whole(placed):
                return f"waits until the slices of {terms.slices.size} pods of {terms.title} are whole"
    return None


@dataclass(frozen=True, slots=True)
class _Placing:
    """One gang's pods, to be placed with its sets at some levels or at others."""

    gang: Gang
    problem: PlacementProblem
    members: Members
    kept: Sequence[int | None]
    effort: Effort

    def paid_from(self, budget: Budget) -> "_Placing":
        problem = replace(self.problem, room=self.problem.room.metered(budget))
        return replace(self, problem=problem)

    def place(self, levels: Sequence[int]) -> SetsOutcome:
        """Places for all with the sets at these levels.

        Raises:
            BudgetSpentError: it takes too much work even to begin.
        """
        problem = self.problem
        groups = make_groups(self.gang, problem.tree, self.members, levels)
        slices = as_slices(groups, len(problem.shapes)) if len(problem.kinds) == 1 else None
        if slices is not None and all(leaf is None for leaf in self.kept):
            return self._place_alike(groups, slices)
        if len(groups) > MOST_GROUPS:
            return SetsOutcome(None, reason=_too_many(len(groups)))
        bound = self._bound()
        tries, is_sure = Tries(self.effort.tries), problem.is_decided
        best: tuple[int, Ints] | None = None
        found = 0
        try:
            for leaves in self._ways(groups, tries):
                if leaves is None:
                    is_sure = False
                    continue
                distance = self._distance(leaves)
                if best is None or distance < best[0]:
                    best = distance, leaves
                found += 1
                if distance <= bound or found == _MOST_FOUND:
                    break
        except BudgetSpentError:
            tries.is_spent = True
        if best is not None:
            distance, leaves = best
            return SetsOutcome(leaves, distance, min(distance, bound), distance <= bound)
        is_settled = is_sure and not tries.is_spent
        reason, is_proven = explain(problem, groups, is_settled=is_settled)
        return SetsOutcome(None, is_settled=is_settled or is_proven, reason=reason)

    def _place_alike(self, groups: Sequence[PodsTogether], slices: RankSlices) -> SetsOutcome:
        """Like pods in groups that are all alike: the least distance there is, or none."""
        problem = self.problem
        tree, pods = problem.tree, len(problem.shapes)
        problem.budget.spend(work_to_place(tree))
        found = place_identical(tree, problem.slots[0], pods, problem.within, slices)
        nearest = found
        if not problem.is_decided:
            nearest = place_identical(tree, problem.slots_at_most[0], pods, problem.within, slices)
        if isinstance(found, Shortfall):
            is_settled = isinstance(nearest, Shortfall)
            reason, is_proven = explain(problem, groups, is_settled=is_settled)
            return SetsOutcome(None, is_settled=is_settled or is_proven, reason=reason)
        distance = tree.length(found)
        bound = distance if isinstance(nearest, Shortfall) else min(distance, tree.length(nearest))
        return SetsOutcome(found, distance, bound, is_settled=distance <= bound)

    def _ways(self, groups: Sequence[PodsTogether], tries: Tries) -> Iterator[Ints | None]:
        """Places for all, from narrow levels to wide ones; None where those that were chosen are too few.

        At the first level at which there are any, no wider one is looked at.
        """
        problem, chooser = self.problem, Chooser(self.problem, groups)
        there = [leaf for leaf in self.kept if leaf is not None]
        anchor = there[0] if there else None
        narrow = range(problem.tree.lowest, problem.within, -1) if not there else ()
        for level in (*narrow, problem.within):
            is_widest, is_found = level == problem.within, False
            scopes = chooser.scopes(level)
            for scope in scopes if is_widest else scopes[:_MOST_SCOPES]:
                some = tries if is_widest else Tries(_STEPS_A_SCOPE)
                inside = problem.tree.leaves(level, scope)
                choices = chooser.choices(level, scope, anchor, some)
                for domains in choices if is_widest else islice(choices, _MOST_WAYS):
                    leaves = fill(problem, groups, domains, inside, kept=self.kept, effort=self.effort)
                    is_found |= leaves is not None
                    if leaves is not None or is_widest:
                        yield leaves
            if is_found:
                return

    def _distance(self, leaves: Ints) -> int:
        """That along the whole gang."""
        left = iter(leaves.tolist())
        whole = [next(left) if leaf is None else leaf for leaf in self.kept]
        return length_of_known(self.problem, whole)

    def _bound(self) -> int:
        """What the gang costs at least, even if no set were to be in one domain."""
        problem = self.problem
        if any(leaf is not None for leaf in self.kept):
            return length_of_known(problem, self.kept)
        if len(problem.kinds) == 1:
            found = place_identical(
                problem.tree, problem.slots_at_most[0], len(problem.shapes), problem.within
            )
            return 0 if isinstance(found, Shortfall) else problem.tree.length(found)
        with suppress(BudgetSpentError), problem.budget.part(_PART) as part:
            bound = lower_bound(problem.tree, problem.demand_at_most, part)
            return 0 if bound.is_hopeless else bound.distance
        return 0
