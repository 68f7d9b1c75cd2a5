"""What is known of kinds of nodes with cards: numbers for them, and how many pods fit."""

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from threading import Lock

import numpy as np

from accelet.scheduler.cards.account import CardAccount
from accelet.scheduler.cards.choice import fit_pods, fit_quickly
from accelet.scheduler.cards.needs import CardNeeds
from accelet.scheduler.cards.reasons import UNDECIDED, describe_refusal
from accelet.scheduler.cards.search import CardPolicy
from accelet.scheduler.cards.state import CardStates

UNKNOWN = -1
"""The code of a node that publishes no cards, or none that can be read."""

MOST_COUNTED = 512
"""More pods than a node's cards have holders."""

_LOOK_AHEAD = 4
"""So many more than are to be placed are looked for, to tell a full node from an empty one."""


_TRIES_A_ROUND = 200_000
"""Choices for the questions which unlike pods fit together, of all gangs of one round: some 3 s."""


@dataclass(slots=True)
class Budget:
    """What is left of a round's choices, and what was left undecided for want of them."""

    tries: int = _TRIES_A_ROUND
    undecided: set[Hashable] = field(default_factory=set)


class CardCatalog:
    """Cards of nodes by number, and how many pods fit on them: what is known of one serves all that are like.

    It outlives rooms: a cluster has few kinds of nodes, and most are free to the same degree.
    """

    def __init__(self, policy: CardPolicy = "packed") -> None:
        self.policy: CardPolicy = policy
        self._codes: dict[CardStates, int] = {}
        self._listed: dict[int, tuple[CardStates, int]] = {}
        self._states: list[CardStates] = []
        self._cards = 0
        self._lock = Lock()
        self._counts: dict[tuple[int, CardNeeds, int], tuple[int, bool]] = {}
        self._refusals: dict[tuple[int, CardNeeds], str | None] = {}
        self._fits: dict[tuple[int, frozenset[tuple[CardNeeds, int]]], bool] = {}

    def code(self, states: CardStates) -> int:
        # The planning of a former leadership may still run in its thread when the next one begins.
        with self._lock:
            code = self._codes.setdefault(states, len(self._states))
            if code == len(self._states):
                self._states.append(states)
                self._cards += len(states)
        return code

    def codes(self, listed: Iterable[CardStates | None]) -> list[int]:
        """The code of each. To hash cards is slow: what was in the list before, the same object, is not."""
        known, self._listed = self._listed, {}
        found: list[int] = []
        for states in listed:
            if states is None:
                found.append(UNKNOWN)
                continue
            seen, code = known.get(id(states), (None, UNKNOWN))
            if seen is not states:
                code = self.code(states)
            self._listed[id(states)] = states, code
            found.append(code)
        return found

    def states(self, code: int) -> CardStates:
        return self._states[code]

    @property
    def size(self) -> int:
        """How many cards and answers it has, of less than 1 KB each."""
        return self._cards + len(self._counts) + len(self._refusals) + len(self._fits)

    def count(self, code: int, needs: CardNeeds, pods: int = MOST_COUNTED) -> tuple[int, bool]:
        """How many pods of these needs fit together, and whether no more do for certain.

        Exact up to `pods`; where more fit, how many more is not worth a search.
        """
        key = code, needs, MOST_COUNTED if _is_simple(needs) else pods
        if key not in self._counts:
            self._counts[key] = self._count(code, needs, pods)
        return self._counts[key]

    def refusal(self, code: int, needs: CardNeeds) -> str | None:
        """Why not even one pod of these needs fits, to follow a number of nodes; None where one does."""
        key = code, needs
        if key not in self._refusals:
            self._refusals[key] = self._refusal(code, needs)
        return self._refusals[key]

    def fits(self, code: int, pods: Mapping[CardNeeds, int], budget: Budget) -> bool:
        """Whether so many pods of each of these needs fit together; no where it cannot be decided.

        When the budget is used up, only what goes without turning back is found.
        """
        key = code, frozenset((needs, count) for needs, count in pods.items() if count)
        if key not in self._fits and key not in budget.undecided:
            listed = [needs for needs, count in pods.items() for _ in range(count)]
            fit = (fit_pods if budget.tries > 0 else fit_quickly)(self._states[code], listed, self.policy)
            budget.tries -= fit.tries
            if fit.holds is None and not fit.is_decided and budget.tries <= 0:
                budget.undecided.add(key)
            else:
                self._fits[key] = fit.holds is not None
        return self._fits.get(key, False)

    def _refusal(self, code: int, needs: CardNeeds) -> str | None:
        count, is_decided = self.count(code, needs, 1)
        if count:
            return None
        return describe_refusal(self._states[code], needs) if is_decided else UNDECIDED

    def _count(self, code: int, needs: CardNeeds, pods: int) -> tuple[int, bool]:
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
        while count < min(pods + _LOOK_AHEAD, MOST_COUNTED):
            fit = fit_pods(left, [needs], self.policy)
            if fit.holds is None:
                break
            count, left = count + 1, fit.left
        # One after the other may leave what together would do.
        while count < min(pods, MOST_COUNTED):
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

    `budget` is what may be spent on questions about them. `problems` says of leaves without readable cards
    why, to follow a number of nodes.
    """

    def __init__(self, catalog: CardCatalog, book: CardAccount, leaf_of: Mapping[str, int]) -> None:
        self.catalog = catalog
        self.budget = Budget()
        self.now = np.full(len(leaf_of), UNKNOWN, dtype=np.int64)
        self.in_the_end = self.now.copy()
        names = [name for name in book.nodes if name in leaf_of]
        leaves = [leaf_of[name] for name in names]
        states = [(book.states(name), book.states_in_the_end(name)) for name in names]
        codes = catalog.codes(one for both in states for one in both)
        self.now[leaves], self.in_the_end[leaves] = codes[::2], codes[1::2]
        self.problems = {leaf: book.problem(name) for leaf, name in zip(leaves, names, strict=True)}
