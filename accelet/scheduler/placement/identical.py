"""Places for like pods: provably the least distance, then the least room left over in used domains."""

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from math import gcd

import numpy as np

from accelet.scheduler.cluster.topology import ROOT, Ints, Tree
from accelet.scheduler.placement.knapsack import NEVER, Knapsack, RankSlices, rooms


@dataclass(frozen=True, slots=True)
class Shortfall:
    """No domain of `level` (ROOT: the cluster) has room enough: `best`, the roomiest, has `room`."""

    level: int
    best: int
    room: int


def work_to_place(tree: Tree) -> int:
    """What `place_identical` usually costs of a gang's budget."""
    return 200 + tree.leaf_count // 60


def place_identical(
    tree: Tree, slots: Ints, demand: int, within: int = ROOT, slices: RankSlices | None = None
) -> Ints | Shortfall:
    """The leaf of each of `demand` like pods in rank order, or how much room is missing.

    `slots[i]` says how many of them fit on leaf `i`; all must be within one domain of level `within`.
    Nothing else is assumed and nothing is approximate: ranks laid out in depth-first order attain the
    bound `sum(step_l * (used_l - 1))` of every order, so that only which domains are used matters, and
    that is a knapsack with fixed charges (`Knapsack`). It is solved level by level from the lowest, and
    only as far up as a lower bound on wider placements leaves a doubt. With `slices`, `demand` is a multiple
    of their size: where each domain of their level gets a multiple of it too, depth-first order has every
    slice in one domain.
    """
    if demand == 0:
        return np.zeros(0, dtype=np.int64)
    search = _Search(tree, slots, demand, slices)
    best: tuple[int, int, int] | None = None
    for level in range(tree.lowest, within - 1, -1):
        best = search.best_within(level, best)
        if best and (level == ROOT or best[0] <= search.bound_of_wider(level)):
            break
    if best is None:
        room = search.room_at(within)
        return Shortfall(within, int(np.argmax(room)) if len(room) else 0, int(room.max(initial=0)))
    _, level, domain = best
    return _leaves(tree, slots, search.knapsack.fill(level, domain, demand))


class _Search:
    """One gang's numbers, worked out when they are first needed."""

    def __init__(self, tree: Tree, slots: Ints, demand: int, slices: RankSlices | None) -> None:
        self._tree, self._demand, self._slices = tree, demand, slices
        self._room = rooms(tree, slots, slices)
        most_room = int(slots.sum()) * len(tree.codes)
        self._steps, self._tie = _scaled_steps(tree.scheme.steps, demand, most_room)

    def room_at(self, level: int) -> Ints:
        return self._room[level] if level != ROOT else self._room[0].sum(keepdims=True)

    @cached_property
    def knapsack(self) -> Knapsack:
        lowest = self._tree.lowest
        parents = self._tree.ancestors(lowest, lowest - 1)
        return Knapsack(
            tree=self._tree,
            demand=self._demand,
            room=self._room,
            charges=self._charges,
            sorted_room=_largest_first(self._room[lowest], parents),
            slices=self._slices,
        )

    @cached_property
    def _charges(self) -> tuple[Ints, ...]:
        """What using a domain costs: its level's step, and in the low digits the room in it.

        The room used is the demand in any case, so that least room in used domains is least left over.
        The lowest level's domains are told apart later, when their number is known.
        """
        *upper, lowest = self._steps
        return (
            *(step + self._tie * room for step, room in zip(upper, self._room, strict=False)),
            np.full(len(self._room[-1]), lowest),
        )

    def best_within(self, level: int, best: tuple[int, int, int] | None) -> tuple[int, int, int] | None:
        """The cheapest (cost, level, domain) for all pods within one domain of `level`, if below `best`."""
        candidates = np.flatnonzero(self.room_at(level) >= self._demand)
        if not len(candidates):
            return best
        bounds = self._bounds(level, candidates)
        tightness = self.room_at(level)[candidates]
        for index in np.lexsort((tightness, bounds)):
            bound, domain = int(bounds[index]), int(candidates[index])
            if best and best[0] <= bound:
                break
            cost = bound
            if level < self._tree.lowest - 1:
                cost = self._fixed_cost(level, candidates[[index]])[0] + int(
                    self.knapsack.table(level, domain)[-1]
                )
            if best is None or cost < best[0]:
                best = (int(cost), level, domain)
        return best

    def _bounds(self, level: int, domains: Ints) -> Ints:
        """What each of these domains costs at least; exactly that for the two lowest levels."""
        bounds = self._fixed_cost(level, domains)
        for below in range(level + 1, self._tree.lowest + 1):
            fewest = self._fewest(below, level)[domains]
            bounds += self._steps[below] * fewest
            if below < self._tree.lowest:
                bounds += self._tie * self._demand
        return bounds

    def _fixed_cost(self, level: int, domains: Ints) -> Ints:
        """The charges of the domains themselves and of all that hold them."""
        cost = np.zeros(len(domains), dtype=np.int64)
        for above in range(level + 1):
            cost += self._charges[above][self._tree.ancestors(level, above)[domains]]
        return cost

    def bound_of_wider(self, level: int) -> int:
        """What any placement costs at least that does not stay within one domain of `level`."""
        bound = 0
        for at in range(self._tree.lowest + 1):
            fewest = int(self._fewest(at, ROOT)[0])
            bound += int(self._steps[at]) * max(fewest, 2 if at >= level else 1)
            if at < self._tree.lowest:
                bound += self._tie * self._demand
        return bound

    def _fewest(self, level: int, above: int) -> Ints:
        """For each domain of `above`, how few domains of `level` in it have room for all pods.

        Meaningless where its whole room is too little.
        """
        parents = self._tree.ancestors(level, above)
        total = np.cumsum(_largest_first(self._room[level], parents))
        first = np.searchsorted(parents, np.arange(self._tree.domain_count(above)))
        before = np.where(first > 0, total[first - 1], 0)
        return np.asarray(np.searchsorted(total, before + self._demand) - first + 1)


def _scaled_steps(steps: tuple[int, ...], demand: int, most_room: int) -> tuple[tuple[int, ...], int]:
    """Steps in a unit that leaves digits below it for the room in used domains, and 1; 0 if none are left."""
    unit = gcd(*steps) or 1
    digits = most_room + 1
    if sum(steps) // unit * digits * (demand + 2) >= NEVER:
        return tuple(step // unit for step in steps), 0
    return tuple(step // unit * digits for step in steps), 1


def _largest_first(room: Ints, parents: Ints) -> Ints:
    """`room` sorted largest first within each of the (already sorted) parents."""
    most = int(room.max(initial=0)) + 1
    keys = parents * most + (most - 1 - room)
    keys.sort()
    return np.asarray(most - 1 - keys % most)


def _leaves(tree: Tree, slots: Ints, places: list[tuple[int, int]]) -> Ints:
    """One leaf a pod in depth-first order; within a domain of the lowest level, the fullest use first."""
    found: list[int] = []
    for domain, demand in sorted(places):
        leaves = tree.leaves(tree.lowest, domain)
        fitting = [leaf for leaf in range(leaves.start, leaves.stop) if slots[leaf] >= demand]
        if fitting:
            found += [min(fitting, key=lambda leaf: int(slots[leaf]))] * demand
            continue
        chosen, left = [], demand
        for leaf in sorted(range(leaves.start, leaves.stop), key=lambda leaf: -int(slots[leaf])):
            taken = min(left, int(slots[leaf]))
            chosen += [leaf] * taken
            left -= taken
        found += sorted(chosen)
    assert all(a <= b for a, b in pairwise(found)), "ranks are laid out in depth-first order"
    return np.array(found, dtype=np.int64)
