"""Watches Moves and GPUTasks, where the cluster has these kinds."""

import asyncio
from collections.abc import Callable
from typing import Protocol

from accelet.kinds.gputask import GPU_TASKS
from accelet.kinds.move import MOVES, Move, parse_move
from accelet.kube.errors import KubeError
from accelet.kube.served import ListApi, is_served
from accelet.kube.watching.reflector import Reflector
from accelet.kube.watching.source import Scope, Source
from accelet.kube.watching.store import Change
from accelet.runtime.clock import SYSTEM_CLOCK, Clock
from accelet.runtime.supervise import supervise
from accelet.runtime.tasks import task_group
from accelet.scheduler.moves.book import MoveBook
from accelet.scheduler.moves.tasks import TaskTerms, parse_terms

_LOOK_AGAIN_S = 60.0
_UNSEEN = "objects of this kind are not seen, and no task is moved"


class MoveApi(Source, ListApi, Protocol):
    """The requests it takes; `accelet.kube.client.Client` is one."""


class MoveWatching:
    """The reflectors. `changed` is told of each Move that came, changed or went, and of tasks with None."""

    def __init__(
        self,
        api: MoveApi,
        book: MoveBook,
        *,
        changed: Callable[[Move | None], None],
        failed: Callable[[KubeError], None],
        fault: Callable[[], None],
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._api, self._book, self._changed, self._failed = api, book, changed, failed
        self._fault, self._clock = fault, clock
        self._moves = Reflector(api, Scope(MOVES), parse_move, changed=self._see_move, failed=failed)
        self._tasks = Reflector(api, Scope(GPU_TASKS), parse_terms, changed=self._see_task, failed=failed)
        self._is_served = False
        self._has_looked = asyncio.Event()

    @property
    def is_synced(self) -> bool:
        """Whether both have been seen once, or it is known that the cluster has no such kinds."""
        reflectors = (self._moves, self._tasks)
        return self._has_looked.is_set() and (not self._is_served or all(one.is_synced for one in reflectors))

    async def run(self) -> None:
        """Watches until it is cancelled, from when the cluster has both kinds."""
        while not await self._has_kinds():
            self._has_looked.set()
            await self._clock.sleep(_LOOK_AGAIN_S)
        self._is_served = True
        self._has_looked.set()
        async with task_group() as group:
            for name, run in (("moves", self._moves.run), ("tasks", self._tasks.run)):
                task = f"watch of {name}"
                group.create_task(supervise(task, run, self._fault), name=task)

    async def _has_kinds(self) -> bool:
        for resource in (MOVES, GPU_TASKS):
            if not await is_served(self._api, resource, self._failed, unseen=_UNSEEN, clock=self._clock):
                return False
        return True

    async def synced(self) -> None:
        """Waits until everything that there is has been seen once."""
        await self._has_looked.wait()
        if self._is_served:
            await self._moves.synced()
            await self._tasks.synced()

    async def refresh(self) -> None:
        """Brings the book up to date; what a former leader wrote last is in it then.

        Raises:
            KubeError: the API server did not answer.
        """
        if self._is_served:
            await self._moves.refresh()
            await self._tasks.refresh()

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
