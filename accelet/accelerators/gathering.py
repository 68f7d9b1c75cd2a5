"""The device nodes, mounts and CDI names of several devices as one container sees them."""

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType

from accelet.accelerators.device import Device
from accelet.accelerators.edits import ContainerEdits, DeviceNode, Mount
from accelet.accelerators.errors import EditsError


def gather_edits(devices: Sequence[Device], environment: Mapping[str, str] | None = None) -> ContainerEdits:
    """The union of what `devices` need, in order of the container's paths, with `environment` added.

    A path of which several devices speak has the permissions of all of them, and is writable if one
    needs to write. A CDI name that several shares of a unit have is there once.

    Raises:
        EditsError: two host paths would be one path in the container. The kubelet would drop one of
            them without a word.
    """
    return ContainerEdits(
        nodes=_merge_nodes(node for device in devices for node in device.nodes),
        mounts=_merge_mounts(mount for device in devices for mount in device.mounts),
        environment=MappingProxyType(dict(environment or {})),
        cdi_names=tuple(sorted({device.cdi_name for device in devices if device.cdi_name is not None})),
    )


def _merge_nodes(nodes: Iterable[DeviceNode]) -> tuple[DeviceNode, ...]:
    merged: dict[str, DeviceNode] = {}
    for node in nodes:
        known = merged.setdefault(node.container_path, node)
        _refuse_conflict(known.host_path, node.host_path, node.container_path)
        permissions = "".join(letter for letter in "rwm" if letter in known.permissions + node.permissions)
        merged[node.container_path] = DeviceNode(node.host_path, node.container_path, permissions)
    return tuple(merged[path] for path in sorted(merged))


def _merge_mounts(mounts: Iterable[Mount]) -> tuple[Mount, ...]:
    merged: dict[str, Mount] = {}
    for mount in mounts:
        known = merged.setdefault(mount.container_path, mount)
        _refuse_conflict(known.host_path, mount.host_path, mount.container_path)
        read_only = known.read_only and mount.read_only
        merged[mount.container_path] = Mount(mount.host_path, mount.container_path, read_only)
    return tuple(merged[path] for path in sorted(merged))


def _refuse_conflict(one: str, other: str, container_path: str) -> None:
    if one != other:
        first, second = sorted((one, other))
        raise EditsError(
            f"{first} and {second} would both be {container_path} in the container: "
            "request only one of these devices in a container, or give each a path of its own"
        )
