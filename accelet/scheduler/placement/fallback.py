"""Quick placements of unlike pods by rules of thumb, and the sure one for one pod a leaf."""

from bisect import bisect_left
from collections import deque
from collections.abc import Sequence

import numpy as np

from accelet.scheduler.budget import Budget
from accelet.scheduler.cluster.layout import Mask
from accelet.scheduler.cluster.topology import Ints
from accelet.scheduler.placement.identical import Shortfall, place_identical, work_to_place
from accelet.scheduler.placement.problem import Demand, PlacementProblem

_MOST_OTHERS = 64

_POD, _LEAVES_A_UNIT = 20, 50
"""What a pod costs of the gang's budget, and how many leaves are looked at for one unit."""


def place_kind_by_kind(
    problem: PlacementProblem, scope: slice | Ints, usable: Sequence[Mask] = ()
) -> list[Ints] | None:
    """The leaves of each kind's pods, each kind placed as near together as the kinds before it leave room.

    Only leaves in `scope` are used: it lies in one domain of the level within which the pods must stay. The
    kind that has the least room for its number goes first, so that it is not crowded out; that is a rule of
    thumb: None does not prove that there is no placement. `usable` has the leaves of each kind, if not all.
    """
    left, kinds, demand = problem.room.copy(), problem.kinds, problem.demand.only(scope)
    counts = demand.counts
    order = sorted(range(len(kinds)), key=lambda kind: int(demand.slots[kind].sum()) / counts[kind])
    placed: list[Ints] = [np.zeros(0, dtype=np.int64)] * len(kinds)
    untouched = np.ones_like(demand.slots[0])
    for kind in order:
        slots = np.minimum(left.slots(kinds[kind], counts[kind]), demand.slots[kind])
        if usable:
            slots *= usable[kind]
        if problem.is_exclusive:
            slots *= untouched
        problem.budget.spend(work_to_place(problem.tree))
        leaves = place_identical(problem.tree, slots, counts[kind])
        if isinstance(leaves, Shortfall):
            return None
        placed[kind] = leaves
        untouched[leaves] = 0
        if left.take(leaves.tolist(), [kinds[kind]] * len(leaves)) is None:
            return None
    return placed


def place_most_first(problem: PlacementProblem, scope: slice | Ints) -> Ints | None:
    """The leaf of each rank: the most numerous kind at its best, every other pod at the best leaf then left.

    `scope` is as there. None where a pod finds none, or where the other pods are too many for this.
    """
    tree, left, demand = problem.tree, problem.room.copy(), problem.demand.only(scope)
    counts = demand.counts
    most = counts.index(max(counts))
    if len(problem.shapes) - counts[most] > _MOST_OTHERS:
        return None
    problem.budget.spend(work_to_place(tree))
    found = place_identical(tree, demand.slots[most], counts[most])
    if isinstance(found, Shortfall):
        return None
    placed: dict[int, int] = {}
    everywhere = np.arange(tree.leaf_count)
    free = np.ones(tree.leaf_count, dtype=np.int64)

    def settle(ranks: Sequence[int], leaves: Sequence[int]) -> bool:
        placed.update(zip(ranks, leaves, strict=True))
        free[leaves] -= int(problem.is_exclusive)
        return left.take(leaves, [problem.shapes[rank] for rank in ranks]) is not None

    ranks = np.flatnonzero(demand.kinds == most).tolist()
    if not settle(ranks, found.tolist()):
        return None
    for rank, kind in enumerate(demand.kinds.tolist()):
        if kind == most:
            continue
        problem.budget.spend(_POD + tree.leaf_count // _LEAVES_A_UNIT)
        slots = np.minimum(left.slots(problem.kinds[kind], 1), demand.slots[kind]) * free
        if not slots.any():
            return None
        after = ranks[bisect_left(ranks, rank)] if rank < ranks[-1] else None
        ends = [placed[end] for end in (rank - 1, after) if end is not None and end in placed]
        cost = sum((tree.distances(end, everywhere) for end in ends), np.zeros_like(slots))
        usable = np.flatnonzero(slots)
        if not settle([rank], [int(usable[np.lexsort((slots[usable], cost[usable]))[0]])]):
            return None
    return np.array([placed[rank] for rank in range(len(problem.shapes))], dtype=np.int64)


def place_one_per_leaf(demand: Demand, budget: Budget) -> list[Ints] | None:
    """The leaves of each kind's pods, one pod a leaf; None proves that there is no such placement.

    A maximum matching: a kind that finds no leaf takes one from a kind that can move on, along the
    shortest chain of such moves.

    Raises:
        BudgetSpentError: it takes too much work.
    """
    usable = [slots > 0 for slots in demand.slots]
    holder = np.full(len(usable[0]), -1, dtype=np.int64)
    for kind, count in sorted(
        enumerate(demand.counts), key=lambda item: int(usable[item[0]].sum()) - item[1]
    ):
        free = np.flatnonzero(usable[kind] & (holder < 0))[:count]
        holder[free] = kind
        for _ in range(count - len(free)):
            budget.spend(_POD + len(usable) * len(holder) // _LEAVES_A_UNIT)
            if not _make_room(kind, usable, holder):
                return None
    return [np.flatnonzero(holder == kind) for kind in range(len(usable))]


def _make_room(kind: int, usable: list[Mask], holder: Ints) -> bool:
    """Gives `kind` one more leaf; False if no chain of moves ends at a free one."""
    takes_from: dict[int, tuple[int, int]] = {}
    queue = deque([kind])
    while queue:
        current = queue.popleft()
        free = np.flatnonzero(usable[current] & (holder < 0))
        if len(free):
            holder[free[0]] = current
            while current != kind:
                current, leaf = takes_from[current]
                holder[leaf] = current
            return True
        for leaf in np.flatnonzero(usable[current]).tolist():
            other = int(holder[leaf])
            if other not in takes_from and other != kind:
                takes_from[other] = current, leaf
                queue.append(other)
    return False
