"""Looks at the kubelet's folders and sockets."""

import os
import socket
from collections.abc import Iterator
from pathlib import Path

from accelet.doctor.node.seen import FolderSeen, FolderState, RecordsSeen, SocketSeen, SocketState
from accelet.kubelet.checkpoint import read_checkpoint
from accelet.kubelet.errors import CheckpointError, PodResourcesError
from accelet.kubelet.paths import KubeletPaths, is_dead_mount
from accelet.kubelet.podresources import PodResources
from accelet.node.directorylock import LOCK_NAME

CONNECT_S = 1.0
ANSWER_S = 3.0

MOST_SOCKETS = 64
"""Of a folder that is another process' to fill."""

MOST_LOCKS_BYTES = 1 << 20


def look_at_folders(paths: KubeletPaths, *, by_dra: bool) -> tuple[FolderSeen, ...]:
    """`by_dra` is whether anything is served through DRA."""
    folders = [paths.pod_resources_socket.parent]
    if by_dra:
        folders.append(paths.plugins_registry)
    fixed = FolderSeen(str(paths.device_plugins), _folder_state(paths.device_plugins), moves=False)
    return (fixed, *(FolderSeen(str(folder), _folder_state(folder)) for folder in folders))


def _folder_state(folder: Path) -> FolderState:
    try:
        with os.scandir(folder) as entries:
            next(entries, None)
    except PermissionError:
        return "closed"
    except OSError:
        return "absent"
    return "dead" if is_dead_mount(folder) else "there"


def look_at_sockets(paths: KubeletPaths) -> tuple[SocketSeen, tuple[SocketSeen, ...]]:
    """The kubelet's, and those of plugins beside it."""
    own = paths.registration_socket
    others = [SocketSeen(str(path), _socket_state(path)) for path in _sockets_in(own.parent) if path != own]
    return SocketSeen(str(own), _socket_state(own)), tuple(others)


def _sockets_in(folder: Path) -> Iterator[Path]:
    try:
        found = sorted(path for path in folder.iterdir() if path.is_socket())
    except OSError:
        return
    yield from found[:MOST_SOCKETS]


def _socket_state(path: Path) -> SocketState:
    try:
        if not path.is_socket():
            return "no socket" if path.exists() else "absent"
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
            connection.settimeout(CONNECT_S)
            connection.connect(str(path))
    except PermissionError:
        return "closed"
    except OSError:
        return "silent"
    return "answers"


def look_at_checkpoint(paths: KubeletPaths) -> RecordsSeen:
    try:
        found = read_checkpoint(paths.device_plugins)
        return RecordsSeen({name: found.registered[name] for name in found.registered})
    except (CheckpointError, ValueError) as error:
        return RecordsSeen(problem=str(error))


async def ask_pod_resources(paths: KubeletPaths) -> RecordsSeen:
    """What the kubelet has to give; this question, unlike a list of pods, changes nothing in any kubelet."""
    async with PodResources(paths.pod_resources_socket) as service:
        try:
            return RecordsSeen(await service.allocatable(timeout_s=ANSWER_S))
        except PodResourcesError as error:
            return RecordsSeen(problem=str(error))


def holds_directory(folder: Path, locks: Path = Path("/proc/locks")) -> bool:
    """Whether a process holds the lock that an agent takes, by the kernel's list: it is not tried."""
    try:
        inode = (folder / LOCK_NAME).stat().st_ino
        with locks.open("rb") as file:
            lines = file.read(MOST_LOCKS_BYTES).decode("ascii", "replace").splitlines()
    except OSError:
        return False
    return any(" FLOCK " in line and f":{inode} " in line for line in lines)
