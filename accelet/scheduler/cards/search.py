"""The depth-first search for cards; choices between cards that do not differ are tried once."""

from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Literal, TypeVar

from accelet.scheduler.cards.items import CardItem
from accelet.scheduler.cards.state import CardState, CardStates, Hold

CardPolicy = Literal["packed", "balanced"]
"""Which of the cards that will do is taken: the fullest, so that whole cards stay free, or the emptiest."""

_T = TypeVar("_T")
_Choice = tuple[Hold, ...]
_Numas = tuple[tuple[int, int], ...]
"""The NUMA nodes that pods have been given, where that matters: (pod, node)."""


class CardSearch:
    """Depth first over items; what has failed once is not tried again from cards that are as free."""

    def __init__(self, items: Sequence[CardItem], policy: CardPolicy, tries: int) -> None:
        self._items, self.tries_left = items, tries
        self._sign = -1 if policy == "packed" else 1
        # Linked ones come first; to those after them, one tile of a card is as good as another.
        self._linked = sum(item.is_linked for item in items)
        self._failed: set[Hashable] = set()
        self.is_exhausted = False
        # By item, what it and those after it look at.
        self._numa_pods = _from_here(items, lambda item: {item.pod} if item.is_single_numa else set())
        self._names = _from_here(items, lambda item: {*(item.allowed or ()), *item.denied})

    def descend(self, states: CardStates) -> tuple[tuple[_Choice, ...], CardStates] | None:
        """As `place` from the first item on, without ever turning back: what it finds, the search would."""
        choices: list[_Choice] = []
        numas: _Numas = ()
        for number, item in enumerate(self._items):
            self.tries_left -= 1
            choice = next(self._choices(number, states, numas), None)
            if choice is None:
                return None
            choices.append(choice)
            numas = _with_numa(item, states, choice, numas)
            states = _take(states, choice, item)
        return tuple(choices), states

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
        for choice in self._choices(number, states, numas):
            if self.tries_left <= 0:
                self.is_exhausted = True
                return None
            self.tries_left -= 1
            after = _take(states, choice, item)
            numas_after = _with_numa(item, states, choice, numas)
            like = self._key(number + 1, after, numas_after)
            if like in tried or like in self._failed:
                continue
            tried.add(like)
            rest = self.place(number + 1, after, numas_after)
            if rest is not None:
                return (choice, *rest[0]), rest[1]
        if not self.is_exhausted:
            self._failed.add(key)
        return None

    def _key(self, number: int, states: CardStates, numas: _Numas) -> Hashable:
        """What the rest of the search depends on: cards that nothing tells apart may change places."""
        left = tuple(numa for numa in numas if numa[0] in self._numa_pods[number])
        if number < self._linked:
            return number, states, left
        likes = sorted(self._like(state, number) for state in states if state.is_open)
        return number, left, tuple(likes)

    def _like(self, state: CardState, number: int) -> tuple[str | int, ...]:
        """Equal for cards between which no item from `number` on makes a difference."""
        return (
            state.resource,
            -1 if state.numa_node is None else state.numa_node,
            state.card or "" if state.card in self._names[number] else "",
            len(state.tiles),
            state.millicores,
            state.memory_bytes,
            state.shares,
            state.is_split,
            state.is_shared,
        )

    def _choices(self, number: int, states: CardStates, numas: _Numas) -> Iterator[_Choice]:
        item = self._items[number]
        usable = [
            index
            for index, state in enumerate(states)
            if item.may_use(state) and state.room_for(item.each, item.shares)
        ]
        usable.sort(key=lambda index: (not states[index].is_preferred, self._sign * states[index].load))
        if not item.is_single_numa:
            yield from self._choose(number, states, usable)
            return
        chosen = dict(numas).get(item.pod)
        nodes = dict.fromkeys(states[index].numa_node for index in usable)
        for node in nodes if chosen is None else (chosen,):
            if node is not None:
                yield from self._choose(number, states, [i for i in usable if states[i].numa_node == node])

    def _choose(self, number: int, states: CardStates, usable: Sequence[int]) -> Iterator[_Choice]:
        item = self._items[number]
        if item.is_linked:
            yield from self._pair_up(item.cards // 2, states, usable)
            return
        # Of like cards the first ones will do: a node may have hundreds (virtual functions).
        likes: dict[Hashable, list[int]] = {}
        for card in usable:
            like = card if number < self._linked else self._like(states[card], number)
            if item.cards == 1 and like not in likes:
                yield (Hold(card, _some_tiles(states[card], item.each.tiles)),)
            likes.setdefault(like, []).append(card)
        for cards in _spread(item.cards, list(likes.values())) if item.cards > 1 else ():
            yield tuple(Hold(card, _some_tiles(states[card], item.each.tiles)) for card in cards)

    def _pair_up(self, pairs: int, states: CardStates, usable: Sequence[int]) -> Iterator[_Choice]:
        """Pairs of cards, each with a free tile that is linked to the other's; no card twice."""
        if not pairs:
            yield ()
            return
        places = {states[index].id: index for index in usable}
        for position, one in enumerate(usable):
            for link in states[one].links:
                other = places.get(link.far)
                if other is None or other == one:
                    continue
                self.tries_left -= 1
                if self.tries_left <= 0:
                    self.is_exhausted = True
                    return
                if link.tile in states[one].tiles and link.far_tile in states[other].tiles:
                    # What comes before this card in order has been tried as the first of a pair already.
                    rest = [index for index in usable[position + 1 :] if index != other]
                    for others in self._pair_up(pairs - 1, states, rest):
                        yield (Hold(one, (link.tile,)), Hold(other, (link.far_tile,)), *others)


def _from_here(items: Sequence[CardItem], read: Callable[[CardItem], set[_T]]) -> list[frozenset[_T]]:
    """What `read` says of each item and all after it; one entry more than there are items."""
    found: list[frozenset[_T]] = [frozenset()]
    for item in reversed(items):
        some = read(item)
        found.append(found[-1] if some <= found[-1] else found[-1] | some)
    return found[::-1]


def _spread(count: int, likes: Sequence[Sequence[int]]) -> Iterator[tuple[int, ...]]:
    """Every number of cards from each group of like ones, as many as possible from the first ones first."""
    sizes = [len(cards) for cards in likes]
    if count > sum(sizes):
        return
    taken = _fill(count, sizes)
    while True:
        yield tuple(card for cards, some in zip(likes, taken, strict=True) for card in cards[:some])
        # The last group that can leave one to those behind it does, and these begin anew.
        held = room = 0
        for place in reversed(range(len(sizes))):
            if taken[place] and held < room:
                taken[place:] = [taken[place] - 1, *_fill(held + 1, sizes[place + 1 :])]
                break
            held, room = held + taken[place], room + sizes[place]
        else:
            return


def _fill(count: int, sizes: Sequence[int]) -> list[int]:
    taken: list[int] = []
    for size in sizes:
        taken.append(min(count, size))
        count -= taken[-1]
    return taken


def _some_tiles(state: CardState, count: int) -> tuple[int, ...]:
    return tuple(sorted(state.tiles, key=lambda tile: (tile not in state.preferred_tiles, tile))[:count])


def _take(states: CardStates, choice: _Choice, item: CardItem) -> CardStates:
    taken = list(states)
    for hold in choice:
        taken[hold.card] = taken[hold.card].without(item.each, frozenset(hold.tiles), item.shares)
    return tuple(taken)


def _with_numa(item: CardItem, states: CardStates, choice: _Choice, numas: _Numas) -> _Numas:
    if not item.is_single_numa or any(pod == item.pod for pod, _ in numas):
        return numas
    node = states[choice[0].card].numa_node
    assert node is not None
    return *numas, (item.pod, node)
