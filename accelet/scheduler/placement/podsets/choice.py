"""Which domain each group of pods gets, so that all of them have room: by sums, and a search."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from accelet.scheduler.cluster.topology import ROOT, Ints, Tree
from accelet.scheduler.placement.knapsack import parent_room
from accelet.scheduler.placement.podsets.groups import PodsTogether
from accelet.scheduler.placement.problem import PlacementProblem

_STEP, _NUMBERS_A_UNIT = 60, 200
"""What a step costs of the gang's budget, and how many numbers are looked at for one unit."""


@dataclass(slots=True)
class Tries:
    """How many steps may still be taken; `is_spent` once one more was wanted."""

    left: int
    is_spent: bool = False

    def take(self) -> bool:
        if self.left <= 0:
            self.is_spent = True
            return False
        self.left -= 1
        return True


class Chooser:
    """Chooses a domain for each group of one problem.

    For pods that are all alike, sums decide: if the pods confined to each domain are no more than fit into
    it, there is a place for all. For unlike pods a choice may turn out to have no place.
    """

    def __init__(self, problem: PlacementProblem, groups: Sequence[PodsTogether]) -> None:
        self._problem, self._tree, self._groups = problem, problem.tree, groups
        demand = problem.demand
        amounts: list[Ints] = list(demand.slots)
        each = [np.eye(len(demand.slots), dtype=np.int64)[kind] for kind in range(len(demand.slots))]
        if len(demand.slots) > 1:
            usable = np.any([slots > 0 for slots in demand.slots], axis=0)
            amounts += [np.where(usable, measure.free, 0) for measure in demand.measures]
            needs = np.array([measure.needs for measure in demand.measures], dtype=np.int64)
            each = [np.append(one, needs[:, kind]) for kind, one in enumerate(each)]
        of_kind = np.array(each, dtype=np.int64)
        self._need = [of_kind[demand.kinds[list(group.ranks)]].sum(axis=0) for group in groups]
        self._whole = of_kind[demand.kinds].sum(axis=0)
        self._left = [
            np.array([parent_room(self._tree, amount, level) for amount in amounts], dtype=np.int64)
            for level in range(self._tree.lowest + 1)
        ]
        self._total = np.array([amount.sum() for amount in amounts], dtype=np.int64)
        self._twin, self._twins_left = _find_twins(groups, self._need)

    def scopes(self, level: int) -> list[int]:
        """The domains of `level` with room for all pods, the tightest first."""
        if level == ROOT:
            return [0] if (self._total >= self._whole).all() else []
        left = self._left[level]
        fitting = np.flatnonzero((left >= self._whole[:, np.newaxis]).all(axis=0))
        return [int(one) for one in fitting[np.argsort(left[0][fitting], kind="stable")]]

    def choices(self, level: int, scope: int, anchor: int | None, tries: Tries) -> Iterator[list[int]]:
        """Every choice within one domain in turn, for like groups in one order; the nearest come first.

        `anchor` is a leaf next to which the first group had best be.

        Raises:
            BudgetSpentError: it takes too much work.
        """
        yield from self._choose([], level, scope, anchor, tries)

    def _choose(
        self, chosen: list[int], level: int, scope: int, anchor: int | None, tries: Tries
    ) -> Iterator[list[int]]:
        number = len(chosen)
        if number == len(self._groups):
            yield list(chosen)
            return
        group, need = self._groups[number], self._need[number]
        above, domain = level, scope
        if group.parent is not None and self._groups[group.parent].level > level:
            above, domain = self._groups[group.parent].level, chosen[group.parent]
        if group.level <= above:
            around = _ancestor(self._tree, above, domain, group.level)
            if group.homes and around not in group.homes:
                return
            chosen.append(around)
            yield from self._choose(chosen, level, scope, anchor, tries)
            chosen.pop()
            return
        for candidate in self._candidates(number, above, domain, chosen, anchor):
            if not tries.take():
                return
            taken = [
                (self._left[at], _ancestor(self._tree, group.level, candidate, at))
                for at in range(above + 1, group.level + 1)
            ]
            for left, place in taken:
                left[:, place] -= need
            chosen.append(candidate)
            try:
                yield from self._choose(chosen, level, scope, anchor, tries)
            finally:
                chosen.pop()
                for left, place in taken:
                    left[:, place] += need
            if tries.is_spent:
                return

    def _candidates(
        self, number: int, above: int, domain: int, chosen: Sequence[int], anchor: int | None
    ) -> list[int]:
        group, need, tree = self._groups[number], self._need[number], self._tree
        leaves = tree.leaves(above, domain)
        codes = tree.codes[group.level]
        first, last = int(codes[leaves.start]), int(codes[leaves.stop - 1]) + 1
        self._problem.budget.spend(_STEP + (last - first) * len(need) // _NUMBERS_A_UNIT)
        domains = np.arange(first, last)
        times = np.full(len(domains), len(self._groups))
        for at in range(above + 1, group.level + 1):
            places = domains if at == group.level else tree.ancestors(group.level, at)[first:last]
            wanted = need > 0
            fits = (self._left[at][wanted][:, places] // need[wanted][:, np.newaxis]).min(axis=0)
            times = np.minimum(times, fits)
        twin = self._twin[number]
        if twin is not None:
            times[domains < chosen[twin]] = 0
        if not group.homes and int(np.maximum(times, 0).sum()) < self._twins_left[number]:
            return []
        is_fitting = times > 0
        if group.homes:
            is_fitting &= np.isin(domains, sorted(group.homes))
        fitting, times = domains[is_fitting], times[is_fitting]
        costs = self._costs(number, fitting, chosen, anchor)
        if self._twins_left[number] > 1:
            fitting, times, costs = self._with_twins(number, fitting, times, costs)
        return [int(one) for one in fitting[np.lexsort((times, costs))]]

    def _with_twins(self, number: int, domains: Ints, times: Ints, costs: Ints) -> tuple[Ints, Ints, Ints]:
        """The domains from which on all that are like this group fit, and the cost to fill those in turn.

        Like groups take domains in their order, so that no others are worth a try.
        """
        tree, level, left = self._tree, self._groups[number].level, self._twins_left[number]
        filled = np.cumsum(times)
        last = np.searchsorted(filled, filled - times + left)
        is_enough = last < len(domains)
        firsts, lasts = np.flatnonzero(is_enough), last[is_enough]
        costs = costs[is_enough].copy()
        for at in range(level + 1):
            there = tree.ancestors(level, at)[domains] if at < level else domains
            ranks = np.concatenate(([0], np.cumsum(np.diff(there) != 0)))
            costs += tree.scheme.steps[at] * (ranks[lasts] - ranks[firsts])
        return domains[is_enough], times[is_enough], costs

    def _costs(self, number: int, domains: Ints, chosen: Sequence[int], anchor: int | None) -> Ints:
        """What it costs at least to come to each of these domains from the group before."""
        tree, level = self._tree, self._groups[number].level
        costs = np.zeros(len(domains), dtype=np.int64)
        if number and self._groups[number].parent != number - 1:
            before, place = self._groups[number - 1].level, chosen[number - 1]
        elif anchor is not None:
            before, place = tree.lowest, int(tree.codes[tree.lowest][anchor])
        else:
            return costs
        for at in range(min(before, level) + 1):
            there = tree.ancestors(level, at)[domains] if at < level else domains
            costs += tree.scheme.steps[at] * (there != _ancestor(tree, before, place, at))
        return costs


def _ancestor(tree: Tree, level: int, domain: int, above: int) -> int:
    if above == level:
        return domain
    return 0 if above == ROOT else int(tree.codes[above][tree.starts[level][domain]])


def _find_twins(groups: Sequence[PodsTogether], needs: Sequence[Ints]) -> tuple[list[int | None], list[int]]:
    """For each group the last one before it that is just like it, and how many from it on are."""
    below: list[list[int]] = [[] for _ in groups]
    for number, group in enumerate(groups):
        if group.parent is not None:
            below[group.parent].append(number)
    kinds: list[object] = [None] * len(groups)
    for number in reversed(range(len(groups))):
        group = groups[number]
        children = tuple(kinds[child] for child in below[number])
        own = number if group.homes else None
        kinds[number] = hash_of = (group.parent, group.level, tuple(needs[number].tolist()), own)
        kinds[number] = (*hash_of, tuple(_without_parent(child) for child in children))
    last: dict[object, int] = {}
    twins: list[int | None] = []
    for number, kind in enumerate(kinds):
        twins.append(last.get(kind))
        last[kind] = number
    left, seen = [0] * len(groups), dict[object, int]()
    for number in reversed(range(len(groups))):
        seen[kinds[number]] = left[number] = seen.get(kinds[number], 0) + 1
    return twins, left


def _without_parent(kind: object) -> object:
    assert isinstance(kind, tuple)
    return kind[1:]
