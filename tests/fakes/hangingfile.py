"""A file below a fake host's root of which every read hangs, as one of sysfs does where a driver hangs."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def hanging(file: Path) -> Iterator[None]:
    """A pipe that nobody writes takes the file's place: to open it for reading never ends.

    Afterwards the file is as it was, and every read that hung ends with its content.
    """
    content, fresh = file.read_bytes(), file.with_name(f"{file.name}.fresh")
    file.unlink()
    os.mkfifo(file)
    try:
        yield
    finally:
        writer = os.open(file, os.O_RDWR)  # does not wait for a reader, as one for writing alone would
        try:
            os.write(writer, content)
            fresh.write_bytes(content)
            fresh.rename(file)
        finally:
            os.close(writer)
