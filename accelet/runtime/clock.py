"""Time, so that tests can have their own."""

import asyncio
import time
from collections.abc import Coroutine
from typing import Any, Protocol, TypeVar

R = TypeVar("R")


class Clock(Protocol):
    """A clock that only goes forward, in seconds, and a way to wait by it."""

    def now_s(self) -> float: ...

    async def sleep(self, seconds: float) -> None: ...


class SystemClock:
    def now_s(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


async def within(clock: Clock, seconds: float, call: Coroutine[Any, Any, R]) -> R:
    """What `call` returns.

    Raises:
        TimeoutError: it took longer than `seconds` by `clock`, and was cancelled.
    """
    work = asyncio.ensure_future(call)
    timer = asyncio.ensure_future(clock.sleep(seconds))
    try:
        await asyncio.wait({work, timer}, return_when=asyncio.FIRST_COMPLETED)
        if work.done():
            return work.result()
        raise TimeoutError(f"not done within {seconds:g} s")
    finally:
        work.cancel()
        timer.cancel()


async def wait_for_event(clock: Clock, event: asyncio.Event, at_most_s: float | None) -> None:
    """Returns once `event` is set, or after `at_most_s` by `clock`."""
    if at_most_s is None:
        await event.wait()
        return
    is_set = asyncio.ensure_future(event.wait())
    timer = asyncio.ensure_future(clock.sleep(at_most_s))
    try:
        await asyncio.wait({is_set, timer}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        is_set.cancel()
        timer.cancel()
