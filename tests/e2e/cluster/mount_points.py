"""Folders to mount something on in another mount namespace, made when missing and shared among runs.

Removing such a folder would take the mount of every other run away with it. So each run holds a
shared lock on the folders it uses, and who is the last removes those that a run has made.
"""

import contextlib
import fcntl
import os
from dataclasses import dataclass
from pathlib import Path

# Tells a folder that a run has made from one that the machine has anyway.
MARK = ".made-by-accelet-e2e"


def reserve(path: Path) -> int:
    """Makes the folder when it is missing; it stays while a copy of the returned descriptor is open."""
    while True:
        with contextlib.suppress(FileExistsError):
            path.mkdir()
            (path / MARK).touch()
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        fcntl.flock(descriptor, fcntl.LOCK_SH)
        # Its last user may have removed it between the opening and the locking.
        if _is_at(path, descriptor):
            return descriptor
        os.close(descriptor)


@dataclass(frozen=True, slots=True)
class MountPointClaim:
    """A reserved folder."""

    path: str

    def release(self) -> None:
        """Removes it when a run has made it and none uses it any more."""
        folder = Path(self.path)
        if not (folder / MARK).exists():
            return
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if {each.name for each in folder.iterdir()} == {MARK}:
                (folder / MARK).unlink()
                folder.rmdir()
        except BlockingIOError:
            return
        finally:
            os.close(descriptor)


def _is_at(path: Path, descriptor: int) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False
