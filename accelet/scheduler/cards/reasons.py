"""Why cards do not take a pod, in words that follow a number of nodes."""

from dataclasses import replace

from accelet.scheduler.cards.choice import fit_pods
from accelet.scheduler.cards.needs import CardNeeds
from accelet.scheduler.cards.state import CardStates

MEMORY_NOT_KNOWN = "whose cards' memory is not known (set `memory` in the agent's configuration)"
_ENOUGH = 2**62
"""More memory than anybody asks for."""

UNDECIDED = "undecided: too many ways to share their cards"


def describe_refusal(states: CardStates, needs: CardNeeds) -> str:
    """Why a node's cards do not take even one such pod, to follow a number of nodes."""
    for need in needs.containers:
        alone = replace(needs, containers=(need,), before=(), same_card=frozenset())
        if fit_pods(states, [alone]).holds is None:
            is_unknown = needs_to_know_memory(states, alone)
            return MEMORY_NOT_KNOWN if is_unknown else f"without {describe_need(alone)}"
    if needs_to_know_memory(states, needs):
        return MEMORY_NOT_KNOWN
    return "whose cards do not take its containers together"


def needs_to_know_memory(states: CardStates, needs: CardNeeds) -> bool:
    """Whether cards that do not take a pod would take it, if the memory that is not known were enough."""
    if all(state.is_memory_known for state in states):
        return False
    supposed = tuple(
        state if state.is_memory_known else replace(state, memory_bytes=_ENOUGH, memory_total=_ENOUGH)
        for state in states
    )
    return fit_pods(supposed, [needs]).holds is not None


def describe_need(needs: CardNeeds) -> str:
    """What one container wants of a node's cards, in words: `2 linked cards with 1 free tile each`."""
    (need,) = needs.containers
    amounts = need.each
    has = [
        *([f"{amounts.tiles} free tile{'s' * (amounts.tiles > 1)}"] if amounts.tiles else []),
        *([f"{amounts.millicores} free millicores"] if amounts.millicores else []),
        *([f"{describe_memory(amounts.memory_bytes)} of free memory"] if amounts.memory_bytes else []),
    ]
    kind = need.resource.rpartition("/")[2]
    many = need.cards > 1
    what = f"{need.cards} {'linked ' * needs.is_linked}{kind} cards" if many else f"one {kind} card"
    where = " on one NUMA node" if needs.is_single_numa else ""
    allowed = "" if needs.allowed is None and not needs.denied else " among those it allows"
    return f"{what}{where}{allowed}" + (f" with {' and '.join(has)}{' each' * many}" if has else " free")


def describe_memory(amount: int) -> str:
    return f"{amount / 2**30:.3g} GiB" if amount >= 2**30 else f"{amount / 2**20:.3g} MiB"
