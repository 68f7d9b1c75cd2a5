"""Every point at which the agent waits, counted over all its tasks: the places where it can be killed."""

import asyncio
import contextvars
import inspect
import os
import signal
import types
from collections.abc import Callable, Coroutine, Generator
from pathlib import Path
from typing import Any
from weakref import WeakSet

import accelet
import deviceplugin
import resourcemanager

_OURS = tuple(
    str(Path(package.__file__ or "").parent) for package in (accelet, deviceplugin, resourcemanager)
)

_owner: contextvars.ContextVar["Suspensions | None"] = contextvars.ContextVar("owner", default=None)


class Suspensions:
    """Counts the suspensions of one coroutine and of all tasks that come of it; at one it calls `reached`.

    `where` is what the tasks waited in, in order. `tasks` are all of them, `own_tasks` those that run code of
    ours and not of a library.
    """

    def __init__(self, at: int, reached: Callable[[], object]) -> None:
        self._at = at
        self._reached = reached
        self.where: list[str] = []
        self.tasks: WeakSet[asyncio.Task[Any]] = WeakSet()
        self.own_tasks: WeakSet[asyncio.Task[Any]] = WeakSet()

    def start(self, main: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Runs `main` in a task; its loop must have `counting_tasks` for a factory."""
        context = contextvars.copy_context()
        context.run(_owner.set, self)
        return context.run(asyncio.create_task, main)

    def waiting(self) -> list[str]:
        """Where each task of ours is now."""
        return [_describe(task.get_coro()) for task in self.own_tasks if not task.done()]

    @types.coroutine
    def counted(self, work: Coroutine[Any, Any, Any]) -> Generator[Any, Any, Any]:
        """`work`, as far as anybody can tell."""
        value: Any = None
        error: BaseException | None = None
        while True:
            try:
                waited_for = work.send(value) if error is None else work.throw(error)
            except StopIteration as done:
                return done.value
            self.where.append(_describe(work))
            if len(self.where) == self._at:
                self._reached()
            value, error = None, None
            try:
                value = yield waited_for
            except BaseException as thrown:  # handed on, as the event loop meant it
                error = thrown


def counting_tasks(
    loop: asyncio.AbstractEventLoop,
    work: Coroutine[Any, Any, Any] | Generator[Any, None, Any],
    **options: Any,
) -> asyncio.Task[Any]:
    """A task factory under which `Suspensions` sees the tasks that are its own."""
    suspensions = _owner.get()
    if suspensions is None or not isinstance(work, Coroutine):
        return asyncio.Task(work, loop=loop, **options)
    task: asyncio.Task[Any] = asyncio.Task(_as_coroutine(suspensions, work), loop=loop, **options)
    task.add_done_callback(lambda _: work.close())  # one that was cancelled before it began, too
    suspensions.tasks.add(task)
    if _is_ours(work):
        suspensions.own_tasks.add(task)
    return task


def _is_ours(work: Coroutine[Any, Any, Any]) -> bool:
    code = getattr(work, "cr_code", None)
    return code is not None and code.co_filename.startswith(_OURS)


async def _as_coroutine(suspensions: Suspensions, work: Coroutine[Any, Any, Any]) -> Any:
    return await suspensions.counted(work)


def _describe(work: Any) -> str:
    """The innermost line of ours that waits in a coroutine."""
    found, inner = str(work.__qualname__), work
    while True:
        if inspect.isgenerator(inner):  # that of `counted`
            inner = inner.gi_frame.f_locals.get("work") if inner.gi_frame else None
        frame = getattr(inner, "cr_frame", None)
        if frame is None:
            return found
        if frame.f_code.co_filename.startswith(_OURS):
            found = f"{frame.f_code.co_qualname}:{frame.f_lineno}"
        inner = inner.cr_await


async def kill_at(at: int, main: Coroutine[Any, Any, None]) -> None:
    """Runs `main` until this process kills itself at its `at`-th suspension."""
    asyncio.get_running_loop().set_task_factory(counting_tasks)
    await Suspensions(at, lambda: os.kill(os.getpid(), signal.SIGKILL)).start(main)
