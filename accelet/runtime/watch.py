"""Wakes the event loop when a directory changes."""

import asyncio
import errno
import threading
from collections.abc import Callable
from pathlib import Path

from watchdog.events import (
    DirCreatedEvent,
    DirDeletedEvent,
    DirMovedEvent,
    FileCreatedEvent,
    FileDeletedEvent,
    FileModifiedEvent,
    FileMovedEvent,
    FileSystemEvent,
    FileSystemEventHandler,
)
from watchdog.observers import Observer
from watchdog.observers.api import BaseObserver
from watchdog.observers.polling import PollingObserver

from accelet.runtime.logs import Log

POLL_S = 1.0

_KINDS: list[type[FileSystemEvent]] = [
    DirCreatedEvent,
    DirDeletedEvent,
    DirMovedEvent,
    FileCreatedEvent,
    FileDeletedEvent,
    FileModifiedEvent,
    FileMovedEvent,
]
_INOTIFY_EXHAUSTED = (errno.EMFILE, errno.ENOSPC, errno.ENFILE)

_log = Log(__name__)


class DirectoryWatcher:
    """One observer for the whole process; where inotify has nothing left it polls instead.

    What it says is a hint: whoever waits looks at the directory again, and now and then without a hint.
    """

    def __init__(self, make_observer: Callable[[], BaseObserver] = Observer) -> None:
        """`make_observer` makes what watches, and may raise OSError where nothing is left to watch with."""
        self._loop = asyncio.get_running_loop()
        self._observer: BaseObserver | None = None
        self._polling: BaseObserver | None = None
        try:
            self._observer = make_observer()  # from watchdog 7 on this takes the inotify instance
        except OSError as error:
            self._poll_instead(error)
        else:
            self._observer.start()

    def watch(self, directory: Path, wake: asyncio.Event) -> None:
        """Sets `wake` whenever an entry of `directory` appears, vanishes or changes.

        Raises:
            OSError: there is no such directory.
        """
        handler = _Wake(self._loop, wake)
        if self._observer is not None:
            try:
                self._observer.schedule(handler, str(directory), event_filter=_KINDS)
            except OSError as error:
                self._poll_instead(error)
            else:
                return
        assert self._polling is not None
        self._polling.schedule(handler, str(directory), event_filter=_KINDS)

    def _poll_instead(self, error: OSError) -> None:
        """Looks again and again where inotify has nothing left.

        Raises:
            OSError: it is another error.
        """
        if error.errno not in _INOTIFY_EXHAUSTED:
            raise error
        if self._polling is None:
            _log.warning(
                "no inotify left, polling instead; raise fs.inotify.max_user_instances", error=str(error)
            )
            self._polling = PollingObserver(timeout=POLL_S)
            self._polling.start()

    def close(self) -> None:
        """Tells the observers to end, which takes up to a second, for which nobody needs to wait."""
        for observer in (self._observer, self._polling):
            if observer is not None:
                threading.Thread(target=observer.stop, name="observer end", daemon=True).start()


class _Wake(FileSystemEventHandler):
    def __init__(self, loop: asyncio.AbstractEventLoop, wake: asyncio.Event) -> None:
        self._loop = loop
        self._wake = wake

    def on_any_event(self, event: FileSystemEvent) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._wake.set)
