"""Any placement of unlike pods at all, for when the search for a near one finds none."""

from collections import deque

import numpy as np

from accelet.scheduler.identical import Shortfall, place_identical
from accelet.scheduler.layout import Mask
from accelet.scheduler.problem import Demand, Problem
from accelet.scheduler.topology import Ints


def place_kind_by_kind(problem: Problem, demand: Demand) -> list[Ints] | None:
    """The leaves of each kind's pods, each kind placed as near together as the kinds before it leave room.

    Only leaves with slots in `demand` are used. The kind that has the least room for its number goes
    first, so that it is not crowded out; that is a rule of thumb: None does not prove that there is no
    placement.
    """
    left, kinds = problem.room.copy(), problem.kinds
    counts = demand.counts
    order = sorted(range(len(kinds)), key=lambda kind: int(demand.slots[kind].sum()) / counts[kind])
    placed: list[Ints] = [np.zeros(0, dtype=np.int64)] * len(kinds)
    untouched = np.ones_like(demand.slots[0])
    for kind in order:
        slots = np.minimum(left.slots(kinds[kind]), demand.slots[kind])
        if problem.is_exclusive:
            slots *= untouched
        leaves = place_identical(problem.tree, slots, counts[kind])
        if isinstance(leaves, Shortfall):
            return None
        placed[kind] = leaves
        untouched[leaves] = 0
        for leaf in leaves.tolist():
            left.take(leaf, kinds[kind])
    return placed


def place_one_per_leaf(demand: Demand) -> list[Ints] | None:
    """The leaves of each kind's pods, one pod a leaf; None proves that there is no such placement.

    A maximum matching: a kind that finds no leaf takes one from a kind that can move on, along the
    shortest chain of such moves.
    """
    usable = [slots > 0 for slots in demand.slots]
    holder = np.full(len(usable[0]), -1, dtype=np.int64)
    for kind, count in sorted(
        enumerate(demand.counts), key=lambda item: int(usable[item[0]].sum()) - item[1]
    ):
        free = np.flatnonzero(usable[kind] & (holder < 0))[:count]
        holder[free] = kind
        for _ in range(count - len(free)):
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
