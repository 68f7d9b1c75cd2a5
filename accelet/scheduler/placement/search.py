"""The best placement of a few unlike pods on a few nodes, by trying them all within a limit."""

from collections import Counter
from dataclasses import dataclass

import numpy as np

from accelet.scheduler.budget import BudgetSpentError
from accelet.scheduler.cluster.shape import PodShape
from accelet.scheduler.cluster.topology import ROOT, Ints
from accelet.scheduler.placement.certificate import forced_tail
from accelet.scheduler.placement.problem import PlacementProblem

_MOST_PODS = 64
"""More would be too many for the depth of the search, and for it ever to end."""

_LEAVES_A_TRY = 64
"""As many leaves are sorted in the time of one try."""

_STEP, _LEAVES_A_UNIT = 20, 8
"""What each rank on the way costs of the gang's budget, and how many leaves are sorted for one unit."""


@dataclass(frozen=True, slots=True)
class SearchResult:
    """`leaves` is the best placement seen, if any is better than what was known.

    `is_complete` says that there is no better one.
    """

    leaves: Ints | None
    is_complete: bool


def search(problem: PlacementProblem, below: int | None, tries: int) -> SearchResult:
    """Looks for a placement of less distance than `below` (None: for any), in at most `tries` tries.

    Depth first by rank, nearest leaf first; a branch ends where its distance and that which neighbours in
    rank force on the rest are no better than the best.
    """
    if len(problem.shapes) > _MOST_PODS:
        return SearchResult(None, is_complete=False)
    walk = _Walk(problem, below, tries)
    try:
        is_complete = walk.place(0, 0)
    except BudgetSpentError:
        is_complete = False
    return SearchResult(walk.best, is_complete)


class _Walk:
    def __init__(self, problem: PlacementProblem, below: int | None, tries: int) -> None:
        self._problem, self._below, self._tries = problem, below, tries
        self._tree, self._shapes = problem.tree, problem.shapes
        self._tail = forced_tail(problem.tree, problem.demand_at_most, problem.budget)
        self._usable = [np.flatnonzero(slots) for slots in problem.demand.slots]
        self._held: dict[int, Counter[PodShape]] = {}
        self._path: list[int] = []
        self.best: Ints | None = None

    def place(self, rank: int, distance: int) -> bool:
        """Tries all places for `rank` and those after it; False where the tries ran out."""
        if rank == len(self._shapes):
            self._below, self.best = distance, np.array(self._path, dtype=np.int64)
            return True
        for leaf, cost in self._candidates(rank):
            if self._below is not None and distance + cost + self._tail[rank] >= self._below:
                break
            if self._tries <= 0:
                return False
            self._tries -= 1
            if not self._fits(leaf, rank):
                continue
            self._held.setdefault(leaf, Counter())[self._shapes[rank]] += 1
            self._path.append(leaf)
            is_complete = self.place(rank + 1, distance + cost)
            self._path.pop()
            self._held[leaf][self._shapes[rank]] -= 1
            if not is_complete:
                return False
        return True

    def _candidates(self, rank: int) -> list[tuple[int, int]]:
        """Leaves that may take this rank, with their distance from the last one's, nearest first."""
        leaves = self._usable[self._problem.demand.kinds[rank]]
        self._problem.budget.spend(_STEP + len(leaves) // _LEAVES_A_UNIT)
        if not rank:
            return [(leaf, 0) for leaf in leaves.tolist()]
        if self._problem.within != ROOT:
            codes = self._tree.codes[self._problem.within]
            leaves = leaves[codes[leaves] == codes[self._path[0]]]
        distances = self._tree.distances(self._path[-1], leaves)
        order = np.argsort(distances, kind="stable")
        self._tries -= len(leaves) // _LEAVES_A_TRY
        return list(zip(leaves[order].tolist(), distances[order].tolist(), strict=True))

    def _fits(self, leaf: int, rank: int) -> bool:
        held = self._held.get(leaf, Counter())
        if self._problem.is_exclusive:
            return held.total() == 0
        return self._problem.room.fits(leaf, held + Counter((self._shapes[rank],)))
