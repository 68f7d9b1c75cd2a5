"""The driver's record of prepared claims and their CDI files, on disk.

Both are read and written only under the lock, which two agents of a rolling update share; nothing is
remembered between, since the other one may have changed it.
"""

import asyncio
import fcntl
import os
import time
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TypeVar

from accelet.dra.errors import NotYetError, StateError
from accelet.dra.preparing.cdi import file_name, file_prefix
from accelet.dra.preparing.checkpoint import LARGEST, read_checkpoint, render_checkpoint
from accelet.dra.preparing.entry import Entry
from accelet.dra.running.places import Places
from accelet.runtime.statefile import read_whole, remove_temporaries, remove_whole, write_whole

LOCK_S = 20.0
"""How long another agent may keep the record before a call is refused."""

_LOCK_LOOK_S = 0.02
_CDI_MODE = 0o644
_LARGEST_CDI = 1 << 20

Entries = Mapping[tuple[str, str], Entry]

T = TypeVar("T")


class ClaimRecords:
    """What one driver has prepared. Every method but `locked` blocks on files and needs the lock."""

    def __init__(self, places: Places) -> None:
        self._places = places
        self._turn = asyncio.Lock()

    @asynccontextmanager
    async def locked(self) -> AsyncIterator[None]:
        """Alone with the record, in this process and among processes.

        Raises:
            NotYetError: somebody else keeps it for too long.
            StateError: its lock cannot be opened.
        """
        deadline = time.monotonic() + LOCK_S
        async with self._turn:
            try:
                descriptor = await asyncio.to_thread(_open_lock, self._places.lock)
            except OSError as error:
                raise StateError(
                    f"the lock of the record of prepared claims cannot be opened: {error.strerror}"
                ) from error
            try:
                while not _try_lock(descriptor):
                    if time.monotonic() > deadline:
                        raise NotYetError("another agent of this node keeps the record of prepared claims")
                    await asyncio.sleep(_LOCK_LOOK_S)
                yield
            finally:
                os.close(descriptor)

    async def do(self, work: Callable[[], T]) -> T:
        """Does `work`, which may block on files, alone with the record.

        Work that was begun is waited for even by whoever is cancelled: until its end nobody else may begin.

        Raises:
            NotYetError: somebody else keeps the record for too long.
        """
        async with self.locked():
            doing = asyncio.get_running_loop().run_in_executor(None, work)
            try:
                return await asyncio.shield(doing)
            except asyncio.CancelledError:
                while not doing.done():
                    with suppress(asyncio.CancelledError):
                        await asyncio.wait([doing])
                raise

    def read(self) -> Entries:
        """All entries.

        Raises:
            StateError: the record is damaged, or cannot be read.
        """
        try:
            text = read_whole(self._places.checkpoint, LARGEST)
        except OSError as error:
            raise StateError(f"the record of prepared claims cannot be read: {error.strerror}") from error
        return {} if text is None else {entry.key: entry for entry in read_checkpoint(text)}

    def write(self, entries: Entries) -> None:
        """Puts the record on disk.

        Raises:
            StateError: it cannot be written, or would be too large to be read.
        """
        text = render_checkpoint(entries.values())
        if len(text) > LARGEST:  # which nobody would read again
            raise StateError(f"the record of prepared claims would be larger than {LARGEST} bytes")
        try:
            write_whole(self._places.checkpoint, text)
        except OSError as error:
            raise StateError(f"the record of prepared claims cannot be written: {error.strerror}") from error

    def write_cdi(self, entries: Collection[Entry]) -> int:
        """Makes the CDI files of these entries what they must be; how many were not.

        Raises:
            StateError: one cannot be written.
        """
        written = 0
        for entry in entries:
            path, content = self._cdi_path(entry), entry.cdi.encode()
            try:
                if read_whole(path, _LARGEST_CDI) != content:
                    path.parent.mkdir(parents=True, exist_ok=True)
                    write_whole(path, content, _CDI_MODE)
                    written += 1
            except OSError as error:
                raise StateError(f"the CDI file {path} cannot be written: {error.strerror}") from error
        return written

    def remove_cdi(self, entries: Collection[Entry]) -> None:
        """Removes the CDI files of these entries.

        Raises:
            StateError: one cannot be removed.
        """
        for entry in entries:
            try:
                remove_whole(self._cdi_path(entry))
            except OSError as error:
                path = self._cdi_path(entry)
                raise StateError(f"the CDI file {path} cannot be removed: {error.strerror}") from error

    def remove_cdi_of(self, uids: Collection[str]) -> None:
        """Removes all CDI files of these claims, by UID, whatever the record says of them.

        Raises:
            StateError: one cannot be removed.
        """
        prefix = file_prefix(self._places.driver)
        for path in sorted(self._places.cdi.glob(f"{prefix}*.json")):
            uid, _, _ = path.stem.removeprefix(prefix).rpartition("-")
            if uid not in uids:
                continue
            try:
                remove_whole(path)
            except OSError as error:
                raise StateError(f"the CDI file {path} cannot be removed: {error.strerror}") from error

    def sweep(self, entries: Entries) -> list[str]:
        """Removes CDI files of this driver that no entry has; their names.

        Raises:
            StateError: one cannot be removed.
        """
        prefix = file_prefix(self._places.driver)
        known = {self._cdi_path(entry) for entry in entries.values()}
        found = [path for path in sorted(self._places.cdi.glob(f"{prefix}*.json")) if path not in known]
        try:
            for path in found:
                path.unlink(missing_ok=True)
            remove_temporaries(self._places.cdi, prefix)
            remove_temporaries(self._places.folder, self._places.checkpoint.name)
        except OSError as error:
            raise StateError(f"files that no claim has cannot be removed: {error.strerror}") from error
        return [path.name for path in found]

    def _cdi_path(self, entry: Entry) -> Path:
        return self._places.cdi / file_name(self._places.driver, entry.uid, entry.digest)


def _open_lock(path: Path) -> int:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o750)
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
