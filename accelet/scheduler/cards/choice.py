"""Cards and tiles for pods on one node: an exact search for who gets what."""

from collections.abc import Sequence
from dataclasses import dataclass

from accelet.assignments.assignment import Assignment, Pieces, unit
from accelet.scheduler.cards.items import CardItem, list_items, may_fit, most_times
from accelet.scheduler.cards.needs import CardNeeds
from accelet.scheduler.cards.search import CardPolicy, CardSearch
from accelet.scheduler.cards.state import CardStates, Hold

_MOST_ITEMS = 500
"""More would be too many for the depth of the search."""

USUAL_TRIES = 4000
"""How many choices a search makes before it gives up: some 50 ms."""

_FEWEST_TRIES = 50


@dataclass(frozen=True, slots=True)
class Fit:
    """What was found: `holds` by pod, then by container; None where nothing was.

    `left` is what is free afterwards. Without holds, `is_decided` says that there is no way. `tries` is how
    many choices it took.
    """

    holds: tuple[dict[str, tuple[Hold, ...]], ...] | None
    left: CardStates
    is_decided: bool = True
    tries: int = 0


def fit_pods(
    states: CardStates, pods: Sequence[CardNeeds], policy: CardPolicy = "packed", tries: int = USUAL_TRIES
) -> Fit:
    """Cards and tiles for all of these pods together.

    Exact: where it finds no way and `is_decided`, there is none. The policy decides in which order cards are
    tried; it never costs a fit.
    """
    items = _list_items(pods)
    if not may_fit(states, items):
        return Fit(None, states)
    if len(items) > _MOST_ITEMS:
        return _fit_one_by_one(states, pods, policy, tries)
    search = CardSearch(items, policy, tries)
    found = search.descend(states) or search.place(0, states, ())
    if found is None and search.is_exhausted:
        return _fit_one_by_one(states, pods, policy, tries)
    if found is None:
        return Fit(None, states, tries=tries - search.tries_left)
    return Fit(_divide(items, found[0], len(pods)), found[1], tries=tries - search.tries_left)


def most_pods(states: CardStates, needs: CardNeeds) -> int:
    """More pods of these needs than this do not fit together: told by sums, without a search."""
    return most_times(states, list(list_items(0, needs)))


def fit_quickly(states: CardStates, pods: Sequence[CardNeeds], policy: CardPolicy = "packed") -> Fit:
    """As `fit_pods`, where that goes without turning back; else undecided, or certain that it cannot."""
    items = _list_items(pods)
    if not may_fit(states, items):
        return Fit(None, states)
    found = CardSearch(items, policy, len(items)).descend(states)
    if found is None:
        return Fit(None, states, is_decided=False, tries=len(items))
    return Fit(_divide(items, found[0], len(pods)), found[1], tries=len(items))


def _list_items(pods: Sequence[CardNeeds]) -> list[CardItem]:
    """What has the fewest ways to be placed goes first."""
    items = [item for index, needs in enumerate(pods) for item in list_items(index, needs)]
    items.sort(key=lambda item: (item.is_linked, item.is_single_numa, item.cards, item.each), reverse=True)
    return items


def _divide(
    items: Sequence[CardItem], choices: Sequence[tuple[Hold, ...]], pods: int
) -> tuple[dict[str, tuple[Hold, ...]], ...]:
    """What was chosen for the items, by pod and container."""
    holds: list[dict[str, tuple[Hold, ...]]] = [{} for _ in range(pods)]
    for item, choice in zip(items, choices, strict=True):
        for name, of_container in item.divide(choice):
            holds[item.pod][name] = of_container
    return tuple(holds)


def _fit_one_by_one(states: CardStates, pods: Sequence[CardNeeds], policy: CardPolicy, tries: int) -> Fit:
    """What is left to try where all of them together are too much for a search."""
    holds: list[dict[str, tuple[Hold, ...]]] = []
    left, used = states, tries
    for needs in pods if len(pods) > 1 else ():
        fit = fit_pods(left, [needs], policy, max(_FEWEST_TRIES, tries // len(pods)))
        used += fit.tries
        if fit.holds is None:
            break
        holds += fit.holds
        left = fit.left
    if len(holds) < len(pods):
        return Fit(None, states, is_decided=False, tries=used)
    return Fit(tuple(holds), left, tries=used)


def assignment_of(states: CardStates, needs: CardNeeds, holds: dict[str, tuple[Hold, ...]]) -> Assignment:
    """What is written on a pod whose containers hold these cards of a node."""
    containers: dict[str, dict[str, Pieces]] = {}
    for need in needs.containers:
        containers[need.name] = {need.resource: _pieces(states, holds[need.name])}
    by_name = {need.name: need for need in needs.containers}
    for early in needs.before:
        heir = by_name[early.heir]
        some = [Hold(hold.card, hold.tiles[: early.tiles]) for hold in holds[early.heir][: early.cards]]
        containers[early.name] = {heir.resource: _pieces(states, some)}
    return Assignment(containers)


def _pieces(states: CardStates, holds: Sequence[Hold]) -> Pieces:
    return tuple(unit(states[hold.card].id, *hold.tiles) for hold in holds)
