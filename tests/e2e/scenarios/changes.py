"""What inotify tells of a kubelet's folder: how the files come that plugins watch for."""

import asyncio
from pathlib import Path

from watchdog.events import FileCreatedEvent, FileDeletedEvent, FileMovedEvent, FileSystemEvent
from watchdog.events import FileSystemEventHandler as Handler
from watchdog.observers import Observer

SENTINEL = ".end-of-watching"
WAIT_S = 10.0


class FolderChanges(Handler):
    """Listens from when it is made until `end`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._loop = asyncio.get_running_loop()
        self._told: list[FileSystemEvent] = []
        self._is_over = asyncio.Event()
        self._observer = Observer()
        kinds: list[type[FileSystemEvent]] = [FileCreatedEvent, FileDeletedEvent, FileMovedEvent]
        self._observer.schedule(self, str(folder), event_filter=kinds)
        self._observer.start()

    def on_any_event(self, event: FileSystemEvent) -> None:
        # inotify keeps the order, so everything that was done before the sentinel has been told by then.
        if Path(str(event.src_path)).name == SENTINEL:
            self._loop.call_soon_threadsafe(self._is_over.set)
        else:
            self._told.append(event)

    async def end(self, each_of: str, kinds_of: str) -> list[str]:
        """A sentence for each change of the file `each_of`, and for each kind of change of `kinds_of`."""
        sentinel = self._folder / SENTINEL
        sentinel.touch()
        await asyncio.wait_for(self._is_over.wait(), WAIT_S)
        sentinel.unlink()
        self._observer.stop()
        told = [_sentence(event) for event in self._told]
        changes = [sentence for sentence, name in told if name == each_of]
        return changes + sorted({sentence for sentence, name in told if name == kinds_of})


def _sentence(event: FileSystemEvent) -> tuple[str, str]:
    source, target = Path(str(event.src_path)), Path(str(event.dest_path))
    if isinstance(event, FileMovedEvent):
        hidden = "a file with a dot" if source.name.startswith(".") else source.name
        return f"{hidden} was renamed to {target.name}", target.name
    return f"{source.name} was {event.event_type}", source.name
