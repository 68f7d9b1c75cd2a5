"""Makes a new picture whenever something has changed, and shows it to everybody who looks."""

import asyncio
from typing import Final

from accelet.overview.seen import SeenCluster
from accelet.overview.waiting import plan_waiting
from accelet.runtime.clock import SYSTEM_CLOCK, Clock
from accelet.scheduler.placement.plan import Plan
from accelet.ui.subscribers import Subscribers
from accelet.ui.watching import PageWatching

GATHER_S: Final = 0.25
"""Changes that come so soon one after the other are shown together."""

_LOOK_S: Final = 15.0
"""So often is a picture made where nothing happens: failures are told of for a time."""


class Painter:
    """Paints when `changed` is set. Takes half of a core at most: it rests as long as a picture took."""

    def __init__(
        self,
        seen: SeenCluster,
        watching: PageWatching,
        subscribers: Subscribers,
        changed: asyncio.Event,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._seen, self._watching, self._subscribers, self._clock = seen, watching, subscribers, clock
        self._changed = changed

    async def run(self) -> None:
        """Makes pictures until it is cancelled."""
        while True:
            self._changed.clear()
            started_s = self._clock.now_s()
            linger_s = await self._paint()
            await asyncio.sleep(max(GATHER_S, self._clock.now_s() - started_s))
            try:
                async with asyncio.timeout(min(_LOOK_S, _LOOK_S if linger_s is None else linger_s)):
                    await self._changed.wait()
            except TimeoutError:
                continue

    async def _paint(self) -> float | None:
        """One picture; in how many seconds the next one is due although nothing happens."""
        linger_s = self._seen.let_go(self._clock.now_s())
        is_left = self._seen.rebuild()
        while is_left:
            await asyncio.sleep(0)
            is_left = self._seen.rebuild()
        gangs, snapshot = self._seen.waiting()
        plans: list[Plan] = []
        if gangs:
            plans = list(await asyncio.to_thread(plan_waiting, gangs, snapshot))
        watching = self._watching
        picture = self._seen.picture(
            gangs, plans, notes=watching.notes, kinds=watching.kinds, is_whole=watching.is_whole
        )
        await self._subscribers.show(picture)
        return linger_s
