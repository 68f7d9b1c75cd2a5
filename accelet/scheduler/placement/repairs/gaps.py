"""Places for the lost pods of a gang whose other pods stay where they are."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, pairwise

import numpy as np

from accelet.scheduler.budget import BudgetSpentError
from accelet.scheduler.cluster.layout import Mask
from accelet.scheduler.cluster.topology import ROOT, Ints
from accelet.scheduler.placement.identical import Shortfall, place_identical, work_to_place
from accelet.scheduler.placement.problem import PlacementProblem
from accelet.scheduler.placement.unlike import Effort, place_unlike

Ends = tuple[int | None, int | None]
"""The leaves of the pods before and after a gap."""

TAKEN = "have another pod of the gang"


@dataclass(frozen=True, slots=True)
class Repaired:
    """The leaf of each lost pod, in rank order, and the distance along the whole gang.

    No repair has less distance than `lower_bound`.
    """

    leaves: Ints
    distance: int
    lower_bound: int


def repair(problem: PlacementProblem, kept: Sequence[int | None], effort: Effort) -> Repaired | None:
    """Fills the gaps of a gang next to the pods on either side of them; None where no way is found.

    `kept` has, by rank, the leaf of a pod that stays, or None; `problem` is of the lost ones. A gap of one
    pod gets its best leaf. A longer one is placed as a gang of its own, in each of the domains around its
    neighbours and in either direction, and the best of these is taken. Where one gap takes what another
    needs, all lost pods are placed together, as near as there is room.

    Raises:
        BudgetSpentError: it takes too much work.
    """
    closed = np.zeros(problem.tree.leaf_count, dtype=bool)
    closed[[leaf for leaf in kept if leaf is not None and problem.is_exclusive]] = True
    lower_bound = length_of_known(problem, kept) + sum(
        _bound(part, ends) for part, ends in _parts(problem, kept, closed)
    )
    filled = _fill_gaps(problem, kept, closed, effort)
    if filled is None:
        filled = _fill_together(problem, closed, effort)
    if filled is None:
        return None
    left = iter(filled.tolist())
    leaves = [next(left) if leaf is None else leaf for leaf in kept]
    distance = length_of_known(problem, leaves)
    return Repaired(filled, distance, min(distance, lower_bound))


def _fill_gaps(
    problem: PlacementProblem, kept: Sequence[int | None], closed: Mask, effort: Effort
) -> Ints | None:
    """The leaf of each lost pod, gap by gap."""
    room, closed = problem.room.copy(), closed.copy()
    found: list[Ints] = []
    for part, ends in _parts(problem, kept, closed):
        filled = _fill(replace(part, room=room.without(closed, TAKEN)), ends, effort)
        if filled is None or room.take(filled.tolist(), part.shapes) is None:
            return None
        if problem.is_exclusive:
            closed[filled] = True
        found.append(filled)
    return np.concatenate(found)


def _fill_together(problem: PlacementProblem, closed: Mask, effort: Effort) -> Ints | None:
    """The leaf of each lost pod, as if they were a gang of their own."""
    whole = replace(problem, room=problem.room.without(closed, TAKEN), within=ROOT)
    if len(whole.kinds) > 1:
        return place_unlike(whole, effort).leaves
    found = place_identical(whole.tree, whole.slots[0], len(whole.shapes))
    return None if isinstance(found, Shortfall) else found


def _parts(
    problem: PlacementProblem, kept: Sequence[int | None], closed: Mask
) -> Iterator[tuple[PlacementProblem, Ends]]:
    """Each gap as a problem of its own, and the leaves of the pods before and after it."""
    room = problem.room.without(closed, TAKEN)
    first = 0
    for gap in _gaps(kept):
        shapes = problem.shapes[first : first + len(gap)]
        first += len(gap)
        ends = (
            kept[gap.start - 1] if gap.start else None,
            kept[gap.stop] if gap.stop < len(kept) else None,
        )
        yield replace(problem, room=room, shapes=shapes, within=ROOT), ends


def _bound(part: PlacementProblem, ends: Ends) -> int:
    """What a gap costs at least, even with nothing else to place."""
    if len(part.shapes) > 1:
        return length_of_known(part, ends)
    return int(_costs(part, ends)[part.slots_at_most[0] > 0].min(initial=2**62))


def _gaps(kept: Sequence[int | None]) -> Iterator[range]:
    for is_lost, run in groupby(range(len(kept)), key=lambda rank: kept[rank] is None):
        ranks = list(run)
        if is_lost:
            yield range(ranks[0], ranks[-1] + 1)


def length_of_known(problem: PlacementProblem, leaves: Sequence[int | None]) -> int:
    """The distance along those neighbours in rank of which both have a leaf.

    It is also the least for a gap between two ends: distances in a tree obey the triangle inequality.
    """
    pairs = [(one, other) for one, other in pairwise(leaves) if one is not None and other is not None]
    ones, others = np.array(pairs, dtype=np.int64).reshape(len(pairs), 2).T
    return problem.tree.sum_of_distances(ones, others)


def _fill(problem: PlacementProblem, ends: Ends, effort: Effort) -> Ints | None:
    """The leaves of one gap's pods, given those of the pods before and after it."""
    if len(problem.shapes) == 1:
        costs = _costs(problem, ends)
        fitting = np.flatnonzero(problem.slots[0])
        if not len(fitting):
            return None
        # Of the nearest, the one with the least room to spare.
        best = np.lexsort((problem.slots[0][fitting], costs[fitting]))[0]
        return fitting[[best]]
    ways: list[Ints] = []
    try:
        ways.extend(_ways(problem, ends, effort))
    except BudgetSpentError:
        if not ways:
            raise
    return min(
        ways, key=lambda way: length_of_known(problem, (ends[0], *way.tolist(), ends[1])), default=None
    )


def _ways(problem: PlacementProblem, ends: Ends, effort: Effort) -> Iterator[Ints]:
    """Placements within each domain around the ends, from near to far."""
    tree = problem.tree
    for level in range(tree.lowest, ROOT - 1, -1):
        for end in {end for end in ends if end is not None} if level != ROOT else {0}:
            scope = tree.leaves(level, int(tree.codes[level][end]) if level != ROOT else 0)
            outside = np.ones(tree.leaf_count, dtype=bool)
            outside[scope] = False
            inside = replace(problem, room=problem.room.without(outside, "are further away"))
            if len(problem.kinds) > 1:
                leaves = place_unlike(inside, effort).leaves
                if leaves is not None:
                    yield leaves
                continue
            problem.budget.spend(work_to_place(tree))
            found = place_identical(tree, inside.slots[0], len(problem.shapes))
            if not isinstance(found, Shortfall):
                yield found
                yield found[::-1]


def _costs(problem: PlacementProblem, ends: Ends) -> Ints:
    """What each leaf costs for a gap of one pod."""
    everywhere = np.arange(problem.tree.leaf_count)
    costs = np.zeros(len(everywhere), dtype=np.int64)
    for end in ends:
        if end is not None:
            costs += problem.tree.distances(end, everywhere)
    return costs
