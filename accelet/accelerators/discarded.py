"""Removes the host folders that were set aside for good, a piece at a time."""

import os
import re
import secrets
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Final

_MOST_FOLDERS: Final = 1000
_OPEN_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_DISCARDED = re.compile(r".+\.discarded-[0-9a-f]{16}")


def discarded_name(name: str) -> str:
    """Another name each time, by which `remove_discarded` knows what it may remove."""
    return f"{name}.discarded-{secrets.token_hex(8)}"


def remove_discarded(
    parents: Iterable[str], root: Path, within_s: float, now: Callable[[], float] = time.monotonic
) -> tuple[str, ...]:
    """Removes what is discarded in the host's folders `parents`, as far as `within_s` seconds go.

    Containers filled these folders: neither depth nor number of what is in them has a bound, and a link may
    lead anywhere. So none is followed, nothing recurs, and few files are open at once. What is left is for
    the next time. Returns a sentence for each folder that could not be removed. Blocks on files.
    """
    faults: list[str] = []
    deadline = now() + within_s
    for parent in parents:
        try:
            with ExitStack() as opened:
                folder = _open_below(opened, root, parent)
                faults += _remove_each(folder, parent, lambda: now() > deadline)
        except FileNotFoundError:
            continue
        except _TimeIsUpError:
            break
        except OSError as error:
            faults.append(f"{parent} could not be looked at ({error.strerror})")
    return tuple(faults)


class _TimeIsUpError(Exception):
    """The rest is for the next time."""


def _remove_each(folder: int, path: str, is_late: Callable[[], bool]) -> Iterator[str]:
    for name in sorted(filter(_DISCARDED.fullmatch, os.listdir(folder))):
        try:
            _remove(name, folder, is_late)
        except OSError as error:
            yield f"{path}/{name} could not be removed ({error.strerror})"


def _open_below(opened: ExitStack, root: Path, parent: str) -> int:
    folder = os.open(root, _OPEN_FOLDER & ~os.O_NOFOLLOW)
    opened.callback(os.close, folder)
    for part in filter(None, parent.split("/")):
        folder = os.open(part, _OPEN_FOLDER, dir_fd=folder)
        opened.callback(os.close, folder)
    return folder


def _remove(name: str, parent: int, is_late: Callable[[], bool]) -> None:
    """Lifts what is nested to the top, where it can be emptied: so it takes two open folders at any depth."""
    try:
        top = os.open(name, _OPEN_FOLDER, dir_fd=parent)
    except NotADirectoryError:
        os.unlink(name, dir_fd=parent)
        return
    try:
        while folders := _unlink_files(top, is_late):
            for folder in folders:
                _empty(folder, top, is_late)
    finally:
        os.close(top)
    os.rmdir(name, dir_fd=parent)


def _empty(name: str, top: int, is_late: Callable[[], bool]) -> None:
    folder = os.open(name, _OPEN_FOLDER, dir_fd=top)
    try:
        while nested := _unlink_files(folder, is_late):
            for one in nested:
                os.rename(one, secrets.token_hex(16), src_dir_fd=folder, dst_dir_fd=top)
    finally:
        os.close(folder)
    os.rmdir(name, dir_fd=top)


def _unlink_files(folder: int, is_late: Callable[[], bool]) -> list[str]:
    """Removes what is no folder until it has met _MOST_FOLDERS folders. Returns those; none: it is empty."""
    folders: list[str] = []
    with os.scandir(folder) as entries:
        for entry in entries:
            if is_late():
                raise _TimeIsUpError
            if entry.is_dir(follow_symlinks=False):
                folders.append(entry.name)
                if len(folders) == _MOST_FOLDERS:
                    break
            else:
                os.unlink(entry.name, dir_fd=folder)
    return folders
