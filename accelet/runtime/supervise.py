"""Starts a task again when it fails by a fault of its own."""

import asyncio
from collections.abc import Awaitable, Callable

from accelet.runtime.backoff import Backoff
from accelet.runtime.logs import Log

_log = Log(__name__)


async def supervise(
    name: str,
    run: Callable[[], Awaitable[None]],
    failed: Callable[[], None],
    *,
    first_wait_s: float = 1.0,
) -> None:
    """Runs `run` until it returns; a fault is logged with its cause, told to `failed`, and run again.

    One resource's fault must not take the others from the kubelet, and must not go unseen either.
    """
    backoff = Backoff(first_s=first_wait_s, most_s=60.0)
    while True:
        try:
            await run()
        except Exception:  # whatever it is, it is a fault of ours in this one task
            _log.exception("fault; starting again", task=name, wait_s=backoff.wait_s)
            failed()
            await asyncio.sleep(backoff.wait_s)
            backoff = backoff.failed()
        else:
            return
