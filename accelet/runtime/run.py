"""Runs a process's main coroutine: signals, exit codes, and an end that nothing can hold up."""

import asyncio
import os
import signal
import sys
from collections.abc import Coroutine
from typing import Any, NoReturn

EXIT_OK = 0
EXIT_FAILED = 1
EXIT_SETTINGS = 2


class FatalError(Exception):
    """The process cannot go on; the text says why and what to do."""


def run_until_signal(main: Coroutine[Any, Any, None]) -> int:
    """Runs `main` until it ends or SIGTERM or SIGINT cancels it; returns the exit code.

    Raises:
        FatalError: out of `main`.
    """

    async def supervised() -> int:
        task = asyncio.ensure_future(main)
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, task.cancel)
        try:
            await task
        except asyncio.CancelledError:
            if not task.cancelled():
                raise
        return EXIT_OK

    loop = asyncio.new_event_loop()
    return loop.run_until_complete(supervised())


def exit_now(code: int) -> NoReturn:
    """Ends the process without waiting for threads: one may hang in a read of a dead device's file."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
