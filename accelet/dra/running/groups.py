"""Work that is done at once for all who wait for it, so that they share what it costs."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Generic, TypeVar

MOST_TOGETHER: Final = 32
"""Jobs of one group: whoever comes next waits no longer than for so many."""

Job = TypeVar("Job")
Done = TypeVar("Done")


class Groups(Generic[Job, Done]):
    """Has `work` do one group of jobs after another; what comes meanwhile is the next group.

    `work` gives what became of each job, in order. A job is done to its end even where nobody waits for it
    any more: the kubelet gives up calls, and what is half done on disk must not stay so.
    """

    def __init__(self, work: Callable[[Sequence[Job]], Awaitable[Sequence[Done | Exception]]]) -> None:
        self._work = work
        self._waiting: list[tuple[Job, asyncio.Future[Done]]] = []
        self._running: asyncio.Task[None] | None = None

    async def do(self, job: Job) -> Done:
        """What became of the job; raises what `work` gave or raised."""
        future: asyncio.Future[Done] = asyncio.get_running_loop().create_future()
        self._waiting.append((job, future))
        if self._running is None or self._running.done():
            self._running = asyncio.create_task(self._run())
        return await future

    async def _run(self) -> None:
        while self._waiting:
            group, self._waiting = self._waiting[:MOST_TOGETHER], self._waiting[MOST_TOGETHER:]
            try:
                outcomes = await self._work([job for job, _ in group])
            except Exception as error:  # whatever it is, it is for those who asked
                outcomes = [error] * len(group)
            for (_, future), outcome in zip(group, outcomes, strict=True):
                _settle(future, outcome)


def _settle(future: asyncio.Future[Done], outcome: Done | Exception) -> None:
    if future.done():
        return  # whoever asked has given up
    if isinstance(outcome, Exception):
        future.set_exception(outcome)
    else:
        future.set_result(outcome)
