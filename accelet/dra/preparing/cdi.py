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
