"""Watching a folder, also where inotify has nothing left."""

import asyncio
import errno
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from watchdog.observers.api import BaseObserver, ObservedWatch
from watchdog.observers.polling import PollingObserver

from accelet.runtime.watch import DirectoryWatcher


async def test_change_wakes(tmp_path: Path) -> None:
    wake = asyncio.Event()
    watcher = DirectoryWatcher()
    watcher.watch(tmp_path, wake)
    (tmp_path / "new").touch()
    async with asyncio.timeout(5):
        await wake.wait()
    watcher.close()


class Exhausted(PollingObserver):
    """An observer that finds no inotify instance left."""

    def schedule(self, *_args: Any, **_options: Any) -> ObservedWatch:
        raise OSError(errno.EMFILE, "inotify instance limit reached")


def make_exhausted() -> BaseObserver:
    """An observer whose watches are used up, as in watchdog 6 its instances."""
    return Exhausted(timeout=0.1)


def make_none() -> BaseObserver:
    """From watchdog 7 on there is no observer at all without an instance."""
    raise OSError(errno.EMFILE, "inotify instance limit reached")


@pytest.mark.parametrize("make_observer", [make_exhausted, make_none])
async def test_exhausted_inotify_leads_to_polling(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, make_observer: Callable[[], BaseObserver]
) -> None:
    wake = asyncio.Event()
    watcher = DirectoryWatcher(make_observer)
    with pytest.raises(OSError, match="No such file"):
        watcher.watch(tmp_path / "missing", asyncio.Event())
    watcher.watch(tmp_path, wake)
    (tmp_path / "new").touch()
    async with asyncio.timeout(5):
        await wake.wait()
    assert "no inotify left" in caplog.text
    watcher.close()


async def test_other_error_is_none_of_exhausted_inotify() -> None:
    def fail() -> BaseObserver:
        raise OSError(errno.EACCES, "not permitted")

    with pytest.raises(OSError, match="not permitted"):
        DirectoryWatcher(fail)


async def test_missing_folder_is_an_error(tmp_path: Path) -> None:
    watcher = DirectoryWatcher()
    with pytest.raises(OSError, match="No such file"):
        watcher.watch(tmp_path / "missing", asyncio.Event())
    watcher.close()
