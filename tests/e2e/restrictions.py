"""Run inside the agent's container, alone: tries what the agent may not do, and prints what came of it."""

import json
import os
import socket
import stat
from collections.abc import Callable
from pathlib import Path

PODRESOURCES = "/var/lib/kubelet/pod-resources/kubelet.sock"


def outcome(act: Callable[[], object]) -> str:
    try:
        act()
    except OSError as error:
        return str(error.strerror)
    return "done"


def names(folder: str) -> list[str]:
    return [path.name for path in Path(folder).iterdir()]


def connect(path: str) -> None:
    with socket.socket(socket.AF_UNIX) as client:
        client.connect(path)


def main() -> None:
    status = Path("/proc/1/status").read_text().splitlines()
    mounts = [line.split()[4:6] for line in Path("/proc/1/mountinfo").read_text().splitlines()]
    seen = {
        "process 1": {name: value.strip() for name, _, value in (line.partition(":") for line in status)},
        "mounts of the host": [mount for mount in mounts if mount[0].startswith("/host/")],
        "write to the root": outcome(lambda: Path("/x").touch()),
        "write to the host's /dev": outcome(lambda: Path("/host/dev/x").touch()),
        "write to the host's /sys": outcome(lambda: Path("/host/sys/bus/pci/rescan").write_text("0")),
        "terminals and memory of the host": names("/host/dev/pts") + names("/host/dev/shm"),
        "open a device of the host": outcome(lambda: os.open("/host/dev/fuse", os.O_RDWR)),
        "make a device": outcome(lambda: os.mknod("/dev/shm/x", stat.S_IFCHR | 0o600, os.makedev(10, 229))),
        "give a file away": outcome(lambda: os.chown("/dev/shm", 1000, 1000)),
        "ask podresources": outcome(lambda: connect(PODRESOURCES)),
        "read a token": outcome(lambda: names("/var/run/secrets/kubernetes.io")),
        "processes": [name for name in names("/proc") if name.isdigit()],
        "networks": names("/sys/class/net"),
    }
    print(json.dumps(seen))  # noqa: T201 - its standard output is how it answers


if __name__ == "__main__":
    main()
