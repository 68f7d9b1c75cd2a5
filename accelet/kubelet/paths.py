"""Where the kubelet has its sockets and files."""

from dataclasses import dataclass
from pathlib import Path

DEFAULT_KUBELET_DIR = Path("/var/lib/kubelet")

MAX_SOCKET_PATH = 107
"""Bytes of the longest path a Unix socket can have on Linux."""


@dataclass(frozen=True, slots=True)
class KubeletPaths:
    """The kubelet's directories as this process sees them.

    Kubelets keep device-plugins/ in /var/lib/kubelet whatever their --root-dir says: a constant of their
    device manager. Everything else moves with it: plugins/, plugins_registry/, pod-resources/.
    """

    kubelet_dir: Path = DEFAULT_KUBELET_DIR
    """Where device-plugins/ is."""

    pod_resources: Path | None = None
    root_dir: Path | None = None
    """The kubelet's --root-dir, where it is not `kubelet_dir`."""

    @property
    def root(self) -> Path:
        return self.root_dir or self.kubelet_dir

    @property
    def device_plugins(self) -> Path:
        return self.kubelet_dir / "device-plugins"

    @property
    def plugins_registry(self) -> Path:
        """Where the kubelet looks for drivers of DRA."""
        return self.root / "plugins_registry"

    @property
    def registration_socket(self) -> Path:
        return self.device_plugins / "kubelet.sock"

    @property
    def checkpoint(self) -> Path:
        return self.device_plugins / "kubelet_internal_checkpoint"

    @property
    def pod_resources_socket(self) -> Path:
        return (self.pod_resources or self.root / "pod-resources") / "kubelet.sock"


@dataclass(frozen=True, slots=True)
class SocketIdentity:
    """Tells one kubelet.sock from the next under the same path."""

    device: int
    inode: int
    changed_ns: int


def identify_socket(path: Path) -> SocketIdentity | None:
    """Which file is at `path` now; None when there is none."""
    try:
        status = path.stat()
    except OSError:
        return None
    return SocketIdentity(status.st_dev, status.st_ino, status.st_ctime_ns)


def is_dead_mount(directory: Path) -> bool:
    """Whether the directory was removed on the host while it is still mounted here."""
    try:
        return directory.stat().st_nlink == 0
    except OSError:
        return False
