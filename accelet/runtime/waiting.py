"""Waits that end: for a hint or a time, and until something works."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TypeVar

from accelet.runtime.backoff import Backoff
from accelet.runtime.clock import SYSTEM_CLOCK, Clock, within

R = TypeVar("R")
E = TypeVar("E", bound=Exception)


async def wait_for_hint(hint: asyncio.Event, at_most_s: float | None, clock: Clock = SYSTEM_CLOCK) -> bool:
    """Whether `hint` was set within `at_most_s`, or already; waits without end where that is None.

    Clears nothing: whoever takes the hint clears it before looking at what it is about.
    """
    if hint.is_set():
        return True
    with suppress(TimeoutError):
        if at_most_s is None:
            await hint.wait()
        else:
            await within(clock, at_most_s, hint.wait())
    return hint.is_set()


def left_s(due_s: float | None, now_s: float) -> float | None:
    """How long to wait for what is due at `due_s`, not less than nothing; None for what never is."""
    return None if due_s is None else max(0.0, due_s - now_s)


async def until_it_works(
    call: Callable[[], Awaitable[R]],
    expected: type[E],
    failed: Callable[[E, float], None],
    *,
    backoff: Backoff,
    clock: Clock = SYSTEM_CLOCK,
) -> R:
    """What `call` returns, called again after each `expected` error and a wait; other errors are raised.

    `failed` is told each error and the seconds until the next try.
    """
    while True:
        try:
            return await call()
        except expected as error:
            failed(error, backoff.wait_s)
        await clock.sleep(backoff.wait_s)
        backoff = backoff.failed()
