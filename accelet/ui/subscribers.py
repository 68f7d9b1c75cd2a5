"""The browsers that look: each is told of changes, and one that does not keep up gets the whole anew."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from typing import Final

from accelet.kube.watching.silence import Hearing
from accelet.overview.changes import compare, render_event, render_hearing, whole
from accelet.overview.picture import Picture

MOST_SUBSCRIBERS: Final = 16
HEARD_S: Final = 5.0
"""So often is said how long the API server has been silent. By it a browser and a tunnel notice, too, when
the other end is gone.
"""

MOST_PART: Final = 1 << 16
"""So many bytes of a stream are sent at once: a slow browser has its time for each."""


def _nobody_listens() -> Hearing:
    return Hearing(0.0, {})


class Subscribers:
    """The picture of now, and those who are shown it.

    Nobody has a queue: whoever has sent all it had compares the picture that its browser has with the newest.
    A slow one misses what was between, and never holds more than two pictures.
    """

    def __init__(self, hearing: Callable[[], Hearing] = _nobody_listens) -> None:
        """`hearing` says how long the API server has been silent."""
        self._hearing = hearing
        self._picture = Picture()
        self._version = 0
        self._changed = asyncio.Condition()
        self._count = 0
        self._is_over = False

    @property
    def count(self) -> int:
        return self._count

    @contextmanager
    def seated(self) -> Iterator[bool]:
        """Counts one more browser until the end; whether there was room for it."""
        has_room = self._count < MOST_SUBSCRIBERS
        self._count += has_room
        try:
            yield has_room
        finally:
            self._count -= has_room

    async def show(self, picture: Picture) -> None:
        """A new picture, for everybody."""
        async with self._changed:
            if compare(self._picture, picture).is_empty:
                return
            self._picture, self._version = picture, self._version + 1
            self._changed.notify_all()

    async def end(self) -> None:
        """Ends all streams."""
        async with self._changed:
            self._is_over = True
            self._changed.notify_all()

    async def follow(self, heard_s: float = HEARD_S) -> AsyncIterator[bytes]:
        """Server-sent events in parts: the whole picture, then what changes of it, until the end.

        Every `heard_s` it is said, whatever changes, how long the API server has been silent.
        """
        seen, version = self._picture, self._version
        for part in _parts(render_event("picture", whole(seen), version)):
            yield part
        yield render_hearing(self._hearing())
        due_s = time.monotonic() + heard_s
        while not self._is_over:
            has_news = await self._news(version, max(0.0, due_s - time.monotonic()))
            if time.monotonic() >= due_s:
                yield render_hearing(self._hearing())
                due_s = time.monotonic() + heard_s
            if not has_news:
                continue
            newest, version = self._picture, self._version
            change = compare(seen, newest)
            seen = newest
            if not change.is_empty:
                for part in _parts(render_event("change", change, version)):
                    yield part

    async def _news(self, version: int, within_s: float) -> bool:
        """Waits for a newer picture, or the end; whether there is any in time."""
        try:
            async with asyncio.timeout(within_s), self._changed:
                await self._changed.wait_for(lambda: self._version != version or self._is_over)
        except TimeoutError:
            return False
        return True


def _parts(event: bytes) -> Iterator[bytes]:
    return (event[start : start + MOST_PART] for start in range(0, len(event), MOST_PART))
