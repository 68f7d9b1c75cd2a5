"""Places for unlike pods: as near as several searches find within a budget, with what is proven of it."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from accelet.scheduler.cluster.topology import ROOT, Ints, Tree
from accelet.scheduler.placement.certificate import Bound, lower_bound
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


@dataclass(frozen=True, slots=True)
class Effort:
    """How much to search, in units that do not depend on the machine, so that plans can be repeated.

    `cells` bounds the monotone searches together (about 10 million a second), `restarts` their number,
    `tries` the exhaustive search.
    """

    cells: int = 20_000_000
    restarts: int = 24
    tries: int = 20_000


USUAL_EFFORT = Effort()


@dataclass(frozen=True, slots=True)
class Outcome:
    """`leaves` by rank, or None: `is_settled` then says that no placement exists at all.

    With leaves, `is_settled` says that no other is nearer. No placement is nearer than `lower_bound`.
    """

    leaves: Ints | None
    lower_bound: int
    is_settled: bool


def place_unlike(problem: PlacementProblem, effort: Effort = USUAL_EFFORT) -> Outcome:
    """Places unlike pods as near together as `effort` allows.

    The problem is NP-hard (3-PARTITION is a case of it), so that the least distance is promised only
    where it is proven: by a bound that is attained, or by an exhaustive search that came to its end.
    """
    demand, tree = problem.demand, problem.tree
    scopes = list(demand.scopes(tree, problem.within))
    bound = lower_bound(tree, demand)
    if problem.within != ROOT and len(scopes) <= _MOST_BOUNDS:
        bounds = [(lower_bound(tree, demand.only(scope)), scope) for scope in scopes]
        scopes = [scope for of_scope, scope in bounds if not of_scope.is_hopeless]
        bound = min((b for b, _ in bounds if not b.is_hopeless), key=lambda b: b.distance, default=bound)
    if bound.is_hopeless or not scopes:
        return Outcome(None, 0, is_settled=True)
    return _Solver(problem, bound, scopes, effort).solve()


class _Solver:
    def __init__(
        self, problem: PlacementProblem, bound: Bound, scopes: Sequence[slice], effort: Effort
    ) -> None:
        self._problem, self._bound, self._scopes, self._effort = problem, bound, scopes, effort
        self._tree, self._demand = problem.tree, problem.demand
        self._cells = effort.cells
        self._best: tuple[int, Ints] | None = None

    def solve(self) -> Outcome:
        for attempt in (self._try_quickly, self._climb, self._restart):
            if not self._is_proven:
                attempt()
        is_settled = self._is_proven or self._search()
        if self._best is None and self._problem.is_exclusive:
            is_settled = not any(self._try_one_per_leaf(scope) for scope in self._scopes)
        if self._best is None:
            return Outcome(None, self._bound.distance, is_settled)
        distance, leaves = self._best
        return Outcome(leaves, distance if is_settled else self._bound.distance, is_settled)

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
            for scope in self._demand.scopes(self._tree, level):
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
                if self._is_proven or self._cells <= 0:
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
        if cells > _MOST_CELLS or self._cells <= 0:
            return
        self._cells -= cells + _LEAF_CELLS * len(leaves)
        found = place_monotone(self._tree, leaves, self._problem.starts, pods)
        self._keep(found and found[1])

    def _try_quickly(self) -> None:
        """The rules of thumb, in every domain in which the gang may be."""
        for scope in self._scopes[:_MOST_BOUNDS]:
            demand = self._demand.only(scope)
            self._keep(place_most_first(self._problem, demand))
            if not self._is_proven:
                placed = place_kind_by_kind(self._problem, demand)
                self._keep(None if placed is None else self._problem.by_rank(placed))

    def _try_one_per_leaf(self, scope: slice) -> bool:
        placed = place_one_per_leaf(self._demand.only(scope))
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
