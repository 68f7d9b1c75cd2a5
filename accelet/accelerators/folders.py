"""Makes the host folders that a container's mounts need."""

import os
from collections.abc import Iterable
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from typing import Final

from accelet.accelerators.discarded import discarded_name
from accelet.accelerators.edits import ContainerEdits, Folder

_OPEN_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def prepare_folders(edits: ContainerEdits, root: Path) -> tuple[ContainerEdits, tuple[str, ...]]:
    """Makes the folders of `edits` below `root`, empty; what was in one is set aside as `<path>.previous`.

    So a container finds nothing of an earlier one, a process that still writes loses nothing, and each path
    has at most one predecessor: an earlier one is discarded, for `remove_discarded` to remove. Returns the
    edits without the mounts of folders that could not be made, with a sentence for each of those: a container
    can do without. Blocks on files; may be repeated, and sets aside each time.
    """
    faults: list[str] = []
    lost: set[str] = set()
    for folder in edits.folders:
        try:
            _make_folder(folder, root, empty=True)
        except OSError as error:
            lost.add(folder.host_path)
            faults.append(
                f"the folder {folder.host_path} could not be made ({error.strerror}): "
                "the container goes without it"
            )
    mounts = tuple(mount for mount in edits.mounts if mount.host_path not in lost)
    return replace(edits, mounts=mounts), tuple(faults)


def restore_folders(folders: Iterable[Folder], root: Path) -> tuple[str, ...]:
    """Makes those of the folders below `root` that are lost, as /tmp is at a reboot; leaves the others be.

    A container runtime that was quicker made one itself, writable for root alone: that is mended. Returns a
    sentence for each that could not be made. Blocks on files.
    """
    faults: list[str] = []
    for folder in folders:
        try:
            _make_folder(folder, root, empty=False)
        except OSError as error:
            faults.append(f"the folder {folder.host_path} could not be made again ({error.strerror})")
    return tuple(faults)


def _make_folder(folder: Folder, root: Path, *, empty: bool) -> None:
    """Never follows a link: the folders above may be open to everybody, as /tmp is."""
    *above, name = folder.host_path.strip("/").split("/")
    with ExitStack() as opened:
        parent = _open(opened, str(root), None)
        for part in above:
            with suppress(FileExistsError):
                os.mkdir(part, 0o755, dir_fd=parent)
            parent = _open(opened, part, parent)
        if empty:
            _set_aside(name, parent)
        with suppress(FileExistsError):
            os.mkdir(name, 0o700, dir_fd=parent)
        os.fchmod(_open(opened, name, parent), folder.mode)


def _open(opened: ExitStack, name: str, parent: int | None) -> int:
    flags = _OPEN_FOLDER if parent is not None else _OPEN_FOLDER & ~os.O_NOFOLLOW
    descriptor = os.open(name, flags, dir_fd=parent)
    opened.callback(os.close, descriptor)
    return descriptor


def _set_aside(name: str, parent: int) -> None:
    previous = f"{name}.previous"
    try:
        descriptor = os.open(name, _OPEN_FOLDER, dir_fd=parent)
    except FileNotFoundError:
        return
    try:
        with os.scandir(descriptor) as entries:
            is_empty = not any(entries)
    finally:
        os.close(descriptor)
    if is_empty:
        return
    # Containers filled it: to remove it may take minutes, which a call of the kubelet does not have.
    with suppress(FileNotFoundError):
        os.rename(previous, discarded_name(name), src_dir_fd=parent, dst_dir_fd=parent)
    os.rename(name, previous, src_dir_fd=parent, dst_dir_fd=parent)
