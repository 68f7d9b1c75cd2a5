"""How far a watch has come, for those who wait until it has."""

import asyncio
from collections.abc import Callable

from accelet.kube.watching.store import precedes
from accelet.runtime.waiting import wait_for_hint


class WatchPosition:
    """The version up to which a watch has shown everything; plain, on one event loop."""

    def __init__(self) -> None:
        self._version = ""
        self._waiting: dict[asyncio.Event, Callable[[], bool]] = {}

    @property
    def version(self) -> str:
        """Empty before there is a watch."""
        return self._version

    def advance(self, resource_version: str) -> None:
        """The watch has come to here; lower than before where the API server was restored from a backup."""
        self._version = resource_version
        for hint, is_awaited in self._waiting.items():
            if is_awaited():
                hint.set()

    def has_reached(self, resource_version: str) -> bool:
        """Whether it is known that what happened up to this version was shown."""
        return precedes(resource_version, self._version, or_equals=True)

    async def reached(self, resource_version: str, within_s: float) -> bool:
        """Waits until that is so, `within_s` seconds at most; whether it is."""
        return await self.until(lambda: self.has_reached(resource_version), within_s)

    async def until(self, is_awaited: Callable[[], bool], within_s: float) -> bool:
        """Waits until the watch has made something so, `within_s` seconds at most; whether it has."""
        if is_awaited():
            return True
        hint = asyncio.Event()
        self._waiting[hint] = is_awaited
        try:
            return await wait_for_hint(hint, within_s)
        finally:
            del self._waiting[hint]
