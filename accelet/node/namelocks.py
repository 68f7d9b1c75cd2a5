"""Locks by name that the processes of a node share: held until given up, or until the holder dies."""

import fcntl
import hashlib
import os
import struct
from collections.abc import Set
from pathlib import Path

UNIT_LOCKS = ".accelet-units"
"""A dot-folder: other names in the kubelet's directory tell it that the node was not recreated."""

_PLACES = 1 << 56
"""Names are locked by their hash: two of a node's have one place less often than its memory fails."""


class NameLocks:
    """Locks of files in one folder, which the kernel takes back when the process dies; never waits.

    A name is a place in one of 256 files: a node may have more units than a process may have files, and
    the kernel takes as long to lock a place as others of the file are locked.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._files: dict[int, _LockFile] = {}

    def lock(self, name: str) -> bool:
        """Whether nobody else has locked the name, so that from here on this object has.

        Raises:
            OSError: there is no place for the file, or its file system has no such locks.
        """
        number, place = _locate(name)
        if number not in self._files:
            self._files[number] = _LockFile(self._folder / f"{number:02x}")
        try:
            return self._files[number].lock(name, place)
        finally:
            self._close_idle(number)

    def unlock(self, name: str) -> None:
        """Gives up a lock that this object has; one that it has lost is given up already."""
        number, place = _locate(name)
        if (file := self._files.get(number)) is not None:
            file.unlock(name, place)
            self._close_idle(number)

    def _close_idle(self, number: int) -> None:
        """Keeps no file open in which nothing is locked."""
        if not self._files[number].names():
            self._files.pop(number).close()

    def renew(self) -> Set[str]:
        """Locks again what was locked in files that somebody has removed or replaced.

        Returns the names that this object has no longer: others have locked them meanwhile, or their file
        cannot be had, which whoever locks one of them is told.
        """
        lost: set[str] = set()
        for number, file in list(self._files.items()):
            held = file.names()
            try:
                lost |= file.renew()
            except OSError:
                lost |= held
                del self._files[number]
                file.close()
        return lost


class _LockFile:
    """The locks of one open file, `F_OFD_SETLK`, which belong to the descriptor and not to the process."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor = self._open()
        self._held: dict[str, int] = {}

    def names(self) -> Set[str]:
        return frozenset(self._held)

    def close(self) -> None:
        """Gives up all locks of the file."""
        os.close(self._descriptor)

    def lock(self, name: str, place: int) -> bool:
        try:
            self._set(fcntl.F_WRLCK, place)
        except BlockingIOError:
            return False
        self._held[name] = place
        return True

    def unlock(self, name: str, place: int) -> None:
        self._set(fcntl.F_UNLCK, place)
        self._held.pop(name, None)

    def renew(self) -> Set[str]:
        if self._is_current():
            return frozenset()
        try:
            fresh = self._open()
        except FileNotFoundError:
            return frozenset()  # the folder's place is gone: nobody else can have a file there either
        os.close(self._descriptor)
        self._descriptor, held, self._held = fresh, self._held, {}
        return {name for name, place in held.items() if not self.lock(name, place)}

    def _open(self) -> int:
        self._path.parent.mkdir(mode=0o700, exist_ok=True)
        return os.open(self._path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)

    def _is_current(self) -> bool:
        try:
            return os.path.samestat(self._path.stat(), os.fstat(self._descriptor))
        except FileNotFoundError:
            return False

    def _set(self, kind: int, place: int) -> None:
        # struct flock: type, whence, start, length, and the process id, which has to be 0.
        lock = struct.pack("hhqqi4x", kind, os.SEEK_SET, place, 1, 0)
        fcntl.fcntl(self._descriptor, fcntl.F_OFD_SETLK, lock)


def _locate(name: str) -> tuple[int, int]:
    """The number of the file, and the place in it."""
    digest = hashlib.sha256(name.encode(errors="surrogatepass")).digest()
    return digest[0], int.from_bytes(digest[1:9], "big") % _PLACES
