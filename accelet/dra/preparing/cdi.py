"""CDI files as values: what a container runtime reads for a claim's devices.

Container Device Interface 1.1.0; the version written is the oldest that has all that is used here.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from accelet.accelerators.edits import ContainerEdits

CDI_VERSION: Final = "0.5.0"
"""The first in which nodes have a hostPath and a device's name may begin with a digit, as UIDs do."""

WHOLE_CLAIM: Final = "-whole-claim"
"""A request's name that no request can have: only containers that name no request get its devices."""


def kind_of(driver: str) -> str:
    return f"k8s.{driver}/claim"


def file_name(driver: str, uid: str, digest: str) -> str:
    return f"{file_prefix(driver)}{uid}-{digest}.json"


def file_prefix(driver: str) -> str:
    """What the names of all files of a driver begin with."""
    return f"k8s.{driver}-claim_"


@dataclass(frozen=True, slots=True)
class CdiDevice:
    """A device of a CDI file: its name, and what a container gets with it."""

    name: str
    edits: ContainerEdits


def render_cdi(driver: str, devices: Sequence[CdiDevice]) -> bytes:
    """The file; the same devices always give the same bytes."""
    document = {
        "cdiVersion": CDI_VERSION,
        "kind": kind_of(driver),
        "devices": [{"name": device.name, "containerEdits": _edits(device.edits)} for device in devices],
    }
    return msgspec.json.format(msgspec.json.encode(document), indent=1) + b"\n"


class _Node(msgspec.Struct, frozen=True):
    path: str
    host_path: str = msgspec.field(name="hostPath", default="")


class _Mount(msgspec.Struct, frozen=True):
    host_path: str = msgspec.field(name="hostPath")


class _Edits(msgspec.Struct, frozen=True):
    nodes: list[_Node] = msgspec.field(name="deviceNodes", default_factory=list)
    mounts: list[_Mount] = []


class _Device(msgspec.Struct, frozen=True):
    edits: _Edits = msgspec.field(name="containerEdits", default_factory=_Edits)


class _Document(msgspec.Struct, frozen=True):
    devices: list[_Device]


def nodes_in(cdi: str) -> frozenset[tuple[str, str]]:
    """The device files that a file of ours gives to containers: the host's path of each, and theirs."""
    devices = msgspec.json.decode(cdi, type=_Document).devices
    return frozenset((node.host_path, node.path) for device in devices for node in device.edits.nodes)


def mounts_in(cdi: str) -> frozenset[str]:
    """The host's paths that a file of ours mounts."""
    devices = msgspec.json.decode(cdi, type=_Document).devices
    return frozenset(mount.host_path for device in devices for mount in device.edits.mounts)


def _edits(edits: ContainerEdits) -> Mapping[str, Any]:
    told: dict[str, Any] = {}
    if edits.environment:
        told["env"] = [f"{name}={value}" for name, value in sorted(edits.environment.items())]
    if edits.nodes:
        told["deviceNodes"] = [
            {"path": node.container_path, "hostPath": node.host_path, "permissions": node.permissions}
            for node in edits.nodes
        ]
    if edits.mounts:
        told["mounts"] = [
            {
                "hostPath": mount.host_path,
                "containerPath": mount.container_path,
                "options": ["ro" if mount.read_only else "rw", "nosuid", "nodev", "rbind"],
            }
            for mount in edits.mounts
        ]
    return told
