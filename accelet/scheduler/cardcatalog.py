"""What is known of kinds of nodes with cards: numbers for them, and how many pods fit."""

from collections.abc import Mapping

import numpy as np

from accelet.scheduler.cardbook import CardBook
from accelet.scheduler.cardneeds import CardNeeds
from accelet.scheduler.cards import fit_pods
from accelet.scheduler.cardsearch import CardPolicy
from accelet.scheduler.cardstate import CardStates

UNKNOWN = -1
"""The code of a node that publishes no cards, or none that can be read."""

MOST_COUNTED = 512
"""More pods than a node's cards have holders."""


class CardCatalog:
    """Cards of nodes by number, and how many pods fit on them: what is known of one serves all that are like.

    It outlives rooms: a cluster has few kinds of nodes, and most are free to the same degree.
    """

    def __init__(self, policy: CardPolicy = "packed") -> None:
        self.policy: CardPolicy = policy
        self._codes: dict[CardStates, int] = {}
        self._seen: dict[int, tuple[CardStates, int]] = {}
        self._states: list[CardStates] = []
        self._counts: dict[tuple[int, CardNeeds], tuple[int, bool]] = {}
        self._fits: dict[tuple[int, frozenset[tuple[CardNeeds, int]]], bool] = {}

    def code(self, states: CardStates | None) -> int:
        if states is None:
            return UNKNOWN
        # To hash cards is slow; a node's are the same object until something happens to them.
        seen, code = self._seen.get(id(states), (None, UNKNOWN))
        if seen is not states:
            code = self._codes.setdefault(states, len(self._states))
            if code == len(self._states):
                self._states.append(states)
            self._seen[id(states)] = states, code
        return code

    def states(self, code: int) -> CardStates:
        return self._states[code]

    @property
    def size(self) -> int:
        return len(self._seen) + len(self._counts) + len(self._fits)

    def count(self, code: int, needs: CardNeeds) -> tuple[int, bool]:
        """How many pods of these needs fit together, and whether no more do for certain."""
        key = code, needs
        if key not in self._counts:
            self._counts[key] = self._count(code, needs)
        return self._counts[key]

    def fits(self, code: int, pods: Mapping[CardNeeds, int]) -> bool:
        """Whether so many pods of each of these needs fit together; no where it cannot be decided."""
        key = code, frozenset((needs, count) for needs, count in pods.items() if count)
        if key not in self._fits:
            listed = [needs for needs, count in sorted(key[1], key=repr) for _ in range(count)]
            self._fits[key] = fit_pods(self._states[code], listed, self.policy).holds is not None
        return self._fits[key]

    def _count(self, code: int, needs: CardNeeds) -> tuple[int, bool]:
        states = self._states[code]
        if _is_simple(needs):
            (need,) = needs.containers
            usable = (
                state.room_for(need.each)
                for state in states
                if state.resource == need.resource and _is_allowed(needs, state.card)
            )
            return min(sum(usable), MOST_COUNTED), True
        count, left = 0, states
        while count < MOST_COUNTED:
            fit = fit_pods(left, [needs], self.policy)
            if fit.holds is None:
                break
            count, left = count + 1, fit.left
        # One after the other may leave what together would do.
        while count < MOST_COUNTED:
            fit = fit_pods(states, [needs] * (count + 1), self.policy)
            if fit.holds is None:
                return count, fit.is_decided
            count += 1
        return count, True


def _is_simple(needs: CardNeeds) -> bool:
    """Whether every pod takes one card, so that cards can be counted one by one."""
    return len(needs.containers) == 1 and needs.containers[0].cards == 1 and not needs.is_linked


def _is_allowed(needs: CardNeeds, card: str | None) -> bool:
    return card not in needs.denied and (needs.allowed is None or card in needs.allowed)


class NodesCards:
    """The cards of all nodes at one moment, by codes of the catalog in order of leaves: shape (leaves,).

    `problems` says of leaves without readable cards why, to follow a number of nodes.
    """

    def __init__(self, catalog: CardCatalog, book: CardBook, leaf_of: Mapping[str, int]) -> None:
        self.catalog = catalog
        self.now = np.full(len(leaf_of), UNKNOWN, dtype=np.int64)
        self.in_the_end = self.now.copy()
        self.problems: dict[int, str] = {}
        for name in book.nodes:
            leaf = leaf_of.get(name)
            if leaf is not None:
                self.now[leaf] = catalog.code(book.states(name))
                self.in_the_end[leaf] = catalog.code(book.states_in_the_end(name))
                self.problems[leaf] = book.problem(name)
