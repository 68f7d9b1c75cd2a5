"""Places for unlike pods: as near as several searches find within a budget, with what is proven of it."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np

from accelet.scheduler.budget import BudgetSpentError
from accelet.scheduler.cluster.topology import ROOT, Ints, Tree
from accelet.scheduler.placement.certificate import Bound, lower_bound
from accelet.scheduler.placement.coarse import coarsen
from accelet.scheduler.placement.fallback import place_kind_by_kind, place_most_first, place_one_per_leaf
from accelet.scheduler.placement.monotone import place_monotone
from accelet.scheduler.placement.problem import PlacementProblem
from accelet.scheduler.placement.search import search

_MOST_CELLS = 2**24
"""Of one table of the monotone search: 128 MiB."""

_MOST_BOUNDS = 32
"""So many domains of a required level are each worth a bound and rules of thumb of their own."""

_LEAF_CELLS = 256
"""What a leaf costs beside its cells, in cells."""

_CELLS_A_UNIT = 10
_SCOPE, _LEAVES_A_UNIT = 20, 800
"""What a domain costs of the gang's budget, and how many numbers are looked at for one unit."""


@dataclass(frozen=True, slots=True)
class Effort:
    """How much to search, in units that do not depend on the machine, so that plans can be repeated.

    `units` bounds everything that is done for one gang, see `Budget`; `restarts` the number of monotone
    searches, `tries` the exhaustive search.
    """

    units: int = 400_000
    restarts: int = 24
    tries: int = 20_000


USUAL_EFFORT = Effort()
QUICK_EFFORT = Effort(units=30_000, restarts=4, tries=1_000)
"""Enough for most gangs; the others are looked at again behind those that need no more."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """`leaves` by rank, or None: `is_settled` then says that no placement exists at all.

    With leaves, `is_settled` says that no other is nearer. No placement is nearer than `lower_bound`.
    """

    leaves: Ints | None
    lower_bound: int
    is_settled: bool


def place_unlike(problem: PlacementProblem, effort: Effort = USUAL_EFFORT) -> Outcome:
    """Places unlike pods as near together as `effort` and the budget of the problem's room allow.

    The problem is NP-hard (3-PARTITION is a case of it), so that the least distance is promised only
    where it is proven: by a bound that is attained, or by an exhaustive search that came to its end. Of very
    many kinds, those that differ little are taken for one (`coarsen`).

    Raises:
        BudgetSpentError: not even rules of thumb could be tried.
    """
    coarse = coarsen(problem)
    if coarse is None:
        return _solve(problem, effort)
    bound, scopes = _bound_and_scopes(coarse.lower)
    if bound.is_hopeless or not scopes:
        return Outcome(None, 0, is_settled=True)
    found = _solve(coarse.upper, effort)
    if found.leaves is None:
        # What was rounded up may just not fit.
        ways = (place_kind_by_kind(problem, scope) for scope in scopes[:_MOST_BOUNDS])
        placed = next((way for way in ways if way is not None), None)
        if placed is None:
            return Outcome(None, bound.distance, is_settled=False)
        found = replace(found, leaves=problem.by_rank(placed))
    assert found.leaves is not None
    distance = problem.tree.length(found.leaves)
    return Outcome(found.leaves, min(distance, bound.distance), is_settled=distance <= bound.distance)


def _solve(problem: PlacementProblem, effort: Effort) -> Outcome:
    bound, scopes = _bound_and_scopes(problem)
    if bound.is_hopeless or not scopes:
        return Outcome(None, 0, is_settled=True)
    return _Solver(problem, bound, scopes, effort).solve()


def _bound_and_scopes(problem: PlacementProblem) -> tuple[Bound, Sequence[slice]]:
    """What every placement costs at least, and the domains in which there may be one."""
    demand, tree, budget = problem.demand_at_most, problem.tree, problem.budget
    budget.spend(_SCOPE + len(demand.slots) * (1 + tree.leaf_count // _LEAVES_A_UNIT))
    scopes: Sequence[slice] = list(demand.scopes(tree, problem.within))
    scopes = _without_hopeless(problem, scopes)
    bound = Bound((0,) * len(tree.codes), tree.scheme.steps)
    if not scopes:
        return bound, scopes
    # Without a bound nothing is proven, but a placement can be found all the same.
    with suppress(BudgetSpentError), budget.part(3) as share:
        bound = lower_bound(tree, demand, share)
        if problem.within != ROOT and len(scopes) <= _MOST_BOUNDS:
            bounds = [(lower_bound(tree, demand.only(scope), share), scope) for scope in scopes]
            scopes = [scope for of_scope, scope in bounds if not of_scope.is_hopeless]
            bound = min((b for b, _ in bounds if not b.is_hopeless), key=lambda b: b.distance, default=bound)
    return bound, scopes


def _without_hopeless(problem: PlacementProblem, scopes: Sequence[slice]) -> Sequence[slice]:
    """Without the domains in which two groups of pods that share no leaf cannot both be."""
    if not problem.sides or len(scopes) > _MOST_BOUNDS:
        return scopes
    possible = list(scopes)
    with suppress(BudgetSpentError), problem.budget.part(3) as share:
        paid = replace(problem, room=problem.room.metered(share))
        for scope in scopes:
            if any(paid.share_out(one, scope, problem.demand_at_most) is None for one in problem.sides):
                possible.remove(scope)
    return possible


class _Solver:
    def __init__(
        self, problem: PlacementProblem, bound: Bound, scopes: Sequence[slice], effort: Effort
    ) -> None:
        self._problem, self._bound, self._scopes, self._effort = problem, bound, scopes, effort
        self._tree, self._demand, self._budget = problem.tree, problem.demand, problem.budget
        self._best: tuple[int, Ints] | None = None

    def solve(self) -> Outcome:
        is_complete, doubts = False, self._budget.doubts
        try:
            for attempt in (self._try_quickly, self._climb, self._restart):
                if not self._is_proven:
                    attempt()
            is_complete = self._is_proven or self._search()
            if self._best is None and self._problem.is_exclusive:
                is_complete = not any(self._try_one_per_leaf(scope) for scope in self._scopes)
        except BudgetSpentError:
            is_complete = False
        # What was left undecided may have hidden a placement.
        is_sure = self._budget.doubts == doubts and self._problem.is_decided
        is_settled = self._is_proven or (is_complete and is_sure)
        if self._best is None:
            return Outcome(None, self._bound.distance, is_settled)
        distance, leaves = self._best
        return Outcome(leaves, distance if is_settled else min(distance, self._bound.distance), is_settled)

    @property
    def _is_proven(self) -> bool:
        return self._best is not None and self._best[0] <= self._bound.distance

    def _keep(self, leaves: Ints | None) -> None:
        if leaves is not None:
            distance = self._tree.length(leaves)
            if self._best is None or distance < self._best[0]:
                self._best = distance, leaves

    def _climb(self) -> None:
        """The monotone search in every domain with room enough, the nearest levels first."""
        for level in range(self._tree.lowest, self._problem.within - 1, -1):
            self._budget.spend(len(self._demand.slots) * (1 + self._tree.leaf_count // _LEAVES_A_UNIT))
            for scope in self._demand.scopes(self._tree, level):
                self._budget.spend(_SCOPE)
                self._try_monotone(self._usable(scope))
                if self._is_proven:
                    return
            if self._best and level != ROOT and self._best[0] <= self._bound.wider_than(level):
                return

    def _restart(self) -> None:
        """The monotone search again with siblings in other orders, around the best placement and all over."""
        random = np.random.default_rng(0)
        for attempt in range(self._effort.restarts):
            around = self._around(attempt)
            for leaves in (around,) if around is not None else map(self._usable, self._scopes):
                order = leaves[::-1] if attempt == 0 else _shuffled(self._tree, leaves, random)
                self._try_monotone(order)
                if self._is_proven:
                    return

    def _around(self, attempt: int) -> Ints | None:
        """Every other time, the leaves of the least domain that holds the best placement."""
        if self._best is None or attempt % 2:
            return None
        for level in range(self._tree.lowest, ROOT, -1):
            codes = self._tree.codes[level][self._best[1]]
            if codes.min() == codes.max():
                return self._usable(self._tree.leaves(level, int(codes[0])))
        return None

    def _usable(self, scope: slice) -> Ints:
        """The leaves in scope that take any of the pods."""
        taken = np.any([slots[scope] > 0 for slots in self._demand.slots], axis=0)
        return np.asarray(np.flatnonzero(taken) + scope.start)

    def _try_monotone(self, leaves: Ints) -> None:
        pods = len(self._problem.shapes)
        cells = len(leaves) * (pods + 1)
        units = (cells + _LEAF_CELLS * len(leaves)) // _CELLS_A_UNIT
        if cells > _MOST_CELLS or units > self._budget.left:
            return
        self._budget.spend(units)
        found = place_monotone(self._tree, leaves, self._problem.starts, pods)
        self._keep(found and found[1])

    def _try_quickly(self) -> None:
        """The rules of thumb, in every domain in which the gang may be."""
        for scope in self._scopes[:_MOST_BOUNDS]:
            self._keep(place_most_first(self._problem, scope))
            if not self._is_proven:
                placed = place_kind_by_kind(self._problem, scope)
                self._keep(None if placed is None else self._problem.by_rank(placed))
            if self._best is None and self._problem.sides:
                placed = self._place_by_sides(scope)
                self._keep(None if placed is None else self._problem.by_rank(placed))

    def _place_by_sides(self, scope: slice) -> list[Ints] | None:
        """Kind by kind, where those that share no leaf with others have leaves of their own.

        Where the gang is two such kinds, there is no placement if this finds none.
        """
        usable = [np.ones(self._tree.leaf_count, dtype=bool) for _ in self._demand.slots]
        for sides in self._problem.sides:
            shared = self._problem.share_out(sides, scope, self._demand)
            if shared is None:
                return None
            for kinds, leaves in ((sides.one, shared.one), (sides.other, shared.other)):
                for kind in kinds:
                    usable[kind] &= leaves
        return place_kind_by_kind(self._problem, scope, usable)

    def _try_one_per_leaf(self, scope: slice) -> bool:
        placed = place_one_per_leaf(self._demand.only(scope), self._budget)
        if placed is not None:
            self._keep(self._problem.by_rank(placed))
        return placed is not None

    def _search(self) -> bool:
        """The exhaustive search; whether it came to its end."""
        found = search(self._problem, self._best[0] if self._best else None, self._effort.tries)
        self._keep(found.leaves)
        return found.is_complete


def _shuffled(tree: Tree, leaves: Ints, random: np.random.Generator) -> Ints:
    """The same leaves with the siblings of every level in a random order."""
    keys = (
        random.permutation(tree.domain_count(level))[tree.codes[level][leaves]]
        for level in range(tree.lowest, -1, -1)
    )
    return leaves[np.lexsort((random.permutation(len(leaves)), *keys))]
