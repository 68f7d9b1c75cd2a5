"""One scan of the host for all resources that need the same."""

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, Generic, Protocol, TypeVar, cast

T = TypeVar("T")

_MOST_KEPT: Final = 256
"""More than there are resources: makers are those of settings, which may be changed again and again."""

HostScan = Callable[[Path], T]
"""Reads the host below a root folder."""


class ScanCache(Protocol):
    """Gives all who name the same maker one scan between them, whose result may be a moment old."""

    def __call__(self, make: Callable[[], HostScan[T]], /) -> HostScan[T]: ...


def uncached(make: Callable[[], HostScan[T]], /) -> HostScan[T]:
    """A `ScanCache` that keeps nothing: every scan reads the host."""
    return make()


class CachedScans:
    """Scans of one root, each of whose results serves whoever asks within `fresh_s` seconds of its beginning.

    Safe for use by several threads: the second waits for the first.
    """

    def __init__(self, fresh_s: float) -> None:
        self._fresh_s = fresh_s
        self._scans: dict[Callable[[], HostScan[Any]], HostScan[Any]] = {}

    def cached(self, make: Callable[[], HostScan[T]], /) -> HostScan[T]:
        """Implements `ScanCache`."""
        if make not in self._scans:
            if len(self._scans) == _MOST_KEPT:
                del self._scans[next(iter(self._scans))]  # whoever scans with it goes on
            self._scans[make] = _CachedScan(make(), self._fresh_s)
        return cast(HostScan[T], self._scans[make])


class _CachedScan(Generic[T]):
    def __init__(self, scan: HostScan[T], fresh_s: float) -> None:
        self._scan = scan
        self._fresh_s = fresh_s
        self._lock = threading.Lock()
        self._last: tuple[float, T] | None = None

    def __call__(self, root: Path) -> T:
        with self._lock:
            began = time.monotonic()
            if self._last is None or began - self._last[0] > self._fresh_s:
                self._last = began, self._scan(root)
            return self._last[1]
