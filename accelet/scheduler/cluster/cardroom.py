"""Room on nodes with cards: amounts as on any node, and within each node cards and tiles."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from accelet.assignments.assignment import Assignment
from accelet.assignments.nodecards import MILLICORES, capacity_names
from accelet.scheduler.budget import Budget
from accelet.scheduler.cards.account import NO_CARDS
from accelet.scheduler.cards.catalog import MOST_COUNTED, TRY, UNKNOWN, CardCatalog, Count, NodesCards
from accelet.scheduler.cards.choice import USUAL_TRIES, assignment_of, fit_pods
from accelet.scheduler.cards.needs import CardNeeds
from accelet.scheduler.cards.never import say_never
from accelet.scheduler.cards.reasons import MEMORY_NOT_KNOWN, needs_to_know_memory
from accelet.scheduler.cards.state import CardStates
from accelet.scheduler.cluster.layout import Layout, Mask
from accelet.scheduler.cluster.residents import Residents
from accelet.scheduler.cluster.room import MOST_SLOTS, Measure, NodeRoom, Runs, Sides
from accelet.scheduler.cluster.shape import Limit, PodShape, Separation
from accelet.scheduler.cluster.topology import Ints

_CODE = 60
"""What it costs of a gang's budget to judge one kind of node by sums."""


@dataclass(eq=False)
class CardRoom:
    """A `Room` of nodes with cards: `amounts` has the nodes, `codes` what is free of their cards.

    `take` changes both.

    Pods that want nothing but a number of cards also fit where none are published: there the kubelet chooses.
    """

    amounts: NodeRoom
    codes: Ints
    cards: NodesCards

    @property
    def catalog(self) -> CardCatalog:
        return self.cards.catalog

    @property
    def layout(self) -> Layout:
        return self.amounts.layout

    @property
    def budget(self) -> Budget:
        return self.amounts.budget

    @property
    def residents(self) -> Residents:
        return self.amounts.residents

    def metered(self, budget: Budget) -> Self:
        return replace(self, amounts=self.amounts.metered(budget))

    def slots(self, shape: PodShape, pods: int = MOST_SLOTS) -> Ints:
        return self.slots_between(shape, pods)[0]

    def slots_between(self, shape: PodShape, pods: int = MOST_SLOTS) -> tuple[Ints, Ints]:
        slots = self.amounts.slots(shape)
        if shape.cards is None:
            return slots, slots
        codes, places = np.unique(np.where(slots > 0, self.codes, UNKNOWN), return_inverse=True)
        counts = self._counts(codes.tolist(), shape.cards, min(pods, MOST_COUNTED))
        sure = np.array([counts[code].sure for code in codes.tolist()], dtype=np.int64)
        most = np.array([counts[code].most for code in codes.tolist()], dtype=np.int64)
        return np.minimum(slots, sure[places]), np.minimum(slots, most[places])

    def _counts(self, codes: Sequence[int], needs: CardNeeds, pods: int) -> Mapping[int, Count]:
        """The counts by code; when half the budget is spent, what is left of them stays undecided."""
        unknown = MOST_COUNTED if needs.is_plain else 0
        known = self.catalog.known_counts(needs, pods)
        counts = {code: known[code] for code in codes if code in known}
        counts[UNKNOWN] = Count(unknown, unknown)
        most = {code: self.catalog.most(code, needs, pods) for code in codes if code not in counts}
        self.budget.spend(_CODE * len(most))
        kept = self.budget.left // 2
        # Those with the most room first: they are worth the most.
        for code in sorted(most, key=lambda code: -most[code]):
            share = Budget(max(0, self.budget.left - kept))
            counts[code] = self.catalog.count(code, needs, pods, share) if most[code] else Count(0, 0)
            self.budget.left -= share.spent
        return counts

    def runs(self, shapes: Sequence[PodShape]) -> Runs:
        runs = self.amounts.runs(shapes)
        return _CardRuns(self, runs, shapes) if any(shape.cards for shape in shapes) else runs

    def measures(self, shapes: Sequence[PodShape]) -> list[Measure]:
        return self.amounts.measures(shapes)

    def fits(self, leaf: int, shapes: Mapping[PodShape, int]) -> bool:
        return self.amounts.fits(leaf, shapes) and self.cards_fit(int(self.codes[leaf]), shapes)

    def sides(self, shapes: Sequence[PodShape]) -> list[Sides]:
        return self.amounts.sides(shapes)

    def cards_fit(self, code: int, shapes: Mapping[PodShape, int]) -> bool:
        pods: Counter[CardNeeds] = Counter()
        for shape, count in shapes.items():
            if shape.cards is not None and count:
                pods[shape.cards] += count
        if not pods:
            return True
        if code == UNKNOWN:
            return all(needs.is_plain for needs in pods)
        answer = self.catalog.fits(code, pods, self.budget)
        self.budget.doubts += answer is None
        return bool(answer)

    def take(self, leaves: Sequence[int], shapes: Sequence[PodShape]) -> Sequence[Assignment | None] | None:
        given: list[Assignment | None] = [None] * len(leaves)
        after: dict[int, int] = {}
        by_leaf: defaultdict[int, list[int]] = defaultdict(list)
        for number, (leaf, shape) in enumerate(zip(leaves, shapes, strict=True)):
            if shape.cards is not None and self.codes[leaf] != UNKNOWN:
                by_leaf[leaf].append(number)
        for leaf, numbers in by_leaf.items():
            states = self.catalog.states(int(self.codes[leaf]))
            needs = [cards for number in numbers if (cards := shapes[number].cards) is not None]
            tries = USUAL_TRIES if not self.budget.is_short else USUAL_TRIES // 10
            fit = fit_pods(states, needs, self.catalog.policy, tries)
            self.budget.left -= fit.tries * TRY
            if fit.holds is None:
                return None
            for number, of_pod, holds in zip(numbers, needs, fit.holds, strict=True):
                given[number] = assignment_of(states, of_pod, holds)
            after[leaf] = self.catalog.code(fit.left)
        self.amounts.take(leaves, shapes)
        for leaf, code in after.items():
            self.codes[leaf] = code
        return given

    def refusals(self, shape: PodShape) -> Counter[str]:
        found = self.amounts.refusals(shape)
        needs = shape.cards
        if needs is None:
            return found
        leaves = np.flatnonzero(self.amounts.slots(shape))
        for leaf in leaves[self.codes[leaves] == UNKNOWN].tolist() if not needs.is_plain else ():
            found[self.cards.problems.get(leaf, NO_CARDS)] += 1
        codes, counts = np.unique(self.codes[leaves], return_counts=True)
        for code, count in zip(codes.tolist(), counts.tolist(), strict=True):
            refusal = self.catalog.refusal(code, needs, self.budget) if code != UNKNOWN else None
            if refusal is not None:
                found[refusal] += count
        for name, count in self._short_of_unknown(shape, needs).items():
            found[f"short of {name}"] -= count
            found[MEMORY_NOT_KNOWN] += count
        return +found

    def _short_of_unknown(self, shape: PodShape, needs: CardNeeds) -> Counter[str]:
        """Nodes that offer no memory since that of their cards is not known, by what they are short of."""
        short: Counter[str] = Counter()
        for name in {capacity_names(need.resource)[2] for need in needs.containers if need.each.memory_bytes}:
            without = replace(shape, units=frozenset(unit for unit in shape.units if unit[0] != name))
            leaves = (self.amounts.slots(without) > 0) & (self.amounts.slots(shape) == 0)
            codes, counts = np.unique(self.codes[leaves & (self.codes != UNKNOWN)], return_counts=True)
            for code, count in zip(codes.tolist(), counts.tolist(), strict=True):
                if needs_to_know_memory(self.catalog.states(code), needs):
                    short[name] += count
        return short

    def impossibility(self, shape: PodShape) -> str | None:
        needs = shape.cards
        if needs is None or needs.is_plain:
            return None
        leaves = np.flatnonzero(self.layout.eligible(shape.rules) & (self.cards.in_the_end != UNKNOWN))
        codes, first = np.unique(self.cards.in_the_end[leaves], return_index=True)
        whole: dict[CardStates, str] = {}
        for code, place in zip(codes.tolist(), first.tolist(), strict=True):
            whole.setdefault(_all_open(self.catalog.states(code)), self.layout.nodes[leaves[place]].name)
        for states in whole:
            if self.budget.is_short or not self._is_refused(states, needs):
                return None
        return say_never(needs, {name: states for states, name in whole.items()}) if whole else None

    def _is_refused(self, states: CardStates, needs: CardNeeds) -> bool:
        fit = fit_pods(states, [needs])
        self.budget.left -= fit.tries * TRY
        return fit.holds is None and fit.is_decided

    def with_limits(
        self,
        shapes: Sequence[PodShape],
        limits: Sequence[Limit] = (),
        separations: Sequence[Separation] = (),
    ) -> tuple[Self, Sequence[PodShape]]:
        amounts, limited = self.amounts.with_limits(shapes, limits, separations)
        return replace(self, amounts=amounts), limited

    def copy(self) -> Self:
        return replace(self, amounts=self.amounts.copy(), codes=self.codes.copy())

    def without(self, closed: Mask, reason: str) -> Self:
        return replace(self, amounts=self.amounts.without(closed, reason))


class _CardRuns:
    """Runs where cards count too: from each end, as far back as the pods still fit together."""

    def __init__(self, room: CardRoom, amounts: Runs, shapes: Sequence[PodShape]) -> None:
        self._room, self._amounts, self._shapes = room, amounts, shapes
        self._known: dict[tuple[int, bytes], Ints] = {}

    def starts(self, leaf: int) -> Ints:
        by_amounts, code = self._amounts.starts(leaf), int(self._room.codes[leaf])
        key = code, by_amounts.tobytes()
        if key not in self._known:
            self._known[key] = self._starts(code, by_amounts)
        return self._known[key]

    def _starts(self, code: int, by_amounts: Ints) -> Ints:
        starts = by_amounts.copy()
        held: Counter[PodShape] = Counter()
        first = 0
        for end in range(1, len(starts)):
            held[self._shapes[end - 1]] += 1
            while first < starts[end] or not self._room.cards_fit(code, held):
                held[self._shapes[first]] -= 1
                first += 1
            starts[end] = first
        return starts


def _all_open(states: CardStates) -> CardStates:
    """Ill cards may recover, those out of service come back, and whoever holds any will end."""
    return tuple(
        replace(
            state,
            is_open=True,
            is_split=False,
            is_shared=False,
            tiles=frozenset(range(state.tile_count)),
            millicores=MILLICORES,
            memory_bytes=state.memory_total,
            shares=state.share_total,
        )
        for state in states
    )
