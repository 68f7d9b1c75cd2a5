"""Groups of files that make devices; a group of squat/generic-device-plugin is read as it stands."""

from itertools import product
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from accelet.accelerators.files.globs import find_fault, globs_meet
from accelet.runtime.settings import Contradiction, FieldPath

MountPath = Annotated[str, Meta(pattern="^(/.*)?$", description="an absolute path in the container")]
HostGlob = Annotated[
    str, Meta(pattern="^/.*[^/]$", description="an absolute path or glob on the host, as /dev/video*")
]
Permissions = Annotated[str, Meta(pattern="^[rwm]{0,3}$", description="of r, w, m (mknod)")]
Count = Annotated[int, Meta(ge=0, le=10_000)]
UsbNumber = Annotated[
    str, Meta(pattern="^(0[xX])?[0-9a-fA-F]{1,4}$", description="hexadecimal, as 1050 or 0x1050")
]


class GroupPath(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """One path or glob of a group.

    `limit` is how often one match may serve in a group whose other globs match more. What is
    `optional` and matches nothing is left out of its group. Zero and empty stand for the default, as
    they do in generic-device-plugin.
    """

    path: HostGlob
    mount_path: MountPath = ""
    type: Literal["Device", "Mount"] = "Device"
    permissions: Permissions = ""
    read_only: bool = False
    limit: Count = 1
    optional: bool = False


class UsbDevice(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """USB devices by vendor and product id and, unless empty, serial number."""

    vendor: UsbNumber
    product: UsbNumber
    serial: str = ""

    @property
    def name(self) -> str:
        """`1050:0407`, as lsusb writes it."""
        return f"{int(self.vendor, 16):04x}:{int(self.product, 16):04x}"


class Group(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What one container gets together, `count` containers at a time.

    The n-th matches of all `paths` make the n-th device; all USB devices that match are one device.
    """

    count: Count = 1
    paths: tuple[GroupPath, ...] = ()
    usb: tuple[UsbDevice, ...] = ()


def group_problems(where: FieldPath, group: Group) -> list[Contradiction]:
    found = []
    if not group.paths and not group.usb:
        found.append(Contradiction(where, "a group needs paths or usb"))
    for index, path in enumerate(group.paths):
        here = (*where, "paths", index)
        if fault := find_fault(path.path):
            found.append(Contradiction((*here, "path"), fault))
        if path.type == "Mount" and path.permissions:
            found.append(Contradiction((*here, "permissions"), "a Mount has no permissions; it has readOnly"))
        if path.type == "Device" and path.read_only:
            found.append(Contradiction((*here, "readOnly"), "a Device has no readOnly; it has permissions"))
    return found


def groups_meet(one: Group, other: Group) -> bool:
    """Whether both would make the same device: the same matches in the same places, or the same USB ids."""
    paths_meet = (
        bool(one.paths)
        and len(one.paths) == len(other.paths)
        and all(globs_meet(a.path, b.path) for a, b in zip(one.paths, other.paths, strict=True))
    )
    return paths_meet or any(_usb_meet(a, b) for a, b in product(one.usb, other.usb))


def _usb_meet(one: UsbDevice, other: UsbDevice) -> bool:
    return one.name == other.name and (not one.serial or not other.serial or one.serial == other.serial)
