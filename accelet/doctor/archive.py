"""Writes a support bundle: a tar archive that only its owner may read."""

import gzip
import io
import os
import tarfile
from collections.abc import Mapping
from pathlib import Path


def write_archive(path: Path, files: Mapping[str, bytes], made_s: float) -> None:
    """A new file at `path`; one that is there already is not touched.

    Raises:
        OSError: it is there, or cannot be written.
    """
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with (
        os.fdopen(descriptor, "wb") as file,
        gzip.GzipFile(fileobj=file, mode="wb", mtime=made_s) as packed,
        tarfile.open(fileobj=packed, mode="w") as archive,
    ):
        for name, content in files.items():
            member = tarfile.TarInfo(f"accelet-doctor/{name}")
            member.size, member.mtime, member.mode = len(content), int(made_s), 0o600
            archive.addfile(member, io.BytesIO(content))
