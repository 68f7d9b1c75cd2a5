"""What a container must be given to use its devices."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType


@dataclass(frozen=True, slots=True)
class DeviceNode:
    """A device file: where the host has it, where the container sees it, and what it may do.

    `permissions` are those of the device cgroup: of `r`, `w` and `m` (mknod).
    """

    host_path: str
    container_path: str
    permissions: str = "rw"


@dataclass(frozen=True, slots=True)
class Mount:
    """A bind mount of a host path."""

    host_path: str
    container_path: str
    read_only: bool = True


@dataclass(frozen=True, slots=True)
class Folder:
    """A host folder that must exist, empty, before a container that mounts it starts.

    A container runtime makes a missing one itself, but writable for root alone. `mode` is that of the folder.
    """

    host_path: str
    mode: int = 0o1777


@dataclass(frozen=True, slots=True)
class ContainerEdits:
    """Device nodes, mounts and environment of one container; each path and name at most once.

    `cdi_names` are devices of CDI specifications on the host, by their full names (`nvidia.com/gpu=0`): the
    container runtime looks them up there. `folders` are made by whoever applies the edits
    (`accelet.accelerators.folders`).
    """

    nodes: tuple[DeviceNode, ...] = ()
    mounts: tuple[Mount, ...] = ()
    environment: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    folders: tuple[Folder, ...] = ()
    cdi_names: tuple[str, ...] = ()
