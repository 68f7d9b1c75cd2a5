"""Waiting for what happens on another thread."""

import asyncio
from collections.abc import Callable


async def eventually(condition: Callable[[], bool], within_s: float = 30.0) -> None:
    """Returns once `condition` holds.

    Raises:
        TimeoutError: it does not within `within_s`.
    """
    async with asyncio.timeout(within_s):
        while not condition():  # noqa: ASYNC110  the server is on other threads and has no event of this loop
            await asyncio.sleep(0.002)
