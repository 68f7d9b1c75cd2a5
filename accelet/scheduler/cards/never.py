"""Why no node of a cluster ever takes a pod that asks for cards, in words."""

from collections.abc import Mapping
from dataclasses import replace

from accelet.scheduler.cards.choice import fit_pods
from accelet.scheduler.cards.needs import CardNeeds, ContainerNeed
from accelet.scheduler.cards.reasons import describe_memory, describe_need, needs_to_know_memory
from accelet.scheduler.cards.state import CardStates

_MOST_CARDS_NAMED = 3


def _is_refused(states: CardStates, needs: CardNeeds) -> bool:
    fit = fit_pods(states, [needs])
    return fit.holds is None and fit.is_decided


def say_never(needs: CardNeeds, nodes: Mapping[str, CardStates]) -> str:
    """Why no node ever takes such a pod, and which comes nearest to what it asks for."""
    if said := _say_memory(needs, nodes):
        return said
    for need in needs.containers:
        alone = replace(needs, containers=(need,), before=(), same_card=frozenset())
        if all(_is_refused(states, alone) for states in nodes.values()):
            if said := _say_other_kind(need, alone, nodes):
                return said
            nearest = max(nodes, key=lambda name: _nearness(nodes[name], need))
            what = _describe(need, needs)
            return (
                f"no node ever has {what}; nearest is {nearest} with {_describe_best(nodes[nearest], need)}"
            )
    nearest = max(nodes, key=lambda name: len(nodes[name]))
    return (
        "no node ever takes its containers together, though each alone; "
        f"nearest is {nearest} with {len(nodes[nearest])} cards"
    )


def _say_memory(needs: CardNeeds, nodes: Mapping[str, CardStates]) -> str | None:
    """Of which cards it would have to be known how much memory they have; None where that would not help."""
    asking = [need for need in needs.containers if need.each.memory_bytes]
    node = next((name for name, states in nodes.items() if needs_to_know_memory(states, needs)), None)
    if not asking or node is None:
        return None
    resources = {need.resource for need in asking}
    cards = [
        state.card or state.id
        for state in nodes[node]
        if state.resource in resources and not state.is_memory_known
    ]
    more = f" and {len(cards) - _MOST_CARDS_NAMED} more" if len(cards) > _MOST_CARDS_NAMED else ""
    what = max(asking, key=lambda need: need.each.memory_bytes)
    named = ", ".join(cards[:_MOST_CARDS_NAMED]) + more
    return (
        f"no node is known to have {_describe(what, needs)}: the memory of {named} on {node} is not known; "
        "set `memory` in the configuration of its agent"
    )


def _describe(need: ContainerNeed, needs: CardNeeds) -> str:
    alone = replace(needs, containers=(need,), before=(), same_card=frozenset())
    return describe_need(alone).replace(" free", "")


def _say_other_kind(need: ContainerNeed, alone: CardNeeds, nodes: Mapping[str, CardStates]) -> str | None:
    """By which resource it is asked for, where nodes have other cards that would do and none of its kind."""
    kinds = {state.resource for states in nodes.values() for state in states}
    if need.resource in kinds:
        return None
    for kind in sorted(kinds):
        asked = replace(need, resource=kind)
        other = replace(alone, containers=(asked,))
        fitting = [name for name, states in nodes.items() if not _is_refused(states, other)]
        if fitting:
            best = max(fitting, key=lambda name: _nearness(nodes[name], asked))
            return (
                f"no node ever has a card of {need.resource}; {best} has "
                f"{_describe_best(nodes[best], asked)} of {kind}: "
                f"make the pod anew with {kind}: {need.cards} in resources.limits of {need.name}"
            )
    return None


def _nearness(states: CardStates, need: ContainerNeed) -> tuple[int, int, int, int]:
    """How many of the cards would do, and how large the best of the others is."""
    mine = [state for state in states if state.resource == need.resource]
    return (
        min(need.cards, sum(state.room_for(need.each) > 0 for state in mine)),
        min(need.each.tiles, max((state.tile_count for state in mine), default=0)),
        max((state.memory_total for state in mine), default=0),
        len(mine),
    )


def _describe_best(states: CardStates, need: ContainerNeed) -> str:
    mine = [state for state in states if state.resource == need.resource]
    if not mine:
        return "none of that kind"
    best = max(mine, key=lambda state: (state.tile_count, state.memory_total))
    tiles = f"{best.tile_count} tile{'s' * (best.tile_count > 1)}"
    of_these = f"{len(mine)} card{'s' * (len(mine) > 1)}"
    known = [state.memory_total for state in mine if state.is_memory_known]
    memory = f" and {describe_memory(max(known))}" if known else ", whose memory is not known"
    return f"{of_these} of up to {tiles}{memory}"
