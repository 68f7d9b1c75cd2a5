"""What a machine must have for a real cluster, what it lacks, and how to get that."""

import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tests.e2e.cluster.binaries import OWN_BINARIES_VARIABLE, own_binaries_are_given

GO_NEEDED = (1, 26)
# The Debian package of each command the cluster is built with.
PACKAGE_OF_COMMAND: Mapping[str, str] = {
    "runc": "runc",
    "busybox": "busybox-static",
    "chromium": "chromium",
    "openssl": "openssl",
    "ip": "iproute2",
    "mount": "mount",
    "unshare": "util-linux",
    "nsenter": "util-linux",
    "setpriv": "util-linux",
}


class RequirementsError(Exception):
    """The machine lacks something; the message says what, and the command that gets it."""


@dataclass(frozen=True, slots=True)
class Machine:
    """What of a machine matters here."""

    is_root: bool
    go_version: tuple[int, int] | None
    commands: frozenset[str]
    brings_own_binaries: bool

    @classmethod
    def this(cls) -> "Machine":
        return cls(
            is_root=os.geteuid() == 0,
            go_version=_go_version(),
            commands=frozenset(name for name in PACKAGE_OF_COMMAND if _is_usable(name)),
            brings_own_binaries=own_binaries_are_given(),
        )

    def missing_packages(self) -> list[str]:
        return sorted({package for name, package in PACKAGE_OF_COMMAND.items() if name not in self.commands})


def install_command(packages: list[str]) -> str:
    return f"apt-get update && apt-get install --yes --no-install-recommends {' '.join(packages)}"


def check(machine: Machine) -> None:
    """Raises RequirementsError with everything that is missing, at once."""
    lacks = list(_lacks(machine))
    if lacks:
        lines = [f"  - {what}\n    {remedy}" for what, remedy in lacks]
        raise RequirementsError("The real cluster cannot start on this machine:\n" + "\n".join(lines))


def _lacks(machine: Machine) -> Iterator[tuple[str, str]]:
    """Pairs of what is missing and how to get it."""
    if not machine.is_root:
        yield "root: namespaces, mounts and cgroups are made", "sudo make e2e"
    if packages := machine.missing_packages():
        yield f"Debian packages: {', '.join(packages)}", f"as root: {install_command(packages)}"
    wanted = ".".join(map(str, GO_NEEDED))
    if not machine.brings_own_binaries and (machine.go_version or (0, 0)) < GO_NEEDED:
        found = ".".join(map(str, machine.go_version)) if machine.go_version else "none"
        remedy = (
            f"get it from https://go.dev/dl/ and put it in PATH, or set {OWN_BINARIES_VARIABLE} "
            "to a folder with ready-made binaries (see tests/e2e/README.md)"
        )
        yield f"Go {wanted} or newer to build Kubernetes (found: {found})", remedy


def _go_version() -> tuple[int, int] | None:
    if shutil.which("go") is None:
        return None
    answer = subprocess.run(["go", "env", "GOVERSION"], capture_output=True, text=True, check=False).stdout
    found = re.match(r"go(\d+)\.(\d+)", answer)
    return (int(found[1]), int(found[2])) if found else None


def _is_usable(command: str) -> bool:
    path = shutil.which(command)
    if path is None or command != "busybox":
        return path is not None
    # ldd fails for a static binary, and only such a one runs in an image without libraries.
    return subprocess.run(["ldd", path], capture_output=True, check=False).returncode != 0
