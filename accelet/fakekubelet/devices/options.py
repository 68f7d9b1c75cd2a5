"""What a container is given, merged from the answers of its plugins."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from accelet.kubelet.api import deviceplugin_pb2 as api


def _nothing() -> Mapping[str, str]:
    return MappingProxyType({})


@dataclass(frozen=True, slots=True)
class GivenMount:
    """A bind mount as a plugin asked for it."""

    container_path: str
    host_path: str
    read_only: bool


@dataclass(frozen=True, slots=True)
class GivenDevice:
    """A device file as a plugin asked for it; `permissions` of `r`, `w`, `m`."""

    container_path: str
    host_path: str
    permissions: str


@dataclass(frozen=True, slots=True)
class ContainerOptions:
    """Everything device plugins add to one container.

    `conflicts` names what two plugins asked for differently: the first won, as in the kubelet.
    """

    envs: Mapping[str, str] = field(default_factory=_nothing)
    mounts: tuple[GivenMount, ...] = ()
    devices: tuple[GivenDevice, ...] = ()
    annotations: Mapping[str, str] = field(default_factory=_nothing)
    cdi_devices: tuple[str, ...] = ()
    conflicts: tuple[str, ...] = ()


NO_OPTIONS: Final = ContainerOptions()


def merged(responses: Iterable[bytes]) -> ContainerOptions:
    """Merges serialized ContainerAllocateResponses in this order; what came first stays.

    Environment and annotations are told apart by key, mounts and devices by container path, CDI devices
    by name (Kubernetes 1.36, pkg/kubelet/cm/devicemanager/pod_devices.go).
    """
    envs: dict[str, str] = {}
    annotations: dict[str, str] = {}
    mounts: dict[str, GivenMount] = {}
    devices: dict[str, GivenDevice] = {}
    cdi: dict[str, None] = {}
    conflicts: list[str] = []
    for data in responses:
        response = api.ContainerAllocateResponse.FromString(data)
        for what, into, new in (
            ("env", envs, response.envs),
            ("annotation", annotations, response.annotations),
        ):
            for key, value in new.items():
                if into.setdefault(key, value) != value:
                    conflicts.append(f"{what} {key}")
        for asked in response.mounts:
            mount = GivenMount(asked.container_path, asked.host_path, asked.read_only)
            if mounts.setdefault(mount.container_path, mount).host_path != mount.host_path:
                conflicts.append(f"mount {mount.container_path}")
        for spec in response.devices:
            device = GivenDevice(spec.container_path, spec.host_path, spec.permissions)
            if devices.setdefault(device.container_path, device).host_path != device.host_path:
                conflicts.append(f"device {device.container_path}")
        cdi.update(dict.fromkeys(named.name for named in response.cdi_devices))
    return ContainerOptions(
        envs=MappingProxyType(envs),
        mounts=tuple(mounts.values()),
        devices=tuple(devices.values()),
        annotations=MappingProxyType(annotations),
        cdi_devices=tuple(cdi),
        conflicts=tuple(conflicts),
    )
