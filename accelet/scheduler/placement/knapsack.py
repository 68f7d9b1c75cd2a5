"""Two knapsacks: the cheapest domains that hold a number of like pods, and leaves for two groups of pods."""

from bisect import bisect_left, insort
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from numpy.lib.stride_tricks import as_strided

from accelet.scheduler.budget import Budget, BudgetSpentError
from accelet.scheduler.cluster.layout import Mask
from accelet.scheduler.cluster.topology import ROOT, Ints, Tree

NEVER = np.int64(2**62)
"""The cost of what cannot be; the sum of two fits into 64 bits."""

_CELLS_AT_ONCE = 2**15
"""As many as a processor's nearer caches hold."""

_BEGIN, _CELLS_A_UNIT = 60, 100
"""What one question costs of the gang's budget, and how many cells of the table are filled for one unit."""


@dataclass(frozen=True, slots=True)
class RankSlices:
    """Each `size` pods that follow each other in rank are in one domain of `level`.

    So such a domain takes a multiple of `size` pods. Each slice is made of those of the next layer, `inner`,
    if there is one: these have a size that divides this one, and a lower level.
    """

    size: int
    level: int
    inner: "RankSlices | None" = None

    @property
    def layers(self) -> "tuple[RankSlices, ...]":
        """These slices, those of which they are made, and so on."""
        return (self, *(self.inner.layers if self.inner else ()))


@dataclass(frozen=True, eq=False)
class Offer:
    """What a domain can take and for how much, cheapest first: `room[i]` pods cost `cost[i]`.

    Both rise strictly. Fewer pods than `room[i]` cost no more than `cost[i]`.
    """

    room: Ints
    cost: Ints


@dataclass(frozen=True, eq=False)
class Knapsack:
    """`demand` like pods over a tree in which every used domain costs a fixed charge.

    `room[l]` says how many pods each domain of level `l` takes, `charges[l]` what its use costs. The
    lowest level has one charge for all its domains, so that few of them are always best used largest
    first: `sorted_room` is the lowest level's room, largest first within each parent. With `slices` the
    demand is a multiple of their size, and so is the room of each domain of their level.

    Costs are exact: for every domain, the cost of `q` pods is a (min,+) convolution over its children.
    """

    tree: Tree
    demand: int
    room: tuple[Ints, ...]
    charges: tuple[Ints, ...]
    sorted_room: Ints
    slices: RankSlices | None = None
    _known: dict[tuple[int, int], list[Ints]] = field(default_factory=dict)

    def table(self, level: int, domain: int) -> Ints:
        """The least cost of at least 0, 1 … `demand` pods below this domain, its own charge left out."""
        key = level, domain
        if key not in self._known:
            tables = self.tables(level, domain)
            # The root's are asked for once more, to be filled; of the many others, few.
            self._known[key] = tables if level == ROOT else tables[-1:]
        return self._known[key][-1]

    def tables(self, level: int, domain: int) -> list[Ints]:
        """`table` with the children 0, 1, 2 … all of the domain's."""
        children = self.tree.children(level, domain)
        known = self._known.get((level, domain), [])
        if len(known) == len(children) + 1:
            return known
        table = np.full(self.demand + 1, NEVER)
        table[0] = 0
        tables = [table]
        reach = 0
        for child in children:
            offer = self.offer(level + 1, child)
            tables.append(_with_offer(tables[-1], reach, offer))
            if len(offer.room):
                reach = min(self.demand, reach + int(offer.room[-1]))
        return tables

    def offer(self, level: int, domain: int) -> Offer:
        """What a domain offers, its own charge included."""
        offer = self._offer(level, domain)
        for layer in self.slices.layers if self.slices else ():
            if layer.level == level:
                offer = _in_multiples(offer, layer.size)
        return offer

    def _offer(self, level: int, domain: int) -> Offer:
        charge = self.charges[level][domain]
        if level == self.tree.lowest:
            room = self.room[level][domain : domain + 1]
            return Offer(np.minimum(room[room > 0], self.demand), np.full(int(room[0] > 0), charge))
        if level == self.tree.lowest - 1:
            below = self.tree.children(level, domain)
            rooms = self.sorted_room[below.start : below.stop]
            total = np.cumsum(rooms[rooms > 0])
            used = int(np.searchsorted(total, self.demand)) + 1
            total = np.minimum(total[:used], self.demand)
            each = self.charges[level + 1][below.start] if len(below) else 0
            return Offer(total, charge + each * np.arange(1, len(total) + 1))
        table = self.table(level, domain)
        last = np.flatnonzero(np.append(table[1:] > table[:-1], True) & (table < NEVER))
        last = last[last > 0]
        return Offer(last, charge + table[last])

    def fill(self, level: int, domain: int, demand: int) -> list[tuple[int, int]]:
        """Cheapest places for `demand` pods below this domain: domains of the lowest level with their pods.

        The caller knows that there is room.
        """
        if level == self.tree.lowest:
            return [(domain, demand)]
        if level == self.tree.lowest - 1:
            return self._fill_tightly(self.tree.children(level, domain), demand)
        children, tables = self.tree.children(level, domain), self.tables(level, domain)
        places: list[tuple[int, int]] = []
        for child, before, after in reversed(list(zip(children, tables[:-1], tables[1:], strict=True))):
            if before[demand] == after[demand]:
                continue
            offer = self.offer(level + 1, child)
            choice = int(np.argmin(before[np.maximum(0, demand - offer.room)] + offer.cost))
            taken = min(demand, int(offer.room[choice]))
            places += self.fill(level + 1, child, taken)
            demand -= taken
        return places

    def _fill_tightly(self, domains: range, demand: int) -> list[tuple[int, int]]:
        """As few of these domains as possible, and of those the ones with the least room to spare."""
        room = self.room[self.tree.lowest][domains.start : domains.stop]
        order = np.argsort(-room, kind="stable")
        total = np.cumsum(room[order])
        used = int(np.searchsorted(total, demand)) + 1
        chosen, spare = [int(i) for i in order[:used]], int(total[used - 1]) - demand
        unused = sorted((int(room[i]), int(i)) for i in order[used:])
        # The largest gives up most: each in turn makes way for the tightest that will do.
        for position in range(used):
            here = int(room[chosen[position]])
            index = bisect_left(unused, (here - spare, -1))
            if index < len(unused) and unused[index][0] < here:
                smaller, candidate = unused.pop(index)
                insort(unused, (here, chosen[position]))
                chosen[position] = candidate
                spare -= here - smaller
        # All are full but the last, so that what is left over is in one piece.
        chosen.sort(key=lambda i: (-int(room[i]), i))
        places = []
        for index in chosen:
            taken = min(demand, int(room[index]))
            places.append((domains.start + index, taken))
            demand -= taken
        return places


def _in_multiples(offer: Offer, size: int) -> Offer:
    """What is left of an offer that is taken by so many pods at a time."""
    room, first = np.unique(offer.room // size * size, return_index=True)
    return Offer(room[room > 0], offer.cost[first[room > 0]])


def _with_offer(table: Ints, reach: int, offer: Offer) -> Ints:
    """`table` when one more child may be used; finite up to `reach` before."""
    if not len(offer.room):
        return table
    wider = table.copy()
    # Above `top`, the table says NEVER before and after.
    top = min(len(table) - 1, reach + int(offer.room[-1]))
    # Row r of `shifted` is the table moved r places down: one array operation serves many rooms.
    padded = np.concatenate((np.full(top, NEVER), table[: top + 1]))
    shifted = as_strided(padded, (top + 1, top + 1), padded.strides * 2, writeable=False)
    at_once = max(1, _CELLS_AT_ONCE // (top + 1))
    part = wider[: top + 1]
    for first in range(0, len(offer.room), at_once):
        some = slice(first, first + at_once)
        costs = shifted[top - offer.room[some]]
        costs += offer.cost[some, np.newaxis]
        np.minimum(part, costs.min(axis=0), out=part)
    # "At least q" pods: more room never costs less than it must.
    return np.asarray(np.minimum.accumulate(wider[::-1])[::-1])


def rooms(tree: Tree, slots: Ints, slices: RankSlices | None = None) -> tuple[Ints, ...]:
    """The room of every domain of every level; of that of slices, and above it, for whole slices."""
    found = [parent_room(tree, slots, level) for level in range(tree.lowest + 1)]
    if slices is None:
        return tuple(found)
    for layer in reversed(slices.layers):
        usable = found[layer.level] // layer.size * layer.size
        for level in range(layer.level + 1):
            found[level] = np.zeros(tree.domain_count(level), dtype=np.int64)
            np.add.at(found[level], tree.ancestors(layer.level, level), usable)
    return tuple(found)


def parent_room(tree: Tree, room: Ints, level: int) -> Ints:
    """The room of every domain of `level`, given that of every leaf."""
    if level == ROOT:
        return np.array([room.sum()])
    return np.add.reduceat(room, tree.starts[level][:-1]) if len(room) else room


class GroupRoom(NamedTuple):
    """How many pods of a group each leaf takes at most if no other pod is there, and how many there are."""

    slots: Ints
    pods: int


class SharedOut(NamedTuple):
    """The leaves of each of two groups."""

    one: Mask
    other: Mask


def share_out(one: GroupRoom, other: GroupRoom, where: Mask, budget: Budget) -> SharedOut | None:
    """Leaves for two groups, with room for both; None proves that there are none.

    On leaves that are not of `where` both may be. The table has a row for each number of leaves that are
    alike, doubled, and a cell for each pod of the first group: the least room that the other group loses.

    Raises:
        BudgetSpentError: it takes more work than is left.
    """
    contested = where & (one.slots > 0) & (other.slots > 0)
    needed = max(0, one.pods - int(one.slots[~contested].sum()))
    needed_by_other = max(0, other.pods - int(other.slots[~contested].sum()))
    leaves = np.flatnonzero(contested)
    rooms = np.stack((np.minimum(one.slots[leaves], needed), np.minimum(other.slots[leaves], other.pods)))
    kinds, first, counts = np.unique(rooms, axis=1, return_inverse=True, return_counts=True)
    of_kind = np.asarray(first).reshape(-1)
    items = list(_items(kinds, counts))
    work = _BEGIN + len(items) * (needed + 1) // _CELLS_A_UNIT + len(leaves) // _CELLS_A_UNIT
    if work > budget.left:
        raise BudgetSpentError("too many ways to share nodes out between two groups of pods")
    budget.spend(work)
    cells = np.arange(needed + 1)
    loss = np.where(cells > 0, NEVER, 0)
    taken: list[Mask] = []
    for _, room, lost in items:
        with_it = loss[np.maximum(cells - room, 0)] + lost
        taken.append(with_it < loss)
        loss = np.minimum(loss, with_it)
    if int(rooms[1].sum()) - int(loss[needed]) < needed_by_other:
        return None
    chosen = np.zeros(kinds.shape[1], dtype=np.int64)
    left = needed
    for (kind, room, _), takes in zip(reversed(items), reversed(taken), strict=True):
        if takes[left]:
            chosen[kind] += room // max(1, int(kinds[0, kind]))
            left = max(0, left - room)
    of_one = np.zeros(len(where), dtype=bool)
    for kind, number in enumerate(chosen.tolist()):
        of_one[leaves[of_kind == kind][:number]] = True
    return SharedOut(of_one | ~contested, ~of_one | ~contested)


def _items(kinds: Ints, counts: Ints) -> Iterator[tuple[int, int, int]]:
    """So many leaves of one kind as one item, by powers of two: the kind, and the room of either group."""
    for kind, count in enumerate(counts.tolist()):
        left, some = count, 1
        while left:
            some = min(some, left)
            yield kind, some * int(kinds[0, kind]), some * int(kinds[1, kind])
            left, some = left - some, 2 * some
