"""The socket files of our registrations in the kubelet's directory."""

import os
import re
import secrets
from pathlib import Path

from accelet.kubelet.paths import MAX_SOCKET_PATH

PREFIX = "accelet-"
_MAX_SLUG = 40


def make_socket_name(directory: Path, resource: str) -> str:
    """A file name for one registration in `directory`, never used again; as telling as its path may be long.

    gRPC's C core takes over a path in use and later unlinks it by name, and kubelets tell registrations
    apart by their path (from 1.37), so no two of ours may share one; a process id is no help, since in a
    container it is always 1.
    """
    unique = f"{secrets.token_hex(6)}.sock"
    room = MAX_SOCKET_PATH - len(os.fsencode(directory / f"{PREFIX}-{unique}"))
    slug = re.sub(r"[^a-z0-9]+", "-", resource.lower())[: max(0, min(room, _MAX_SLUG))].strip("-")
    return f"{PREFIX}{slug}-{unique}"


def remove_stale_sockets(directory: Path) -> list[str]:
    """Removes what an earlier process of ours left; only to be called by the one that owns the directory.

    In a directory that is just being replaced there is nothing of ours.
    """
    try:
        stale = [path for path in directory.glob(f"{PREFIX}*.sock") if path.is_socket()]
    except FileNotFoundError:
        return []
    for path in stale:
        path.unlink(missing_ok=True)
    return sorted(path.name for path in stale)
