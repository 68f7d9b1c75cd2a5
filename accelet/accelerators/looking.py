"""One look at the host for all resources that look for the same."""

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar, cast

T = TypeVar("T")

Look = Callable[[Path], T]
"""Reads the host below a root folder."""


class Share(Protocol):
    """Gives whoever names the same maker of looks the same look, which may have been made just before."""

    def __call__(self, make: Callable[[], Look[T]], /) -> Look[T]: ...


def alone(make: Callable[[], Look[T]], /) -> Look[T]:
    """Shares with nobody: whoever looks, looks anew."""
    return make()


class SharedLooks:
    """Looks at one root whose results serve everyone who asks within `fresh_s` seconds of their beginning.

    Safe for use by several threads: who comes second waits for the first.
    """

    def __init__(self, fresh_s: float) -> None:
        self._fresh_s = fresh_s
        self._shared: dict[Callable[[], Look[Any]], Look[Any]] = {}

    def share(self, make: Callable[[], Look[T]], /) -> Look[T]:
        if make not in self._shared:
            self._shared[make] = _SharedLook(make(), self._fresh_s)
        return cast(Look[T], self._shared[make])


class _SharedLook(Generic[T]):
    def __init__(self, look: Look[T], fresh_s: float) -> None:
        self._look = look
        self._fresh_s = fresh_s
        self._lock = threading.Lock()
        self._last: tuple[float, T] | None = None

    def __call__(self, root: Path) -> T:
        with self._lock:
            began = time.monotonic()
            if self._last is None or began - self._last[0] > self._fresh_s:
                self._last = began, self._look(root)
            return self._last[1]
