"""Which processes have a chip's device file open, as far as /proc shows them."""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from accelet.accelerators.device import DeviceId
from accelet.accelerators.inventory import Owner


@dataclass(frozen=True, slots=True)
class OwnersFound:
    """Who was seen, in order of process id, and how many processes did not show their files."""

    owners: tuple[Owner, ...]
    hidden: int


def find_owners(root: Path, device_by_path: Mapping[str, DeviceId]) -> OwnersFound:
    """Looks through the open files of every process below `root`.

    Seeing other users' processes takes the host's process ids and CAP_SYS_PTRACE.
    """
    owners: list[Owner] = []
    hidden = 0
    for folder in _process_folders(root):
        try:
            opened = {device_by_path[path] for path in _open_paths(folder) if path in device_by_path}
        except PermissionError:
            hidden += 1
            continue
        except OSError:
            continue  # it has ended
        owners += [Owner(device, int(folder.name), _command(folder)) for device in sorted(opened)]
    return OwnersFound(tuple(owners), hidden)


def stale_owners(owners: Sequence[Owner], held: Collection[DeviceId]) -> tuple[str, ...]:
    """A sentence for each process that has a chip open which no container holds."""
    return tuple(
        f"{owner.device} is free, but process {owner.pid} ({owner.command}) has it open: "
        "a container that gets it cannot start its TPU until that process ends"
        for owner in owners
        if owner.device not in held
    )


def _process_folders(root: Path) -> list[Path]:
    try:
        entries = list((root / "proc").iterdir())
    except OSError:
        return []
    processes = (entry for entry in entries if re.fullmatch("[0-9]{1,10}", entry.name))
    return sorted(processes, key=lambda folder: int(folder.name))


def _open_paths(folder: Path) -> Iterator[str]:
    for entry in (folder / "fd").iterdir():
        try:
            yield str(entry.readlink())
        except FileNotFoundError:
            continue  # closed meanwhile


def _command(folder: Path) -> str:
    try:
        return (folder / "comm").read_text(encoding="utf-8", errors="replace").strip() or "?"
    except OSError:
        return "?"
