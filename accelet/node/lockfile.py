"""Locks by name that processes of one node share: places in one file, held until the holder ends or dies."""

import fcntl
import hashlib
import os
import struct
from pathlib import Path

UNIT_LOCKS = ".accelet-units.lock"
"""A dot-file: other names in the kubelet's directory tell it that the node was not recreated."""

_PLACES = 1 << 62
"""Names are locked by their hash: two of a node's have one place less often than its memory fails."""


class LockFile:
    """Locks of the open file, which the kernel takes back when the process dies; never waits.

    One descriptor for all: a node may have more units than a process may have files. The locks are those of
    `fcntl`'s `F_OFD_SETLK`, which belong to this object alone and not to the process.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor: int | None = None

    def open(self) -> bool:
        """Opens the file, or the one that has taken its place; whether it did, so that nothing is locked.

        A file whose folder is gone stays the one that is used until there is a folder again.

        Raises:
            OSError: there is no file yet and none can be made.
        """
        if self._is_current():
            return False
        try:
            fresh = os.open(self._path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
        except FileNotFoundError:
            if self._descriptor is None:
                raise
            return False
        self.close()
        self._descriptor = fresh
        return True

    def lock(self, name: str) -> bool:
        """Whether nobody else has locked the name, so that from here on this object has.

        Raises:
            OSError: the file system has no such locks.
        """
        try:
            self._set(fcntl.F_WRLCK, name)
        except BlockingIOError:
            return False
        return True

    def unlock(self, name: str) -> None:
        self._set(fcntl.F_UNLCK, name)

    def close(self) -> None:
        """Gives up all locks."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _is_current(self) -> bool:
        if self._descriptor is None:
            return False
        try:
            return os.path.samestat(self._path.stat(), os.fstat(self._descriptor))
        except FileNotFoundError:
            return False

    def _set(self, kind: int, name: str) -> None:
        assert self._descriptor is not None
        place = (
            int.from_bytes(hashlib.sha256(name.encode(errors="surrogatepass")).digest()[:8], "big") % _PLACES
        )
        # struct flock: type, whence, start, length, and the process id, which has to be 0.
        fcntl.fcntl(
            self._descriptor, fcntl.F_OFD_SETLK, struct.pack("hhqqi4x", kind, os.SEEK_SET, place, 1, 0)
        )
