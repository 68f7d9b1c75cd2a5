"""Make and remove a named cgroup under the root of every cgroup hierarchy of this machine."""

import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path

from tests.e2e.cluster.waiting import wait_until

ROOT = Path("/sys/fs/cgroup")


def create(name: str) -> None:
    """Makes the cgroup wherever the kubelet looks for its cgroup root."""
    for hierarchy in _hierarchies():
        folder = hierarchy / name
        folder.mkdir(exist_ok=True)
        # On cgroup v1 a new cpuset is empty and takes no process before it is told its CPUs and memory nodes.
        for setting in ("cpuset.cpus", "cpuset.mems"):
            if (hierarchy / "cpuset.cpus").exists() and not (folder / setting).read_text().strip():
                (folder / setting).write_text((hierarchy / setting).read_text())


def remove(name: str) -> None:
    """Kills every process in the cgroup and below, then removes it."""
    wait_until(f"processes in cgroup {name} end", lambda: not _kill_members(name), timeout_s=30)
    for top in _existing(name):
        for folder, _, _ in os.walk(top, topdown=False):
            Path(folder).rmdir()


def members(name: str) -> set[int]:
    """The pids in the cgroup and below, over all hierarchies."""
    return {
        int(pid)
        for top in _existing(name)
        for procs in top.rglob("cgroup.procs")
        for pid in procs.read_text().split()
    }


def exists(name: str) -> bool:
    return any(_existing(name))


def _existing(name: str) -> Iterator[Path]:
    return (hierarchy / name for hierarchy in _hierarchies() if (hierarchy / name).is_dir())


def _hierarchies() -> list[Path]:
    """One folder on cgroup v2; one for each controller on v1, and the unified one next to them."""
    if (ROOT / "cgroup.controllers").exists():
        return [ROOT]
    return sorted(folder for folder in ROOT.iterdir() if folder.is_dir() and not folder.is_symlink())


def _kill_members(name: str) -> set[int]:
    """Returns who was there to be killed: it may have started others meanwhile."""
    found = members(name)
    for pid in found:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return found
