"""Numbers in order, of which each may be there several times."""

from bisect import bisect_left, bisect_right, insort
from typing import Final

_ALL: Final = float("inf")


class Ranked:
    """The largest of many numbers that come and go, without a look at all of them."""

    __slots__ = ("_more", "_order")

    def __init__(self) -> None:
        self._order: list[float] = []
        self._more: dict[float, int] = {}
        """How many there are of a number beside the first, of those of which there are several."""

    def add(self, number: float) -> None:
        if number in self:
            self._more[number] = self._more.get(number, 0) + 1
        else:
            insort(self._order, number)

    def remove(self, number: float) -> None:
        """Takes a number out once.

        Raises:
            KeyError: it is not there.
        """
        if number not in self:
            raise KeyError(number)
        more = self._more.pop(number, 0)
        if more > 1:
            self._more[number] = more - 1
        elif not more:
            del self._order[bisect_left(self._order, number)]

    def __contains__(self, number: float) -> bool:
        place = bisect_left(self._order, number)
        return place < len(self._order) and self._order[place] == number

    def largest(self, *, without: float | None = None, at_most: float = _ALL) -> float | None:
        """The largest up to `at_most`, None if there is none; `without` is left out once."""
        place = bisect_right(self._order, at_most) - 1
        if place >= 0 and self._order[place] == without and without not in self._more:
            place -= 1
        return self._order[place] if place >= 0 else None

    def smallest(self) -> float | None:
        return self._order[0] if self._order else None

    def sum_of_largest(self, most: int, *, without: float | None = None) -> tuple[int, float]:
        """How many there are, up to `most`, and what the largest so many are together."""
        found, total = 0, 0.0
        for number in reversed(self._order):
            if found >= most:
                break
            count = min(self._more.get(number, 0) + (number != without), most - found)
            found, total = found + count, total + count * number
        return found, total
