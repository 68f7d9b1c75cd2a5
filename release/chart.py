"""The Helm chart as one archive, without helm: its links to the files of deploy/ become these files."""

import gzip
import io
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

_LEFT_OUT: Final = frozenset({".helmignore", "kustomization.yaml"})
"""What helm leaves out too, by the chart's .helmignore."""


def pack_chart(chart: Path, archive: Path, made_s: int) -> Path:
    """Writes what `helm install` takes, the same bytes whenever it is written; returns the archive."""
    with (
        archive.open("wb") as raw,
        gzip.GzipFile("", "wb", mtime=made_s, fileobj=raw) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.GNU_FORMAT) as tar,
    ):
        for name, path in sorted(_files(chart, chart.name)):
            content = path.read_bytes()
            member = tarfile.TarInfo(f"accelet/{name.partition('/')[2]}")
            member.size, member.mtime, member.mode = len(content), made_s, 0o644
            tar.addfile(member, io.BytesIO(content))
    return archive


def _files(folder: Path, name: str) -> Iterator[tuple[str, Path]]:
    """Each file below, behind links too, by its path from the chart on."""
    for path in folder.iterdir():
        if path.is_dir():
            yield from _files(path, f"{name}/{path.name}")
        elif path.name not in _LEFT_OUT:
            yield f"{name}/{path.name}", path
