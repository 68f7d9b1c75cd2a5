"""Clocks for tests: one that stands still until it is told to go on, one that runs too fast."""

import asyncio
import heapq
import time
from collections.abc import Iterator
from contextlib import contextmanager


class FakeClock:
    """An `accelet.runtime.clock.Clock`: nobody who sleeps by it wakes but by `advance`."""

    def __init__(self) -> None:
        self.time_s = 1000.0
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._number = 0

    def now_s(self) -> float:
        return self.time_s

    async def sleep(self, seconds: float) -> None:
        future = asyncio.get_running_loop().create_future()
        self._number += 1
        heapq.heappush(self._sleepers, (self.time_s + max(0.0, seconds), self._number, future))
        await future

    async def advance(self, seconds: float) -> None:
        """Lets this much time pass: everybody who sleeps wakes in order, and has done what it then does."""
        end_s = self.time_s + seconds
        await settle()
        while self._sleepers and self._sleepers[0][0] <= end_s:
            due_s, _, future = heapq.heappop(self._sleepers)
            self.time_s = max(self.time_s, due_s)
            if not future.done():
                future.set_result(None)
                await settle()
        self.time_s = end_s


async def settle() -> None:
    """Lets all tasks run until they wait for something from outside the loop."""
    for _ in range(30):
        await asyncio.sleep(0)


class QuickClock:
    """An `accelet.fakekubelet.clock.Clock`: `factor` seconds of the kubelet are one of the machine's."""

    def __init__(self, factor: float) -> None:
        self.factor = factor
        self._held_at: float | None = None

    def now(self) -> float:
        return time.monotonic() * self.factor if self._held_at is None else self._held_at

    @contextmanager
    def held(self) -> Iterator[None]:
        """No time passes meanwhile."""
        self._held_at = self.now()
        try:
            yield
        finally:
            self._held_at = None

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds / self.factor)
