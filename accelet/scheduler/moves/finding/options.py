"""Sets of tasks put together until they make room enough, those of the fewest ranks first."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush, merge
from itertools import combinations_with_replacement

import numpy as np

from accelet.scheduler.cluster.topology import Ints

Some = frozenset[int]
"""Tasks by their numbers."""


@dataclass(frozen=True, slots=True)
class Option:
    """Some tasks, the number of their ranks, and how many more pods there is room for without them."""

    tasks: Some
    ranks: int
    gain: int


def most_gained(reach: Iterable[Sequence[int]], steps: int) -> Ints:
    """What so many steps gain at most, from 0 to `steps`: shape (steps + 1,).

    Each of `reach` has what 0, 1, … steps on one leaf gain at most.
    """
    most: Ints = np.zeros(steps + 1, dtype=np.int64)
    for gains in reach:
        before = most.copy()
        for taken, gain in enumerate(gains[: steps + 1]):
            np.maximum(most[taken:], before[: steps + 1 - taken] + gain, out=most[taken:])
    return most


def in_order(options: Sequence[Option], lacking: int, most: int) -> Iterator[tuple[int, Some]]:
    """Unions of options that gain `lacking` together, none of which can be left out, by ranks added up.

    No union has more than `most` tasks; each is there once for every way to put it together.
    """
    by_gain: dict[int, list[Option]] = {}
    for option in sorted(options, key=lambda one: (one.ranks, len(one.tasks), sorted(one.tasks))):
        by_gain.setdefault(option.gain, []).append(option)
    gains = sorted(gain for gain in by_gain if gain > 0)
    ways = (
        _products([by_gain[gain] for gain in way])
        for count in range(1, most + 1)
        for way in combinations_with_replacement(gains, count)
        if sum(way) >= lacking > sum(way[1:])
    )
    return ((ranks, some) for ranks, some in merge(*ways, key=lambda found: found[0]) if len(some) <= most)


def _products(lists: Sequence[Sequence[Option]]) -> Iterator[tuple[int, Some]]:
    """One option of each list, which are in order of ranks; neighbours that are the same list give others."""
    start = tuple(sum(lists[before] is one for before in range(place)) for place, one in enumerate(lists))
    if any(at >= len(one) for at, one in zip(start, lists, strict=True)):
        return
    ahead, seen = [(_ranks(lists, start), start)], {start}
    while ahead:
        ranks, at = heappop(ahead)
        yield ranks, frozenset[int]().union(*(one[place].tasks for one, place in zip(lists, at, strict=True)))
        for place, one in enumerate(lists):
            following = (*at[:place], at[place] + 1, *at[place + 1 :])
            is_open = place + 1 == len(lists) or lists[place + 1] is not one
            limit = len(one) if is_open else at[place + 1]
            if following[place] < limit and following not in seen:
                seen.add(following)
                heappush(ahead, (_ranks(lists, following), following))


def _ranks(lists: Sequence[Sequence[Option]], at: Sequence[int]) -> int:
    return sum(one[place].ranks for one, place in zip(lists, at, strict=True))
