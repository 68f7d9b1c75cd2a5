"""Packs: places at which a running task leaves whole nodes or whole cards free."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from accelet.kube.requests import scheduling_units
from accelet.scheduler.cards.catalog import UNKNOWN
from accelet.scheduler.cards.state import CardState, CardStates
from accelet.scheduler.cluster.cardroom import CardRoom
from accelet.scheduler.cluster.layout import Mask
from accelet.scheduler.cluster.supposing import Supposition
from accelet.scheduler.cluster.usage import bounded
from accelet.scheduler.moves.finding.relocating import relocate
from accelet.scheduler.moves.movable import MovableTask, Relocation, distance_of, extended_amounts
from accelet.scheduler.placement.unlike import Effort

_EFFORT = Effort(units=60_000, restarts=4, tries=2_000)
"""For each question to the planner."""

_UNUSED, _LEFT = "that nobody uses", "to be left free"


@dataclass(frozen=True, slots=True)
class PacksTerms:
    """What comes wholly free is `factor` times what the task has; `most_questions` are for the planner."""

    factor: float = 2.0
    most_questions: int = 24
    effort: Effort = _EFFORT


@dataclass(frozen=True, slots=True)
class InUse:
    """How many nodes and cards somebody uses, of those that were looked at."""

    nodes: int = 0
    cards: int = 0

    def is_less_than(self, other: "InUse") -> bool:
        """Whether it is fewer of one and no more of the other."""
        return self != other and self.nodes <= other.nodes and self.cards <= other.cards


@dataclass(frozen=True, slots=True)
class Packs:
    """The move, and how many nodes and cards come wholly free; or `move` is None and `reason` says why."""

    move: Relocation | None = None
    nodes: int = 0
    cards: int = 0
    reason: str = ""


def find_packs(task: MovableTask, supposed: Supposition, terms: PacksTerms) -> Packs:
    """Other places for ranks of a task that leave fewer nodes or cards in use, and it no farther apart.

    A node is in use where somebody has any of the accelerators that the task asks for; a card where it is in
    service and somebody has any of it. Nothing that nobody uses is begun to be used. The new places are free
    now, beside the old ones.
    """
    before = task.distance(supposed.layout)
    if before is None:
        return Packs(reason="one of its nodes is not known")
    look = _Look(task, supposed)
    if not look.resources:
        return Packs(reason="it asks for no accelerators")
    for moving, room in list(look.questions())[: terms.most_questions]:
        move = relocate(task, moving, supposed, room, terms.effort).move
        if move is None or distance_of(move.nodes, supposed.layout) > before:
            continue
        found = look.judge(move, terms.factor)
        if found.move is not None:
            return found
    return Packs(reason="no place leaves more nodes or cards free")


def still_packs(move: Relocation, supposed: Supposition, terms: PacksTerms) -> bool:
    """Whether a move that was found earlier leaves as much free now."""
    return _Look(move.task, supposed).judge(move, terms.factor).move is not None


class _Look:
    """One task, and what there is of the accelerators that it asks for."""

    def __init__(self, task: MovableTask, supposed: Supposition) -> None:
        self._task, self._supposed, self._layout = task, supposed, supposed.layout
        asked = extended_amounts(task.gang)
        self.resources = [name for name in asked if name in supposed.now.amounts.columns]
        self._asked = asked
        self._offers = [scheduling_units(node.allocatable) for node in self._layout.nodes]

    def questions(self) -> Iterator[tuple[frozenset[int], CardRoom]]:
        """Which ranks might move, and the room where they could: those first that leave a node to nobody."""
        once_gone = self._unused(self._supposed.room(self._task.pods))
        used = self._supposed.room().without(self._unused(self._supposed.now), _UNUSED)
        leaf_of = self._layout.leaf_of
        by_node = defaultdict[str, set[int]](set)
        for rank, node in enumerate(self._task.nodes):
            if once_gone[leaf_of[node]]:
                by_node[node].add(rank)
        for moving in _unions(by_node.values()):
            left = np.zeros(len(self._layout.nodes), dtype=bool)
            left[[leaf_of[self._task.nodes[rank]] for rank in moving]] = True
            for room in (self._partly_used(used, moving), used):
                yield moving, room.copy().without(left, _LEFT)
        for moving in _unions(self._by_card().values()):
            yield moving, self._partly_used(used, moving)

    def _by_card(self) -> Mapping[tuple[str, str], set[int]]:
        """The ranks on each card of which nobody else has any."""
        ranks = {pod: rank for rank, pod in enumerate(self._task.pods)}
        found, others = defaultdict[tuple[str, str], set[int]](set), set[tuple[str, str]]()
        for node in sorted(set(self._task.nodes)):
            for pod, _, card in self._supposed.account.holders(node):
                if pod in ranks:
                    found[node, card].add(ranks[pod])
                else:
                    others.add((node, card))
        return {card: some for card, some in found.items() if card not in others}

    def _partly_used(self, used: CardRoom, moving: Collection[int]) -> CardRoom:
        """The room on cards of which somebody has a part who does not move."""
        freed = self._supposed.room([self._task.pods[rank] for rank in moving])
        room = used.without(used.codes == UNKNOWN, _UNUSED).copy()
        pairs = np.stack((used.codes, freed.codes))
        for now, without in np.unique(pairs, axis=1).T.tolist():
            if UNKNOWN in (now, without):
                continue
            states = zip(room.catalog.states(now), room.catalog.states(without), strict=True)
            closed = tuple(replace(one, is_open=one.is_open and not _is_whole(gone)) for one, gone in states)
            room.codes[(used.codes == now) & (freed.codes == without)] = room.catalog.code(closed)
        return room

    def judge(self, move: Relocation, factor: float) -> Packs:
        """What a move comes to: nothing where it is not worth it."""
        gone = [pod for rank, pod in enumerate(move.task.pods) if rank not in move.kept]
        after = self._supposed.room(gone, move.arrivals)
        leaves = sorted({self._layout.leaf_of[node] for node in (*move.nodes, *self._task.nodes)})
        was, will_be = self._in_use(self._supposed.now, leaves), self._in_use(after, leaves)
        if not will_be.is_less_than(was) or not self._is_worth(after, leaves, factor):
            return Packs(reason="it would not be worth it")
        return Packs(move, was.nodes - will_be.nodes, was.cards - will_be.cards)

    def _in_use(self, room: CardRoom, leaves: Sequence[int]) -> InUse:
        unused = self._unused(room)
        cards = (card for leaf in leaves for card in self._states(room, leaf))
        return InUse(
            sum(not unused[leaf] for leaf in leaves),
            sum(card.is_open and not _is_whole(card) for card in cards),
        )

    def _is_worth(self, after: CardRoom, leaves: Sequence[int], factor: float) -> bool:
        """Whether what comes free is `factor` times what the task has, in cards, where they are published."""
        now, freed = self._supposed.now, self._supposed.room(self._task.pods)
        pairs = [pair for leaf in leaves for pair in zip(*self._both(now, freed, leaf), strict=True)]
        thousandths = sum(_thousandths(one, other) for one, other in pairs)
        unused_before, unused = self._unused(now), self._unused(after)
        new = [leaf for leaf in leaves if unused[leaf] and not unused_before[leaf]]
        if thousandths:
            gained = sum(
                _is_whole(card) and (leaf in new or not _is_whole(old))
                for leaf in leaves
                for old, card in zip(*self._both(now, after, leaf), strict=True)
            )
            return 1000 * gained >= factor * thousandths
        return all(
            sum(self._offers[leaf].get(name, 0) for leaf in new) >= factor * self._asked[name]
            for name in self.resources
        )

    def _both(self, one: CardRoom, other: CardRoom, leaf: int) -> tuple[CardStates, CardStates]:
        states = self._states(one, leaf), self._states(other, leaf)
        return states if all(states) else ((), ())

    def _unused(self, room: CardRoom) -> Mask:
        """The leaves of whose accelerators nobody has any: shape (leaves,)."""
        amounts = room.amounts
        mask = np.ones(len(self._layout.nodes), dtype=bool)
        for name in self.resources:
            offered = np.array([bounded(offer.get(name, 0)) for offer in self._offers], dtype=np.int64)
            mask &= amounts.free[amounts.columns[name]] >= offered
        return mask

    def _states(self, room: CardRoom, leaf: int) -> CardStates:
        code = int(room.codes[leaf])
        return () if code == UNKNOWN else room.catalog.states(code)


def _unions(sets: Iterable[Collection[int]]) -> Sequence[frozenset[int]]:
    """Each of these sets of ranks, the smallest first, and then all of them together."""
    some = sorted({frozenset(one) for one in sets}, key=lambda one: (len(one), sorted(one)))
    return [*some, *([frozenset[int]().union(*some)] if len(some) > 1 else [])]


def _is_whole(card: CardState) -> bool:
    """Whether it is in service and nobody has any of it."""
    return (
        card.is_open
        and not card.is_split
        and not card.is_shared
        and len(card.tiles) == card.tile_count
        and (card.shares, card.memory_bytes) == (card.share_total, card.memory_total)
    )


def _thousandths(now: CardState, freed: CardState) -> int:
    """How much of a card somebody has, without whom it is `freed`: of whatever it is most."""
    parts = [
        (len(freed.tiles) - len(now.tiles), now.tile_count),
        (freed.millicores - now.millicores, 1000),
        (freed.memory_bytes - now.memory_bytes, now.memory_total),
        (freed.shares - now.shares, now.share_total),
    ]
    return max(1000 * amount // whole for amount, whole in parts if whole)
