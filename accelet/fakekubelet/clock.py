"""The clock a fake kubelet lives by: the machine's, or one that a test moves."""

import asyncio
import heapq
import time
from collections.abc import Coroutine
from typing import Any, Protocol, TypeVar

_T = TypeVar("_T")


class Clock(Protocol):
    """Seconds that only grow, and a way to wait for them."""

    def now(self) -> float: ...

    async def sleep(self, seconds: float) -> None: ...


class SystemClock:
    """The machine's monotonic clock."""

    def now(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class ManualClock:
    """Stands still until it is told to advance."""

    def __init__(self, start: float = 0.0) -> None:
        self._now = start
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._ticket = 0

    def now(self) -> float:
        return self._now

    async def sleep(self, seconds: float) -> None:
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        self._ticket += 1
        woken = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self._now + seconds, self._ticket, woken))
        await woken

    async def advance(self, seconds: float) -> None:
        """Moves on by `seconds`, waking whoever sleeps, in the order of their times.

        Whoever wakes gets to run, and may sleep again within these same seconds, before time goes on.
        """
        await self._settle()
        end = self._now + seconds
        while self._sleepers and self._sleepers[0][0] <= end:
            due, _, woken = heapq.heappop(self._sleepers)
            if woken.done():
                continue
            self._now = max(self._now, due)
            woken.set_result(None)
            await self._settle()
        self._now = end

    @staticmethod
    async def _settle() -> None:
        """Lets whoever is ready run on, until it sleeps or waits for something else."""
        for _ in range(8):
            await asyncio.sleep(0)


async def within(clock: Clock, seconds: float, work: Coroutine[Any, Any, _T]) -> _T:
    """The result of `work`, if it comes before `seconds` have passed on `clock`.

    Raises:
        TimeoutError: it did not, and has been cancelled.
    """
    working = asyncio.create_task(work)
    alarm = asyncio.create_task(clock.sleep(seconds))
    try:
        await asyncio.wait({working, alarm}, return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise TimeoutError
        return working.result()
    finally:
        for task in (working, alarm):
            task.cancel()
        await asyncio.gather(working, alarm, return_exceptions=True)
