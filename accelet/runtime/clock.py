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


SYSTEM_CLOCK: Clock = SystemClock()
"""The machine's own; it has no state."""


async def within(clock: Clock, seconds: float, call: Coroutine[Any, Any, R]) -> R:
    """What `call` returns.

    Raises:
        TimeoutError: it took longer than `seconds` by `clock`, and was cancelled.
    """
    if isinstance(clock, SystemClock):  # needs no tasks
        return await _within(seconds, call)
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


async def _within(seconds: float, call: Coroutine[Any, Any, R]) -> R:
    try:
        async with asyncio.timeout(seconds) as deadline:
            return await call
    except TimeoutError:
        if not deadline.expired():
            raise
        raise TimeoutError(f"not done within {seconds:g} s") from None
