"""Places for the lost pods of a gang whose other pods stay where they are."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, pairwise

import numpy as np

from accelet.scheduler.cluster.topology import ROOT, Ints
from accelet.scheduler.placement.identical import Shortfall, place_identical
from accelet.scheduler.placement.problem import PlacementProblem
from accelet.scheduler.placement.unlike import Effort, place_unlike


@dataclass(frozen=True, slots=True)
class Repaired:
    """The leaf of each lost pod, in rank order, and the distance along the whole gang.

    No repair has less distance than `lower_bound`.
    """

    leaves: Ints
    distance: int
    lower_bound: int


def repair(problem: PlacementProblem, kept: Sequence[int | None], effort: Effort) -> Repaired | None:
    """Fills the gaps of a gang next to the pods on either side of them; None where one finds no place.

    `kept` has, by rank, the leaf of a pod that stays, or None; `problem` is of the lost ones. A gap of one
    pod gets its best leaf. A longer one is placed as a gang of its own, in each of the domains around its
    neighbours and in either direction, and the best of these is taken.
    """
    tree, room = problem.tree, problem.room.copy()
    leaves = list(kept)
    closed = np.zeros(tree.leaf_count, dtype=bool)
    closed[[leaf for leaf in kept if leaf is not None and problem.is_exclusive]] = True
    lower_bound = _length(problem, kept)
    shapes = list(problem.shapes)
    for gap in _gaps(kept):
        lost, shapes = tuple(shapes[: len(gap)]), shapes[len(gap) :]
        open_room = room.without(closed, "have another pod of the gang")
        ends = (
            leaves[gap.start - 1] if gap.start else None,
            leaves[gap.stop] if gap.stop < len(leaves) else None,
        )
        of_gap = replace(problem, room=open_room, shapes=lost, within=ROOT)
        filled = _fill(of_gap, ends, effort)
        if filled is None:
            return None
        # Even with nothing else to place, this gap costs so much.
        alone = replace(of_gap, room=problem.room)
        lower_bound += _least(alone, ends) if len(lost) == 1 else _length(problem, ends)
        if room.take(filled.tolist(), lost) is None:
            return None
        if problem.is_exclusive:
            closed[filled] = True
        leaves[gap.start : gap.stop] = filled.tolist()
    lost_leaves = [leaf for leaf, was in zip(leaves, kept, strict=True) if was is None]
    return Repaired(np.array(lost_leaves, dtype=np.int64), _length(problem, leaves), lower_bound)


def _gaps(kept: Sequence[int | None]) -> Iterator[range]:
    for is_lost, run in groupby(range(len(kept)), key=lambda rank: kept[rank] is None):
        ranks = list(run)
        if is_lost:
            yield range(ranks[0], ranks[-1] + 1)


def _length(problem: PlacementProblem, leaves: Sequence[int | None]) -> int:
    """The distance along those neighbours in rank of which both have a leaf.

    It is also the least for a gap between two ends: distances in a tree obey the triangle inequality.
    """
    pairs = [pair for pair in pairwise(leaves) if None not in pair]
    return sum(problem.tree.length(np.array(pair)) for pair in pairs)


def _fill(problem: PlacementProblem, ends: tuple[int | None, int | None], effort: Effort) -> Ints | None:
    """The leaves of one gap's pods, given those of the pods before and after it."""
    if len(problem.shapes) == 1:
        costs = _costs(problem, ends)
        fitting = np.flatnonzero(problem.slots[0])
        if not len(fitting):
            return None
        # Of the nearest, the one with the least room to spare.
        best = np.lexsort((problem.slots[0][fitting], costs[fitting]))[0]
        return fitting[[best]]
    ways = list(_ways(problem, ends, effort))
    return min(ways, key=lambda way: _length(problem, (ends[0], *way.tolist(), ends[1])), default=None)


def _ways(problem: PlacementProblem, ends: tuple[int | None, int | None], effort: Effort) -> Iterator[Ints]:
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
            found = place_identical(tree, inside.slots[0], len(problem.shapes))
            if not isinstance(found, Shortfall):
                yield found
                yield found[::-1]


def _costs(problem: PlacementProblem, ends: tuple[int | None, int | None]) -> Ints:
    """What each leaf costs for a gap of one pod."""
    everywhere = np.arange(problem.tree.leaf_count)
    costs = np.zeros(len(everywhere), dtype=np.int64)
    for end in ends:
        if end is not None:
            costs += problem.tree.distances(end, everywhere)
    return costs


def _least(problem: PlacementProblem, ends: tuple[int | None, int | None]) -> int:
    """What the best leaf for a gap of one pod costs."""
    return int(_costs(problem, ends)[problem.slots[0] > 0].min(initial=2**62))
