"""Tasks side by side, out of which one error comes: the first, as itself."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

from accelet.runtime.logs import Log

_log = Log(__name__)


@asynccontextmanager
async def task_group() -> AsyncIterator[asyncio.TaskGroup]:
    """A TaskGroup that raises what its first task failed with, where asyncio's raises a group.

    The first failure cancels the other tasks. What they fail with in turn is logged: nobody else hears it.
    """
    try:
        async with asyncio.TaskGroup() as tasks:
            yield tasks
    except BaseExceptionGroup as group:
        first, *others = _errors(group)
        for other in others:
            _log.error("another task failed as well", error=f"{type(other).__name__}: {other}")
        raise first from first.__cause__


def _errors(group: BaseExceptionGroup[BaseException]) -> Iterator[BaseException]:
    """The errors themselves, in the order in which the tasks failed."""
    for error in group.exceptions:
        if isinstance(error, BaseExceptionGroup):
            yield from _errors(error)
        else:
            yield error
