"""One agent at a time serves from the kubelet's directory."""

import asyncio
import contextlib
import fcntl
import os
from collections.abc import AsyncIterator
from pathlib import Path

from accelet.runtime.logs import Log

LOCK_NAME = ".accelet.lock"
"""A dot-file: other names in the directory tell the kubelet that the node was not recreated."""

_LOOK_S = 0.2

_log = Log(__name__)


@contextlib.asynccontextmanager
async def lock_directory(directory: Path) -> AsyncIterator[None]:
    """Waits until no other agent serves from `directory`; locked until the block or the process ends.

    gRPC's C core takes over another server's socket path without a word, so nothing else would tell.

    Raises:
        OSError: the lock file cannot be made.
    """
    descriptor = os.open(directory / LOCK_NAME, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        is_waiting = False
        while not _try_lock(descriptor):
            if not is_waiting:
                is_waiting = True
                _log.warning(
                    "another agent serves this node; waiting for it to end", directory=str(directory)
                )
            await asyncio.sleep(_LOOK_S)
        if is_waiting:
            _log.info("the other agent has ended")
        yield
    finally:
        os.close(descriptor)


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
