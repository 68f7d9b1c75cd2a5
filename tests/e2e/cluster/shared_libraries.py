"""Which shared libraries of this machine some programs and extension modules need."""

import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

# "libm.so.6 => /lib/x86_64-linux-gnu/libm.so.6 (0x7f...)"; of the loader: "/lib64/ld-linux... (0x7f...)"
LIBRARY = re.compile(r"\s(?P<name>\S+) => (?P<path>/\S+) \(0x")
LOADER = re.compile(r"\s(?P<path>/\S+) \(0x")
ABSENT = re.compile(r"\s(?P<name>\S+) => not found")


class LibraryMissingError(Exception):
    """A library is needed and this machine has none of that name."""


def shared_libraries(programs: Sequence[Path]) -> dict[str, Path]:
    """Where each library is on this machine, by where the loader finds it without any configuration."""
    found: dict[str, Path] = {}
    # A file that needs no library at all makes ldd return 1, after it has told about the others.
    answer = subprocess.run(["ldd", *programs], capture_output=True, text=True, check=False).stdout
    for line in answer.splitlines():
        if absent := ABSENT.match(line):
            raise LibraryMissingError(absent["name"])
        if library := LIBRARY.match(line):
            found[f"lib/{library['name']}"] = Path(library["path"]).resolve()
        elif loader := LOADER.match(line):
            found[loader["path"].lstrip("/")] = Path(loader["path"]).resolve()
    return found
