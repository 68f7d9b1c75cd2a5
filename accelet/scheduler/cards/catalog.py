"""What is known of kinds of nodes with cards: numbers for them, and how many pods fit."""

from collections.abc import Iterable, Mapping, Sequence
from threading import Lock
from typing import NamedTuple

import numpy as np

from accelet.scheduler.budget import Budget
from accelet.scheduler.cards.account import CardAccount
from accelet.scheduler.cards.choice import USUAL_TRIES, Fit, fit_pods, fit_quickly, most_pods
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


TRY, _QUESTION, _CARD = 12, 30, 4
"""What a choice, a question and each card it looks at cost of a gang's budget."""


class Count(NamedTuple):
    """`sure` pods fit for certain, and more than `most` for certain do not; equal where that is decided."""

    sure: int
    most: int


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
        self._counts: dict[tuple[CardNeeds, int], dict[int, Count]] = {}
        self._most: dict[tuple[int, CardNeeds], int] = {}
        self._refusals: dict[tuple[int, CardNeeds], str | None] = {}
        self._fits: dict[tuple[int, frozenset[tuple[CardNeeds, int]]], bool | None] = {}

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
        return (
            self._cards
            + sum(map(len, self._counts.values()))
            + len(self._most)
            + len(self._refusals)
            + len(self._fits)
        )

    def count(
        self, code: int, needs: CardNeeds, pods: int = MOST_COUNTED, budget: Budget | None = None
    ) -> Count:
        """How many pods of these needs fit together.

        Exact up to `pods`; where more fit, how many more is not worth a search. Undecided where a search
        came to no end, or the budget to its own.
        """
        known = self.known_counts(needs, pods)
        if code not in known:
            count, is_final = self._count(code, needs, pods, budget or Budget())
            if not is_final:
                return count
            known[code] = count
        return known[code]

    def known_counts(self, needs: CardNeeds, pods: int) -> dict[int, Count]:
        """What `count` has found of such pods so far, by code."""
        return self._counts.setdefault((needs, MOST_COUNTED if _is_simple(needs) else pods), {})

    def most(self, code: int, needs: CardNeeds, pods: int) -> int:
        """More than so many pods of these needs, up to `pods`, can be told at once not to fit together."""
        if _is_simple(needs):  # to count them is as quick
            return min(self.count(code, needs).sure, pods)
        key = code, needs
        if key not in self._most:
            self._most[key] = most_pods(self._states[code], needs)
        return min(self._most[key], pods)

    def refusal(self, code: int, needs: CardNeeds, budget: Budget | None = None) -> str | None:
        """Why not even one pod of these needs fits, to follow a number of nodes; None where one does."""
        key = code, needs
        if key not in self._refusals:
            count = self.count(code, needs, 1, budget)
            if count.sure != count.most:
                return UNDECIDED
            self._refusals[key] = None if count.sure else describe_refusal(self._states[code], needs)
        return self._refusals[key]

    def fits(self, code: int, pods: Mapping[CardNeeds, int], budget: Budget) -> bool | None:
        """Whether so many pods of each of these needs fit together; None where that is not decided.

        When the budget is short, only what goes without turning back is found.
        """
        key = code, frozenset((needs, count) for needs, count in pods.items() if count)
        if key not in self._fits:
            listed = [needs for needs, count in pods.items() for _ in range(count)]
            fit, is_final = self._fit(self._states[code], listed, budget)
            answer = True if fit.holds is not None else False if fit.is_decided else None
            if not is_final:
                return answer
            self._fits[key] = answer
        return self._fits[key]

    def _fit(self, states: CardStates, pods: Sequence[CardNeeds], budget: Budget) -> tuple[Fit, bool]:
        """An answer within the budget, and whether more of it would give no other."""
        budget.spend(_QUESTION + _CARD * len(states))
        tries = min(USUAL_TRIES, budget.left // TRY)
        if budget.is_short or tries < USUAL_TRIES:
            fit, is_final = fit_quickly(states, pods, self.policy), False
        else:
            fit, is_final = fit_pods(states, pods, self.policy, tries), True
        budget.left -= fit.tries * TRY
        return fit, is_final or fit.holds is not None or fit.is_decided

    def _count(self, code: int, needs: CardNeeds, pods: int, budget: Budget) -> tuple[Count, bool]:
        """The count, and whether more of the budget would give no other."""
        states = self._states[code]
        if _is_simple(needs):
            (need,) = needs.containers
            usable = (
                state.room_for(need.each)
                for state in states
                if state.resource == need.resource and _is_allowed(needs, state.card)
            )
            count = min(sum(usable), MOST_COUNTED)
            return Count(count, count), True
        count, left = 0, states
        most = self.most(code, needs, min(pods + _LOOK_AHEAD, MOST_COUNTED))
        while count < most and budget.left > 0:
            fit, _ = self._fit(left, [needs], budget)
            if fit.holds is None:
                break
            count, left = count + 1, fit.left
        # One after the other may leave what together would do.
        while count < min(pods, most):
            if budget.left <= 0:
                return Count(count, most), False
            fit, is_final = self._fit(states, [needs] * (count + 1), budget)
            if fit.holds is None:
                return Count(count, count if fit.is_decided else most), is_final
            count += 1
        return Count(count, count), True


def _is_simple(needs: CardNeeds) -> bool:
    """Whether every pod takes one card, so that cards can be counted one by one."""
    return len(needs.containers) == 1 and needs.containers[0].cards == 1 and not needs.is_linked


def _is_allowed(needs: CardNeeds, card: str | None) -> bool:
    return card not in needs.denied and (needs.allowed is None or card in needs.allowed)


class NodesCards:
    """The cards of all nodes at one moment, by codes of the catalog in order of leaves: shape (leaves,).

    `problems` says of leaves without readable cards why, to follow a number of nodes.
    """

    def __init__(self, catalog: CardCatalog, book: CardAccount, leaf_of: Mapping[str, int]) -> None:
        self.catalog = catalog
        self.now = np.full(len(leaf_of), UNKNOWN, dtype=np.int64)
        self.in_the_end = self.now.copy()
        names = [name for name in book.nodes if name in leaf_of]
        leaves = [leaf_of[name] for name in names]
        states = [(book.states(name), book.states_in_the_end(name)) for name in names]
        codes = catalog.codes(one for both in states for one in both)
        self.now[leaves], self.in_the_end[leaves] = codes[::2], codes[1::2]
        self.problems = {leaf: book.problem(name) for leaf, name in zip(leaves, names, strict=True)}
