"""Folders as layers of an image, the same bytes whenever and by whomever they are written."""

import tarfile
from collections.abc import Iterator
from pathlib import Path


def write_layer(root: Path, layer: Path, made_s: int) -> Path:
    """Writes all below `root` in order, everything root's and of the time `made_s`; returns the layer."""
    with tarfile.open(layer, "w", format=tarfile.GNU_FORMAT) as tar:
        for path in _in_order(root):
            member = tar.gettarinfo(path, str(path.relative_to(root)))
            _forget_this_machine(member, made_s)
            if member.isreg():
                with path.open("rb") as content:
                    tar.addfile(member, content)
            else:
                tar.addfile(member)
    return layer


def _in_order(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.iterdir()):
        yield path
        if path.is_dir() and not path.is_symlink():
            yield from _in_order(path)


def _forget_this_machine(member: tarfile.TarInfo, made_s: int) -> None:
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    member.mtime = made_s
    member.mode = _usual_mode(member)


def _usual_mode(member: tarfile.TarInfo) -> int:
    """Who made the files may have had another umask. Nothing in the image is set-uid."""
    if member.issym():
        return 0o777
    if member.isdir():
        return member.mode if member.mode & 0o1000 or member.mode == 0o700 else 0o755
    return 0o755 if member.mode & 0o100 else 0o644
