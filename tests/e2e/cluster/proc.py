"""What the kernel tells about a process, from /proc/<pid> (see proc(5))."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class ProcessStat:
    """`start_time` in clock ticks since boot: with it a pid is never mistaken for a later process."""

    pid: int
    state: str
    parent: int
    start_time: int

    @property
    def has_ended(self) -> bool:
        """Ended, but its parent has not taken notice yet."""
        return self.state in "ZX"


def stat(pid: int) -> ProcessStat | None:
    """None when there is no such process."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    # The second field, the command in brackets, may itself hold spaces and brackets.
    fields = text.rpartition(")")[2].split()
    return ProcessStat(pid, state=fields[0], parent=int(fields[1]), start_time=int(fields[19]))


def is_stopped(pid: int) -> bool:
    """Whether a signal has stopped it until it is to go on."""
    seen = stat(pid)
    return seen is not None and seen.state == "T"


def command(pid: int) -> bytes:
    """Its arguments, each ended by a zero byte; empty when there is no such process."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return b""


def children(pid: int) -> list[int]:
    """The pids of its living children. /proc has a file that says so, but not on every kernel."""
    everybody = [stat(int(folder.name)) for folder in Path("/proc").iterdir() if folder.name.isdecimal()]
    return [each.pid for each in everybody if each and each.parent == pid and not each.has_ended]
