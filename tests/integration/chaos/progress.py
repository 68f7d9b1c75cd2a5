"""Time as the event loop lived it, so that a starved machine does not look like a slow agent."""

import asyncio
import time
from collections.abc import Callable

TICK_S = 0.02


class Progress:
    """Counts the seconds in which this loop got its turn; calls `ticked` some fifty times in each.

    One tick counts as `TICK_S` however long the machine let it wait. The agent has the same processors and,
    when it runs in this process, the same loop: what it could not do because nobody ran is not held against
    it. What it does itself to hold up the loop is seen in `longest_lag_s`.
    """

    def __init__(self, ticked: Callable[[], None]) -> None:
        self._ticked = ticked
        self._task: asyncio.Task[None] | None = None
        self.now_s = 0.0
        self.longest_lag_s = 0.0

    def start(self) -> None:
        self._task = asyncio.create_task(self._run(), name="progress")

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def _run(self) -> None:
        while True:
            before = time.monotonic()
            await asyncio.sleep(TICK_S)
            self.longest_lag_s = max(self.longest_lag_s, time.monotonic() - before - TICK_S)
            self.now_s += TICK_S
            self._ticked()

    async def until(self, condition: Callable[[], bool], within_s: float) -> bool:
        """Whether `condition` came to hold within so many seconds of progress."""
        end_s = self.now_s + within_s
        while not condition():
            if self.now_s >= end_s:
                return False
            await asyncio.sleep(TICK_S / 4)
        return True
