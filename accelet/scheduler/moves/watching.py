"""Watches Moves and GPUTasks, where the cluster has these kinds."""

import asyncio
from collections.abc import Callable

from accelet.control.watches import LOOK_AGAIN_S, WatchApi, WatchedKind, Watches, WatchFaults
from accelet.kinds.gputask import GPU_TASKS
from accelet.kinds.move import MOVES, Move, parse_move
from accelet.kube.served import is_served
from accelet.kube.watching.source import Scope
from accelet.kube.watching.store import Change
from accelet.runtime.clock import SYSTEM_CLOCK, Clock
from accelet.scheduler.metrics import SchedulerMetrics
from accelet.scheduler.moves.book import MoveBook
from accelet.scheduler.moves.tasks import TaskTerms, parse_terms

_UNSEEN = "objects of this kind are not seen, and no task is moved"


class MoveWatching:
    """`changed` is told of each Move that came, changed or went, and of tasks with None."""

    def __init__(
        self,
        api: WatchApi,
        book: MoveBook,
        *,
        metrics: SchedulerMetrics,
        changed: Callable[[Move | None], None],
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._api, self._book, self._changed = api, book, changed
        self._faults, self._clock = WatchFaults.counted(metrics.faults), clock
        self._watches = Watches(
            api,
            (
                WatchedKind(Scope(MOVES), parse_move, self._see_move),
                WatchedKind(Scope(GPU_TASKS), parse_terms, self._see_task, "tasks"),
            ),
            self._faults,
            clock=clock,
        )
        self._is_served = False
        self._has_looked = asyncio.Event()

    @property
    def is_synced(self) -> bool:
        """Whether both have been seen once, or it is known that the cluster has no such kinds."""
        return self._has_looked.is_set() and (not self._is_served or self._watches.is_synced)

    async def run(self) -> None:
        """Watches until it is cancelled, from when the cluster has both kinds."""
        while not await self._has_kinds():
            self._has_looked.set()
            await self._clock.sleep(LOOK_AGAIN_S)
        self._is_served = True
        self._has_looked.set()
        await self._watches.run()

    async def _has_kinds(self) -> bool:
        for resource in (MOVES, GPU_TASKS):
            failed = self._faults.failed
            if not await is_served(self._api, resource, failed, unseen=_UNSEEN, clock=self._clock):
                return False
        return True

    async def synced(self) -> None:
        """Waits until everything that there is has been seen once."""
        await self._has_looked.wait()
        if self._is_served:
            await self._watches.synced()

    async def refresh(self) -> None:
        """Brings the book up to date; what a former leader wrote last is in it then.

        Raises:
            KubeError: the API server did not answer.
        """
        if self._is_served:
            await self._watches.refresh()

    def _see_move(self, change: Change[Move]) -> None:
        if change.after is not None:
            self._book.set_move(change.after)
        else:
            self._book.remove_move(change.key)
        self._changed(change.after or change.before)

    def _see_task(self, change: Change[TaskTerms]) -> None:
        if change.after is not None:
            self._book.set_task(change.after)
        else:
            self._book.remove_task(change.key)
        self._changed(None)
