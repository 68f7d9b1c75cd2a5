"""Cards and tiles for pods on one node: an exact search for who gets what."""

from collections.abc import Sequence
from dataclasses import dataclass

from accelet.scheduler.carditems import list_items, may_fit
from accelet.scheduler.cardneeds import CardNeeds
from accelet.scheduler.cardsearch import CardPolicy, CardSearch
from accelet.scheduler.cardstate import CardStates, Hold
from resourcemanager.assignment import Assignment, Pieces, unit

_MOST_ITEMS = 500
"""More would be too many for the depth of the search."""

USUAL_TRIES = 4000
"""How many choices a search makes before it gives up: some 50 ms."""


@dataclass(frozen=True, slots=True)
class Fit:
    """What was found: `holds` by pod, then by container; None where nothing was.

    `left` is what is free afterwards. Without holds, `is_decided` says that there is no way.
    """

    holds: tuple[dict[str, tuple[Hold, ...]], ...] | None
    left: CardStates
    is_decided: bool = True


def fit_pods(
    states: CardStates, pods: Sequence[CardNeeds], policy: CardPolicy = "packed", tries: int = USUAL_TRIES
) -> Fit:
    """Cards and tiles for all of these pods together.

    Exact: where it finds no way and `is_decided`, there is none. The policy decides in which order cards are
    tried; it never costs a fit.
    """
    items = [item for index, needs in enumerate(pods) for item in list_items(index, needs)]
    if not may_fit(states, items):
        return Fit(None, states)
    if len(items) > _MOST_ITEMS:
        return Fit(None, states, is_decided=False)
    # What has the fewest ways to be placed goes first.
    items.sort(key=lambda item: (item.is_linked, item.is_single_numa, item.cards, item.each), reverse=True)
    search = CardSearch(items, policy, tries)
    found = search.place(0, states, ())
    if found is None:
        return Fit(None, states, is_decided=not search.is_exhausted)
    choices, left = found
    holds: list[dict[str, tuple[Hold, ...]]] = [{} for _ in pods]
    for item, choice in zip(items, choices, strict=True):
        for name, of_container in item.divide(choice):
            holds[item.pod][name] = of_container
    return Fit(tuple(holds), left)


def assignment_of(states: CardStates, needs: CardNeeds, holds: dict[str, tuple[Hold, ...]]) -> Assignment:
    """What is written on a pod whose containers hold these cards of a node."""
    containers: dict[str, dict[str, Pieces]] = {}
    for need in needs.containers:
        containers[need.name] = {need.resource: _pieces(states, holds[need.name])}
    for early in needs.before:
        heir = next(need for need in needs.containers if need.name == early.heir)
        some = [Hold(hold.card, hold.tiles[: early.tiles]) for hold in holds[early.heir][: early.cards]]
        containers[early.name] = {heir.resource: _pieces(states, some)}
    return Assignment(containers)


def _pieces(states: CardStates, holds: Sequence[Hold]) -> Pieces:
    return tuple(unit(states[hold.card].id, *hold.tiles) for hold in holds)
