"""Files that are whole or not there, whatever ends the process or the machine in between."""

import os
import secrets
from contextlib import suppress
from pathlib import Path


def write_whole(path: Path, content: bytes, mode: int = 0o600, *, is_synced: bool = True) -> None:
    """Puts `content` in place of the file; once this returns, it survives a loss of power if it is synced.

    A temporary file in the same folder, whose name begins with a dot, takes its place when it is on disk. One
    that is not synced is whole as long as the machine runs, and may be empty after a loss of power.

    Raises:
        OSError: the file is as it was.
    """
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            if is_synced:
                os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise
    if is_synced:
        sync_folder(path.parent)


def append_whole(path: Path, content: bytes, *, is_synced: bool = True) -> os.stat_result:
    """Adds `content` to the end of a file that is there; what the file is then.

    Raises:
        OSError: the file is as it was, or ends with a part of it if that could not be taken back either.
    """
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
    try:
        before = os.fstat(descriptor).st_size
        try:
            _write_all(descriptor, content)
            if is_synced:
                os.fdatasync(descriptor)
        except OSError:
            with suppress(OSError):
                os.ftruncate(descriptor, before)
            raise
        return os.fstat(descriptor)
    finally:
        os.close(descriptor)


def _write_all(descriptor: int, content: bytes) -> None:
    rest = memoryview(content)
    while rest:
        rest = rest[os.write(descriptor, rest) :]


def read_whole(path: Path, most_bytes: int) -> bytes | None:
    """The content, at most a byte more than `most_bytes` of it; None where there is no such file."""
    try:
        with path.open("rb") as file:
            return file.read(most_bytes + 1)
    except FileNotFoundError:
        return None


def remove_temporaries(folder: Path, prefix: str) -> None:
    """Removes what writes of files that begin with `prefix` left behind when they were cut short."""
    for path in folder.glob(f".{prefix}*.tmp"):
        with suppress(OSError):
            path.unlink()


def sync_folder(folder: Path) -> None:
    """Has the folder's list of files on disk."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
