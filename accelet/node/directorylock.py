"""One agent at a time serves from the kubelet's directory."""

import asyncio
import contextlib
import fcntl
import os
from collections.abc import AsyncIterator
from pathlib import Path

from accelet.runtime.failing import Failing
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
        waiting = Failing(
            _log,
            "another agent serves this node; waiting for it to end",
            "the other agent has ended",
            named="directory",
        )
        while not _try_lock(descriptor):
            waiting.failed(directory)
            await asyncio.sleep(_LOOK_S)
        waiting.worked()
        yield
    finally:
        os.close(descriptor)


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
