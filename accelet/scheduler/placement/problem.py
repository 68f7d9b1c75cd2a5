"""Unlike pods to be placed, in the terms in which every search of them thinks."""

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise

import numpy as np

from accelet.scheduler.budget import Budget
from accelet.scheduler.cluster.room import Measure, Room, Runs, Sides
from accelet.scheduler.cluster.shape import PodShape
from accelet.scheduler.cluster.topology import ROOT, Ints, Tree
from accelet.scheduler.placement.knapsack import GroupRoom, RankSlices, SharedOut, parent_room, share_out


@dataclass(frozen=True, eq=False)
class Demand:
    """Pods of several kinds. `kinds[i]` is the kind of rank `i`; `slots[kind]` how many of it fit per leaf.

    `measures` are amounts that pods of all kinds draw on together.
    """

    kinds: Ints
    slots: tuple[Ints, ...]
    measures: tuple[Measure, ...]

    @cached_property
    def pairs(self) -> tuple[tuple[int, int, int], ...]:
        """The kinds of neighbours in rank, and how many neighbours are of these."""
        pairs = Counter(pairwise(self.kinds.tolist()))
        return tuple((one, other, count) for (one, other), count in pairs.items())

    @cached_property
    def counts(self) -> list[int]:
        """How many pods there are of each kind."""
        return [int(count) for count in np.bincount(self.kinds, minlength=len(self.slots))]

    def group(self, kinds: Collection[int], scope: slice) -> GroupRoom:
        """At most so many pods of these kinds fit on each leaf of `scope`, and so many there are."""
        slots = np.zeros_like(self.slots[0])
        for kind in kinds:
            slots[scope] += self.slots[kind][scope]
        return GroupRoom(slots, sum(self.counts[kind] for kind in kinds))

    def only(self, leaves: slice | Ints) -> "Demand":
        """The same pods when no other leaves than these may be used."""
        mask = np.zeros(len(self.slots[0]), dtype=np.int64)
        mask[leaves] = 1
        return replace(
            self,
            slots=tuple(slots * mask for slots in self.slots),
            measures=tuple(Measure(free * mask, needs) for free, needs in self.measures),
        )

    def scopes(self, tree: Tree, level: int) -> Iterator[slice]:
        """The domains of `level` that have room enough, kind by kind and measure by measure."""
        possible = np.ones(tree.domain_count(level), dtype=bool)
        for slots, count in zip(self.slots, self.counts, strict=True):
            possible &= parent_room(tree, slots, level) >= count
        for free, needs in self.measures:
            needed = sum(count * need for count, need in zip(self.counts, needs, strict=True))
            possible &= parent_room(tree, free, level) >= needed
        for domain in np.flatnonzero(possible).tolist():
            yield tree.leaves(level, domain)


@dataclass(frozen=True, eq=False)
class PlacementProblem:
    """Pods of these shapes in rank order, to be placed within one domain of level `within`.

    If `is_exclusive`, no two of them on one leaf. With `slices` each slice is to be in one domain.
    """

    tree: Tree
    room: Room
    shapes: tuple[PodShape, ...]
    within: int = ROOT
    is_exclusive: bool = False
    slices: RankSlices | None = None

    @cached_property
    def kinds(self) -> tuple[PodShape, ...]:
        """The different shapes."""
        return tuple(dict.fromkeys(self.shapes))

    @property
    def budget(self) -> Budget:
        return self.room.budget

    @property
    def slots(self) -> tuple[Ints, ...]:
        """For each kind, how many of it fit per leaf for certain."""
        return self._slots[0]

    @property
    def slots_at_most(self) -> tuple[Ints, ...]:
        """For each kind, more than how many of it do not fit per leaf for certain."""
        return self._slots[1]

    @property
    def is_decided(self) -> bool:
        """Whether it is known of every kind how many of it fit on each leaf."""
        return all(map(np.array_equal, self.slots, self.slots_at_most))

    @cached_property
    def _slots(self) -> tuple[tuple[Ints, ...], tuple[Ints, ...]]:
        counts = Counter(self.shapes)
        sure: list[Ints] = []
        most: list[Ints] = []
        for kind in self.kinds:
            found = self.room.slots_between(kind, 1 if self.is_exclusive else counts[kind])
            for slots, of_kind in zip((sure, most), found, strict=True):
                slots.append(np.minimum(of_kind, 1) if self.is_exclusive else of_kind)
        return tuple(sure), tuple(most)

    @cached_property
    def demand(self) -> Demand:
        """The pods against the room that there is for certain."""
        return self._demand(self.slots)

    @cached_property
    def demand_at_most(self) -> Demand:
        """The pods against all the room that there can be: what is impossible here is impossible."""
        return self._demand(self.slots_at_most)

    def _demand(self, slots: tuple[Ints, ...]) -> Demand:
        measures = self.room.measures(self.kinds)
        if self.is_exclusive:
            measures.append(Measure(np.ones_like(slots[0]), (1,) * len(self.kinds)))
        numbers = {kind: number for number, kind in enumerate(self.kinds)}
        ranks = np.array([numbers[shape] for shape in self.shapes], dtype=np.int64)
        return Demand(ranks, slots, tuple(measures))

    @cached_property
    def sides(self) -> list[Sides]:
        """Which kinds of pods share no leaf with which others."""
        return self.room.sides(self.kinds)

    def share_out(self, sides: Sides, scope: slice, demand: Demand) -> SharedOut | None:
        """Leaves of `scope` for either side by the slots of `demand`; None proves that there are none.

        Raises:
            BudgetSpentError: it takes more work than is left.
        """
        one, other = (demand.group(side, scope) for side in (sides.one, sides.other))
        return share_out(one, other, sides.where, self.budget)

    @cached_property
    def _runs(self) -> Runs:
        return self.room.runs(self.shapes)

    def starts(self, leaf: int) -> Ints:
        """`Runs.starts` for these pods on this leaf."""
        starts = self._runs.starts(leaf)
        return np.maximum(starts, np.arange(-1, len(starts) - 1)) if self.is_exclusive else starts

    def by_rank(self, placed: Sequence[Ints]) -> Ints:
        """The leaf of each rank, given the leaves of each kind."""
        leaves = np.empty(len(self.shapes), dtype=np.int64)
        for kind, of_kind in enumerate(placed):
            leaves[self.demand.kinds == kind] = np.sort(of_kind)
        return leaves
