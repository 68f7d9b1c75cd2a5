"""What a run takes from the machine, each with the way to give it back."""

import os
import signal
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tests.e2e.cluster import cgroups, proc
from tests.e2e.cluster.mount_points import MountPointClaim
from tests.e2e.cluster.waiting import wait_until


@dataclass(frozen=True, slots=True)
class ProcessClaim:
    """A process; its start time tells it from a later one that got the same pid."""

    pid: int
    start_time: int

    @classmethod
    def of(cls, pid: int) -> "ProcessClaim":
        found = proc.stat(pid)
        return cls(pid, found.start_time if found else 0)

    @property
    def is_running(self) -> bool:
        found = proc.stat(self.pid)
        return found is not None and found.start_time == self.start_time and not found.has_ended

    def release(self) -> None:
        if self.is_running:
            os.kill(self.pid, signal.SIGKILL)
            wait_until(f"process {self.pid} ends", lambda: not self.is_running, timeout_s=30)


@dataclass(frozen=True, slots=True)
class CgroupClaim:
    """A cgroup of this name under the root of every hierarchy, with all that is in it."""

    name: str

    def release(self) -> None:
        cgroups.remove(self.name)


@dataclass(frozen=True, slots=True)
class BridgeClaim:
    """A network bridge."""

    name: str

    def release(self) -> None:
        if Path("/sys/class/net", self.name).exists():
            subprocess.run(["ip", "link", "delete", self.name], check=True)


Claim = ProcessClaim | CgroupClaim | BridgeClaim | MountPointClaim

CLAIM_KINDS: dict[str, Callable[..., Claim]] = {
    kind.__name__: kind for kind in (ProcessClaim, CgroupClaim, BridgeClaim, MountPointClaim)
}
