"""Looking at the host's files without ever raising: what cannot be read is not there."""

# ruff: noqa: PTH110, PTH115 - a scan asks of thousands of files; a Path for each would double its time

import os
import re
from pathlib import Path

_LONGEST_TEXT = 4096
_LONGEST_CHAIN = 40
_NUMBER = re.compile("[0-9]{1,20}")

MOST_NUMA_NODE = 1023
"""Linux has no more NUMA nodes (CONFIG_NODES_SHIFT). The kubelet takes no number of more than 63 bits."""

MOST_BYTES = 2**60
"""More memory than any unit has; what sysfs says beyond it is nonsense."""


def read_text(path: Path | str, longest: int = _LONGEST_TEXT) -> str | None:
    """A small file's text without the white space around it; None if it cannot be read.

    Of a file of more than `longest` bytes only these are read.

    Does not wait where a pipe has taken the file's place; a read of sysfs takes as long as its driver does.
    A scan reads hundreds of files: this is three system calls.
    """
    try:
        file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        return os.read(file, longest).decode(errors="replace").strip()
    except OSError:
        return None
    finally:
        os.close(file)


def read_number(path: Path | str, most: int) -> int | None:
    """A decimal number from 0 to `most`; None for anything else, as -1 where the kernel does not know."""
    text = read_text(path)
    if text is None or not _NUMBER.fullmatch(text):
        return None
    number = int(text)
    return number if number <= most else None


def read_numa_node(folder: Path | str) -> int | None:
    """The NUMA node of a PCI function with this folder; None where nobody knows."""
    return read_number(f"{folder}/numa_node", MOST_NUMA_NODE)


def read_names(folder: Path | str) -> tuple[str, ...]:
    """The names in a folder, in order; none if it cannot be listed."""
    try:
        with os.scandir(folder) as entries:
            return tuple(sorted(entry.name for entry in entries))
    except OSError:
        return ()


def read_inodes(folder: Path | str) -> dict[str, int]:
    """The entries of a folder by name, with the inode that tells one from the next of its name."""
    try:
        with os.scandir(folder) as entries:
            return {entry.name: entry.inode() for entry in entries}
    except OSError:
        return {}


def read_link_name(path: Path) -> str | None:
    """The last part of where a link points, which need not exist; None if there is no such link."""
    try:
        return path.readlink().name or None
    except OSError:
        return None


def read_as_text(path: str) -> str:
    r"""A path as text: bytes that are no UTF-8, which Linux allows in names, are written as `\xff`."""
    return os.fsencode(path).decode(errors="backslashreplace")


def is_folder(path: Path) -> bool:
    try:
        return path.is_dir()
    except OSError:
        return False


def exists_on_host(root: Path, host_path: str) -> bool:
    """Whether a path leads somewhere on the host; an absolute link is followed below `root`."""
    path = host_path
    for _ in range(_LONGEST_CHAIN):
        below = f"{root}{path}"
        try:
            target = os.readlink(below)
        except OSError:
            return os.path.exists(below)
        if not target.startswith("/"):
            return os.path.exists(below)
        path = target
    return False


def is_node(root: Path, host_path: str) -> bool:
    """Whether the host has that device file; a plain file counts, trees made for tests have no others."""
    return exists_on_host(root, host_path) and not is_folder(root / host_path[1:])
