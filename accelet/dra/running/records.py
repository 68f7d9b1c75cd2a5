"""The driver's record of prepared claims and their CDI files, on disk.

Both are read and written only under the lock, which two agents of a rolling update share. What was read is
remembered as long as the file is the same one: the other agent may have changed it.

The record survives a loss of power. CDI files need not: on a node that was started anew every claim is
prepared anew before a container has it.
"""

import asyncio
import fcntl
import os
import time
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from accelet.dra.errors import NotYetError, StateError
from accelet.dra.preparing.cdi import file_name, file_prefix
from accelet.dra.preparing.checkpoint import (
    LARGEST,
    Fields,
    RecordContent,
    read_record,
    render_change,
    render_checkpoint,
)
from accelet.dra.preparing.claimtable import ClaimTable
from accelet.dra.preparing.entry import Entry, EntryKey
from accelet.dra.running.places import Places
from accelet.runtime.logs import Log
from accelet.runtime.statefile import append_whole, read_whole, remove_temporaries, write_whole

LOCK_S = 20.0
"""How long another agent may keep the record before a call is refused."""

_LOCK_LOOK_S = 0.02
_CDI_MODE = 0o644
_LARGEST_CDI = 1 << 20

_LEAST_CHANGES = 64 * 1024
"""Bytes of changes that are always left in the record before it is written anew."""

_log = Log(__name__)
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Read:
    """What the record said, and the file that said it."""

    record: RecordContent
    file: tuple[int, ...]
    size: int


class ClaimRecords:
    """What one driver has prepared. Every method but `locked` blocks on files and needs the lock."""

    def __init__(self, places: Places) -> None:
        self._places = places
        self._turn = asyncio.Lock()
        self._known: _Read | None = None

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

    def read(self) -> ClaimTable:
        """All claims that are prepared; not to be changed, but for a copy of them.

        Raises:
            StateError: the record is damaged, or cannot be read.
        """
        return self._read().record.entries

    def write(self, entries: ClaimTable, *, is_synced: bool = True) -> None:
        """Puts the record on disk, by what has changed since it was read.

        From then on `entries` stay as they are. A write that is not synced may be undone by a loss of power.

        Raises:
            StateError: it cannot be written, or would be too large to be read.
        """
        known = self._read()
        change = render_change(*entries.changes_from(known.record.entries))
        size, begin = known.size + len(change), known.record.begin_bytes
        if not known.record.is_open or size > min(begin + max(begin, _LEAST_CHANGES), LARGEST):
            self._begin_anew(entries, known.record.rest)
            return
        try:
            found = append_whole(self._places.checkpoint, change, is_synced=is_synced)
        except OSError as error:
            raise self._unwritten(error) from error
        self._known = _Read(replace(known.record, entries=entries), _identity(found), found.st_size)

    def settle(self) -> None:
        """Puts the record on disk as versions of accelet read it that know no changes.

        Raises:
            StateError: it cannot be read or written.
        """
        record = self._read().record
        if record.is_open or record.cut_bytes:
            self._begin_anew(record.entries, record.rest, is_open=False)

    def _read(self) -> _Read:
        path, known = self._places.checkpoint, self._known
        try:
            file = _identity(path.stat())
            if known is not None and known.file == file:
                return known
            text = read_whole(path, LARGEST)
        except FileNotFoundError:
            return _Read(RecordContent(), (), 0)
        except OSError as error:
            raise StateError(f"the record of prepared claims cannot be read: {error.strerror}") from error
        record = read_record(text or b"")
        if record.cut_bytes:
            _log.warning("the last change of a record was cut short", driver=self._places.driver)
        self._known = _Read(record, file, len(text or b""))
        return self._known

    def _begin_anew(self, entries: ClaimTable, rest: Fields, *, is_open: bool = True) -> None:
        text = render_checkpoint(entries.values(), rest, is_open=is_open)
        if len(text) > LARGEST:  # which nobody would read again
            raise StateError(f"the record of prepared claims would be larger than {LARGEST} bytes")
        try:
            write_whole(self._places.checkpoint, text)
            found = self._places.checkpoint.stat()
        except OSError as error:
            raise self._unwritten(error) from error
        record = RecordContent(entries, rest, len(text), is_open)
        self._known = _Read(record, _identity(found), len(text))

    def _unwritten(self, error: OSError) -> StateError:
        self._known = None
        return StateError(f"the record of prepared claims cannot be written: {error.strerror}")

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
                    write_whole(path, content, _CDI_MODE, is_synced=False)
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
                self._cdi_path(entry).unlink(missing_ok=True)
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
                path.unlink(missing_ok=True)
            except OSError as error:
                raise StateError(f"the CDI file {path} cannot be removed: {error.strerror}") from error

    def sweep(self, entries: Mapping[EntryKey, Entry]) -> list[str]:
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


def _identity(found: os.stat_result) -> tuple[int, ...]:
    """What differs for any file that takes the record's place, and for the record once it has changed."""
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


def _open_lock(path: Path) -> int:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o750)
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
