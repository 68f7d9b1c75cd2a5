"""What can be put in a layer of an image, each knowing how it is written to a tar file."""

import io
import tarfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol


class Entry(Protocol):
    """Paths in the image are relative to its root: "usr/bin/env"."""

    def add_to(self, tar: tarfile.TarFile) -> None: ...


@dataclass(frozen=True, slots=True)
class Copied:
    """A file, or a folder with all below it whose name `is_wanted`."""

    path: str
    source: Path
    is_wanted: Callable[[str], bool] = lambda _: True

    def add_to(self, tar: tarfile.TarFile) -> None:
        tar.add(self.source, self.path, filter=self._prepared)

    def _prepared(self, member: tarfile.TarInfo) -> tarfile.TarInfo | None:
        if not self.is_wanted(member.name.rpartition("/")[2]):
            return None
        member.uid = member.gid = 0
        member.uname = member.gname = "root"
        return member


@dataclass(frozen=True, slots=True)
class Text:
    """A small file with this content."""

    path: str
    content: str
    mode: int = 0o644

    def add_to(self, tar: tarfile.TarFile) -> None:
        content = self.content.encode()
        member = tarfile.TarInfo(self.path)
        member.mode = self.mode
        member.size = len(content)
        tar.addfile(member, io.BytesIO(content))


@dataclass(frozen=True, slots=True)
class Link:
    """A symbolic link."""

    path: str
    target: str

    def add_to(self, tar: tarfile.TarFile) -> None:
        member = tarfile.TarInfo(self.path)
        member.type = tarfile.SYMTYPE
        member.linkname = self.target
        tar.addfile(member)


@dataclass(frozen=True, slots=True)
class EmptyFolder:
    """A folder with nothing in it."""

    path: str
    mode: int = 0o755

    def add_to(self, tar: tarfile.TarFile) -> None:
        member = tarfile.TarInfo(self.path)
        member.type = tarfile.DIRTYPE
        member.mode = self.mode
        tar.addfile(member)
