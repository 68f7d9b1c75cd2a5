"""Watching a folder, also where inotify has nothing left."""

import asyncio
import errno
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


async def test_exhausted_inotify_leads_to_polling(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    wake = asyncio.Event()
    observer: BaseObserver = Exhausted(timeout=0.1)
    watcher = DirectoryWatcher(observer)
    watcher.watch(tmp_path, wake)
    (tmp_path / "new").touch()
    async with asyncio.timeout(5):
        await wake.wait()
    assert "no inotify left" in caplog.text
    watcher.close()


async def test_missing_folder_is_an_error(tmp_path: Path) -> None:
    watcher = DirectoryWatcher()
    with pytest.raises(OSError, match="No such file"):
        watcher.watch(tmp_path / "missing", asyncio.Event())
    watcher.close()
