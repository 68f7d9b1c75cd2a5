"""Waiting for what happens on another thread."""

import asyncio
from collections.abc import Callable
from typing import Final

_SHORTEST_S: Final = 0.002
_LONGEST_S: Final = 0.02
_SHARE: Final = 0.1
"""A wait becomes longer by at most this share of itself. To look takes processor time that others need."""


async def eventually(condition: Callable[[], bool], within_s: float = 30.0) -> None:
    """Returns once `condition` holds.

    Raises:
        TimeoutError: it does not within `within_s`.
    """
    clock = asyncio.get_running_loop().time
    began_s = clock()
    async with asyncio.timeout(within_s):
        while not condition():  # noqa: ASYNC110  the server is on other threads and has no event of this loop
            await asyncio.sleep(min(max(_SHORTEST_S, _SHARE * (clock() - began_s)), _LONGEST_S))
