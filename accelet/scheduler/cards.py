"""Cards and tiles for pods on one node: what is free of each card, and an exact search for who gets what."""

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Literal, NamedTuple, TypeVar

from accelet.accelerators.device import TileLink, UnitId
from accelet.scheduler.cardneeds import Amounts, CardNeeds, ContainerNeed
from resourcemanager.assignment import Assignment, Pieces, unit

CardPolicy = Literal["packed", "balanced"]
"""Which of the cards that will do is taken: the fullest, so that whole cards stay free, or the emptiest."""

_MOST_ITEMS = 500
"""More would be too many for the depth of the search."""

USUAL_TRIES = 4000
"""How many choices a search makes before it gives up: some 50 ms."""


@dataclass(frozen=True, slots=True)
class CardState:
    """One card and what is left of it.

    `tiles` are the numbers of those that nobody holds and nobody keeps out of service. A card of which a tile
    is held (`is_split`) is shared by nobody, and of a card that is shared no tile is given: who shares it
    sees all of it. One that is not `is_open` is ill or out of service, and takes nobody.
    """

    id: UnitId
    resource: str
    card: str | None = None
    numa_node: int | None = None
    links: tuple[TileLink, ...] = ()
    tile_count: int = 1
    tiles: frozenset[int] = frozenset((0,))
    millicores: int = 1000
    memory_bytes: int = 0
    memory_total: int = 0
    shares: int = 1
    share_total: int = 1
    is_split: bool = False
    is_shared: bool = False
    is_open: bool = True
    is_preferred: bool = False
    preferred_tiles: frozenset[int] = frozenset()

    @property
    def load(self) -> float:
        """How much of it is used, from 0 to 1: of whatever there is least left of."""
        return max(
            1 - len(self.tiles) / self.tile_count,
            1 - self.millicores / 1000,
            1 - self.memory_bytes / self.memory_total if self.memory_total else 0.0,
            1 - self.shares / self.share_total if self.share_total else 0.0,
        )

    def room_for(self, each: Amounts, shares: int = 1) -> int:
        """How many times it has `each` left, for `shares` holders at a time."""
        if not self.is_open or (self.is_shared if each.tiles else self.is_split):
            return 0
        most = self.shares // shares
        if each.tiles:
            most = min(most, len(self.tiles) // each.tiles)
        if each.millicores:
            most = min(most, self.millicores // each.millicores)
        if each.memory_bytes:
            most = min(most, self.memory_bytes // each.memory_bytes)
        return max(0, most)

    def without(self, each: Amounts, tiles: frozenset[int], shares: int) -> "CardState":
        """What is left when someone holds `tiles` (none: a share of the whole) and the rest of `each`."""
        return replace(
            self,
            tiles=self.tiles - tiles,
            millicores=self.millicores - each.millicores,
            memory_bytes=self.memory_bytes - each.memory_bytes,
            shares=self.shares - shares,
            is_split=self.is_split or bool(tiles),
            is_shared=self.is_shared or not tiles,
        )


CardStates = tuple[CardState, ...]


class Hold(NamedTuple):
    """One card of a container: its place among the node's cards, and the tiles of it (none: all, shared)."""

    card: int
    tiles: tuple[int, ...] = ()


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
    items = [item for index, needs in enumerate(pods) for item in _items(index, needs)]
    if not _may_fit(states, items):
        return Fit(None, states)
    if len(items) > _MOST_ITEMS:
        return Fit(None, states, is_decided=False)
    # What has the fewest ways to be placed goes first.
    items.sort(key=lambda item: (item.is_linked, item.is_single_numa, item.cards, item.each), reverse=True)
    search = _Search(items, policy, tries)
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


@dataclass(frozen=True, slots=True)
class _Item:
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


def _items(pod: int, needs: CardNeeds) -> Iterator[_Item]:
    def item(members: Sequence[ContainerNeed]) -> _Item:
        return _Item(
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


def _may_fit(states: CardStates, items: Sequence[_Item]) -> bool:
    """What can be told without a search: each item for itself, and sums over all of a resource."""
    for one in set(items):
        if (
            sum(state.room_for(one.each, one.shares) > 0 for state in states if one.may_use(state))
            < one.cards
        ):
            return False
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
        if any(want > have for want, have in zip(needed, free, strict=True)):
            return False
    return True


_T = TypeVar("_T")
_Choice = tuple[Hold, ...]
_Numas = tuple[tuple[int, int], ...]
"""The NUMA nodes that pods have been given, where that matters: (pod, node)."""


class _Search:
    """Depth first over items; what has failed once is not tried again from cards that are as free."""

    def __init__(self, items: Sequence[_Item], policy: CardPolicy, tries: int) -> None:
        self._items, self._tries = items, tries
        self._sign = -1 if policy == "packed" else 1
        self._by_link = any(item.is_linked for item in items)
        self._failed: set[Hashable] = set()
        self.is_exhausted = False
        # By item, what it and those after it look at.
        self._numa_pods = _from_here(items, lambda item: {item.pod} if item.is_single_numa else set())
        self._names = _from_here(items, lambda item: {*(item.allowed or ()), *item.denied})

    def place(
        self, number: int, states: CardStates, numas: _Numas
    ) -> tuple[tuple[_Choice, ...], CardStates] | None:
        """Choices for this item and all after it, and what is left; None if there is no way, or too many."""
        if number == len(self._items):
            return (), states
        item = self._items[number]
        key = self._key(number, states, numas)
        if key in self._failed:
            return None
        tried: set[Hashable] = set()
        for choice in self._choices(item, states, numas):
            if self._tries <= 0:
                self.is_exhausted = True
                return None
            after = _take(states, choice, item)
            numas_after = _with_numa(item, states, choice, numas)
            like = self._key(number + 1, after, numas_after)
            if like in tried or like in self._failed:
                continue
            tried.add(like)
            self._tries -= 1
            rest = self.place(number + 1, after, numas_after)
            if rest is not None:
                return (choice, *rest[0]), rest[1]
        if not self.is_exhausted:
            self._failed.add(key)
        return None

    def _key(self, number: int, states: CardStates, numas: _Numas) -> Hashable:
        """What the rest of the search depends on: cards that nothing tells apart may change places."""
        left = tuple(numa for numa in numas if numa[0] in self._numa_pods[number])
        if self._by_link:
            return number, states, left
        names = self._names[number]
        return (
            number,
            left,
            tuple(
                sorted(
                    (
                        state.resource,
                        -1 if state.numa_node is None else state.numa_node,
                        state.card or "" if state.card in names else "",
                        len(state.tiles),
                        state.millicores,
                        state.memory_bytes,
                        state.shares,
                        state.is_split,
                        state.is_shared,
                    )
                    for state in states
                    if state.is_open
                )
            ),
        )

    def _choices(self, item: _Item, states: CardStates, numas: _Numas) -> Iterator[_Choice]:
        usable = [
            index
            for index, state in enumerate(states)
            if item.may_use(state) and state.room_for(item.each, item.shares)
        ]
        usable.sort(key=lambda index: (not states[index].is_preferred, self._sign * states[index].load))
        if not item.is_single_numa:
            yield from _choose(item, states, usable)
            return
        chosen = dict(numas).get(item.pod)
        nodes = dict.fromkeys(states[index].numa_node for index in usable)
        for node in nodes if chosen is None else (chosen,):
            if node is not None:
                yield from _choose(item, states, [i for i in usable if states[i].numa_node == node])


def _from_here(items: Sequence[_Item], read: Callable[[_Item], set[_T]]) -> list[frozenset[_T]]:
    """What `read` says of each item and all after it; one entry more than there are items."""
    found: list[frozenset[_T]] = [frozenset()]
    for item in reversed(items):
        found.append(found[-1] | read(item))
    return found[::-1]


def _choose(item: _Item, states: CardStates, usable: Sequence[int]) -> Iterator[_Choice]:
    if item.is_linked:
        yield from _pair_up(item.cards // 2, states, usable)
        return
    for cards in combinations(usable, item.cards) if item.cards <= len(usable) else ():
        yield tuple(Hold(card, _some_tiles(states[card], item.each.tiles)) for card in cards)


def _some_tiles(state: CardState, count: int) -> tuple[int, ...]:
    return tuple(sorted(state.tiles, key=lambda tile: (tile not in state.preferred_tiles, tile))[:count])


def _pair_up(pairs: int, states: CardStates, usable: Sequence[int]) -> Iterator[_Choice]:
    """Pairs of cards, each with a free tile that is linked to the other's; no card twice."""
    if not pairs:
        yield ()
        return
    places = {states[index].id: index for index in usable}
    for position, one in enumerate(usable):
        for link in sorted(states[one].links):
            other = places.get(link.far)
            if other is None or other == one:
                continue
            if link.tile in states[one].tiles and link.far_tile in states[other].tiles:
                # What comes before this card in order has been tried as the first of a pair already.
                rest = [index for index in usable[position + 1 :] if index != other]
                for others in _pair_up(pairs - 1, states, rest):
                    yield (Hold(one, (link.tile,)), Hold(other, (link.far_tile,)), *others)


def _take(states: CardStates, choice: _Choice, item: _Item) -> CardStates:
    taken = list(states)
    for hold in choice:
        taken[hold.card] = taken[hold.card].without(item.each, frozenset(hold.tiles), item.shares)
    return tuple(taken)


def _with_numa(item: _Item, states: CardStates, choice: _Choice, numas: _Numas) -> _Numas:
    if not item.is_single_numa or any(pod == item.pod for pod, _ in numas):
        return numas
    node = states[choice[0].card].numa_node
    assert node is not None
    return *numas, (item.pod, node)
