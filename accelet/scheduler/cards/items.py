"""What pods ask of cards, cut into items that are each given cards at once."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from accelet.scheduler.cards.needs import Amounts, CardNeeds, ContainerNeed
from accelet.scheduler.cards.state import CardState, CardStates, Hold


@dataclass(frozen=True, slots=True)
class CardItem:
    """Containers that take the same cards: `cards` different ones, and `each` of each of them.

    `shares` holders at a time; `members` are the containers with the tiles that each of them gets.
    """

    pod: int
    resource: str
    cards: int
    each: Amounts
    members: tuple[tuple[str, int], ...]
    allowed: frozenset[str] | None
    denied: frozenset[str]
    is_linked: bool
    is_single_numa: bool

    @property
    def shares(self) -> int:
        return len(self.members)

    def may_use(self, state: CardState) -> bool:
        if state.resource != self.resource or state.card in self.denied:
            return False
        return self.allowed is None or state.card in self.allowed

    def divide(self, choice: Sequence[Hold]) -> Iterator[tuple[str, tuple[Hold, ...]]]:
        """What each of the containers gets of the tiles chosen."""
        start = 0
        for name, count in self.members:
            yield name, tuple(Hold(hold.card, hold.tiles[start : start + count]) for hold in choice)
            start += count


def list_items(pod: int, needs: CardNeeds) -> Iterator[CardItem]:
    def item(members: Sequence[ContainerNeed]) -> CardItem:
        return CardItem(
            pod=pod,
            resource=members[0].resource,
            cards=members[0].cards,
            each=sum((member.each for member in members), Amounts()),
            members=tuple((member.name, member.each.tiles) for member in members),
            allowed=needs.allowed,
            denied=needs.denied,
            is_linked=needs.is_linked,
            is_single_numa=needs.is_single_numa,
        )

    together = [need for need in needs.containers if need.name in needs.same_card]
    if together:
        yield item(together)
    for need in needs.containers:
        if need.name not in needs.same_card:
            yield item([need])


def may_fit(states: CardStates, items: Sequence[CardItem]) -> bool:
    """What can be told without a search: each item for itself, and sums over all of a resource."""
    # Items of several pods that ask for the same are judged once.
    for one in {replace(item, pod=0) for item in items}:
        if (
            sum(state.room_for(one.each, one.shares) > 0 for state in states if one.may_use(state))
            < one.cards
        ):
            return False
    return _times_by_sums(states, items) > 0


def most_times(states: CardStates, items: Sequence[CardItem]) -> int:
    """More often than this all of these items together do not fit, told without a search."""
    if not may_fit(states, items):
        return 0
    times = [
        sum(state.room_for(one.each, one.shares) for state in states if one.may_use(state)) // one.cards
        for one in items
    ]
    return min((*times, _times_by_sums(states, items)))


def _times_by_sums(states: CardStates, items: Sequence[CardItem]) -> int:
    """How often the amounts that the items ask for are there in all."""
    times = []
    for resource in {one.resource for one in items}:
        usable = [state for state in states if state.is_open and state.resource == resource]
        mine = [one for one in items if one.resource == resource]
        needed = (
            sum(one.cards * one.each.tiles for one in mine),
            sum(one.cards * one.each.millicores for one in mine),
            sum(one.cards * one.each.memory_bytes for one in mine),
            sum(one.cards * one.shares for one in mine),
        )
        # A card that is overdrawn takes nothing from the others.
        free = (
            sum(len(state.tiles) for state in usable if not state.is_shared),
            sum(max(0, state.millicores) for state in usable),
            sum(max(0, state.memory_bytes) for state in usable),
            sum(max(0, state.shares) for state in usable),
        )
        times += [have // want for want, have in zip(needed, free, strict=True) if want]
    return min(times, default=1)
