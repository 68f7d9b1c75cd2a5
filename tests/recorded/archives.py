"""Unpacks an archive of recorded files; whatever would lead out of the folder is left out."""

import tarfile
import zlib
from pathlib import Path
from typing import Final

MOST_FILES: Final = 100_000
MOST_BYTES: Final = 256 << 20
"""Of all files of one archive together. A topology of 64 partitions has 9,000 files of a few bytes each."""

ENDINGS: Final = (".tgz", ".tar.gz", ".tar")


def is_archive(path: Path) -> bool:
    return path.name.endswith(ENDINGS) and path.is_file()


def unpack(archive: Path, folder: Path) -> int:
    """The files of `archive` below `folder`; how many entries were left out, as they were links elsewhere.

    Raises:
        ValueError: it is damaged, or has more files or bytes than any recording.
        OSError, tarfile.TarError: it cannot be read.
    """
    try:
        return _unpack(archive, folder)
    except (EOFError, zlib.error) as error:
        raise ValueError(f"it is damaged: {error}") from error


def _unpack(archive: Path, folder: Path) -> int:
    left_out = count = size = 0
    with tarfile.open(archive) as opened:
        for member in opened:
            count, size = count + 1, size + member.size
            if count > MOST_FILES or size > MOST_BYTES:
                raise ValueError(f"it has more than {MOST_FILES} files or {MOST_BYTES >> 20} MiB")
            try:
                opened.extract(member, folder, filter="data")
            except tarfile.FilterError:
                left_out += 1
    return left_out
