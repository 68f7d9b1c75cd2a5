"""Work that costs much: in parts, not too often, and not again at once for those it did nothing for."""

from asyncio import sleep
from collections.abc import Callable, Collection, Hashable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Generic, TypeVar

from accelet.runtime.clock import Clock

K = TypeVar("K", bound=Hashable)


class Parts:
    """Work on the event loop, cut into parts of `at_once`, so that others have their turn in between."""

    def __init__(self, at_once: int) -> None:
        self._at_once, self._done = at_once, 0

    def count(self, amount: int = 1) -> None:
        """So much more has been done."""
        self._done += amount

    async def pause(self) -> None:
        """Gives others their turn where a part is done."""
        if self._done >= self._at_once:
            self._done = 0
            await sleep(0)


class Intervals:
    """Between two looks: `least_s`, or `share` times as long as the last one took if that is longer."""

    def __init__(self, clock: Clock, least_s: float, share: float) -> None:
        self._clock, self._least_s, self._share = clock, least_s, share
        self.until_s = 0.0
        """Before this time, by the clock, there is no look."""

    @property
    def left_s(self) -> float:
        """How long there is no look yet; 0 or less where there may be one."""
        return self.until_s - self._clock.now_s()

    @contextmanager
    def look(self) -> Iterator[None]:
        """One look, from its beginning to its end, with its waits for answers."""
        started_s = self._clock.now_s()
        yield
        ended_s = self._clock.now_s()
        self.until_s = ended_s + max(self._least_s, self._share * (ended_s - started_s))


@dataclass(frozen=True, slots=True)
class Rest:
    """Nothing is done for somebody from `since_s` to `until_s`."""

    since_s: float = 0.0
    until_s: float = 0.0


_NEVER = Rest()


class Rests(Generic[K]):
    """Who is left alone for a while, as nothing could be done for them lately."""

    def __init__(self, now_s: Callable[[], float]) -> None:
        self._now_s = now_s
        self._rests: dict[K, Rest] = {}

    def begin(self, key: K, for_s: float) -> None:
        now_s = self._now_s()
        self._rests[key] = Rest(now_s, now_s + for_s)

    def last(self, key: K) -> Rest:
        """The last rest of these, maybe over; of those that never had one it was over from the beginning."""
        return self._rests.get(key, _NEVER)

    def is_resting(self, key: K) -> bool:
        return self.last(key).until_s > self._now_s()

    def forget_ended(self, but: Collection[K] = ()) -> None:
        """Forgets rests that are over, but for those of `but`."""
        now_s = self._now_s()
        self._rests = {key: rest for key, rest in self._rests.items() if rest.until_s > now_s or key in but}
