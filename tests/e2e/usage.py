"""What a container uses, by the kernel's own account of its cgroup."""

from dataclasses import dataclass
from pathlib import Path

from tests.e2e.cluster.cgroups import ROOT
from tests.e2e.cluster.waiting import wait_until

MIB = 2**20


@dataclass(frozen=True, slots=True)
class Usage:
    """`anonymous_mib` is the process's own; `working_set_mib`, what the kubelet compares with the limit, adds
    the file pages in use. `most_mib` is the peak, with every file page ever read and not yet dropped.
    """

    anonymous_mib: float
    working_set_mib: float
    most_mib: float
    cpu_s: float


class ContainerCgroup:
    """One container's cgroup, of either version; version 2 was never run."""

    def __init__(self, node_cgroup: str, container_id: str) -> None:
        self._folders = {
            hierarchy: folder
            for hierarchy in ("memory", "cpuacct", "")
            for folder in (ROOT / hierarchy / node_cgroup).rglob(container_id)
        }

    def pid(self) -> int:
        """The container's first process, as this machine numbers it."""
        folder = next(iter(self._folders.values()))
        pids = wait_until(
            "the container runs", lambda: (folder / "cgroup.procs").read_text().split(), timeout_s=10
        )
        return int(pids[0])

    def resident_mib(self) -> float:
        """What the first process has resident, file pages that it shares with others included."""
        status = Path(f"/proc/{self.pid()}/status").read_text()
        return int(status.partition("VmRSS:")[2].split()[0]) / 1024

    def usage(self) -> Usage:
        if "memory" not in self._folders:
            return self._usage_v2(self._folders[""])
        memory = self._folders["memory"]
        stat = _read_table(memory / "memory.stat")
        used = int((memory / "memory.usage_in_bytes").read_text())
        return Usage(
            anonymous_mib=stat["total_rss"] / MIB,
            working_set_mib=(used - stat["total_inactive_file"]) / MIB,
            most_mib=int((memory / "memory.max_usage_in_bytes").read_text()) / MIB,
            cpu_s=int((self._folders["cpuacct"] / "cpuacct.usage").read_text()) / 1e9,
        )

    @staticmethod
    def _usage_v2(folder: Path) -> Usage:
        stat = _read_table(folder / "memory.stat")
        used = int((folder / "memory.current").read_text())
        return Usage(
            anonymous_mib=stat["anon"] / MIB,
            working_set_mib=(used - stat["inactive_file"]) / MIB,
            most_mib=int((folder / "memory.peak").read_text()) / MIB,
            cpu_s=_read_table(folder / "cpu.stat")["usage_usec"] / 1e6,
        )


def _read_table(path: Path) -> dict[str, int]:
    return {key: int(value) for key, value in (line.split() for line in path.read_text().splitlines())}
