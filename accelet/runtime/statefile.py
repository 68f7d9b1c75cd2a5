"""Files that are whole or not there, whatever ends the process or the machine in between."""

import os
import secrets
from contextlib import suppress
from pathlib import Path


def write_whole(path: Path, content: bytes, mode: int = 0o600) -> None:
    """Puts `content` in place of the file; once this returns, it survives a loss of power.

    A temporary file in the same folder, whose name begins with a dot, takes its place when it is on disk.

    Raises:
        OSError: the file is as it was.
    """
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise
    sync_folder(path.parent)


def remove_whole(path: Path) -> None:
    """Removes a file that may be gone already; once this returns, it stays away.

    Raises:
        OSError: it may still be there.
    """
    try:
        path.unlink()
    except FileNotFoundError:
        return
    sync_folder(path.parent)


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
