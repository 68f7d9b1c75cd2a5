"""Which files make which devices; the `devices` block of squat/generic-device-plugin is read as it stands."""

from itertools import product
from typing import Annotated, Literal, Self

import msgspec
from msgspec import Meta

from accelet.accelerators.backend import Backend
from accelet.accelerators.files.globs import find_fault, globs_meet
from accelet.accelerators.settings import FieldPath, Problem, Settings

HostPath = Annotated[str, Meta(pattern="^/", description="absolute path on the host")]
HostGlob = Annotated[
    str, Meta(pattern="^/.*[^/]$", description="absolute path or glob on the host, as /dev/video*")
]
Permissions = Annotated[str, Meta(pattern="^[rwm]{0,3}$", description="of r, w, m (mknod)")]
Count = Annotated[int, Meta(ge=0, le=10_000)]
UsbNumber = (
    Annotated[str, Meta(pattern="^(0[xX])?[0-9a-fA-F]{1,4}$", description="hexadecimal, as 1050 or 0x1050")]
    | Annotated[int, Meta(ge=0, le=0xFFFF, description="a number: YAML reads an unquoted 1050 as decimal")]
)


class GroupPath(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, rename="camel"):
    """One path or glob of a group.

    `limit` is how often one match may serve in a group whose other globs match more. What is
    `optional` and matches nothing is left out of its group. Zero and empty stand for the default, as
    they do in generic-device-plugin.
    """

    path: HostGlob
    mount_path: HostPath | Literal[""] = ""
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
        return f"{_usb_number(self.vendor):04x}:{_usb_number(self.product):04x}"


class Group(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What one container gets together, `count` containers at a time.

    The n-th matches of all `paths` make the n-th device; all USB devices that match are one device.
    """

    count: Count = 1
    paths: tuple[GroupPath, ...] = ()
    usb: tuple[UsbDevice, ...] = ()


class GenericDevice(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One entry of generic-device-plugin's `devices`: there, `<domain>/<name>` is the resource."""

    name: Annotated[str, Meta(min_length=1)]
    groups: Annotated[tuple[Group, ...], Meta(min_length=1)]

    def settings(self) -> "FilesSettings":
        return FilesSettings(groups=self.groups)


class FilesSettings(Settings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`paths`: each match is a device, for `shares` containers at a time. `groups`: see `Group`."""

    paths: tuple[HostGlob, ...] = ()
    permissions: Annotated[str, Meta(pattern="^[rwm]{1,3}$", description="of r, w, m (mknod)")] = "rw"
    shares: Annotated[int, Meta(ge=1, le=10_000)] = 1
    groups: tuple[Group, ...] = ()

    def all_groups(self) -> tuple[Group, ...]:
        """`paths` and `groups` in one form."""
        singles = tuple(
            Group(count=self.shares, paths=(GroupPath(path=path, permissions=self.permissions),))
            for path in self.paths
        )
        return singles + self.groups

    def problems(self) -> tuple[Problem, ...]:
        found: list[Problem] = []
        if not self.paths and not self.groups:
            found.append(Problem((), "name at least one path or one group"))
        if self.groups and not self.paths and self.shares != 1:
            found.append(Problem(("shares",), "shares count for `paths`; in a group say `count`"))
        for index, glob in enumerate(self.paths):
            if fault := find_fault(glob):
                found.append(Problem(("paths", index), fault))
        for index, group in enumerate(self.groups):
            found += _group_problems(("groups", index), group)
        return tuple(found)

    def overlaps(self, other: Self) -> bool:
        return any(_groups_meet(one, two) for one, two in product(self.all_groups(), other.all_groups()))

    def backend(self) -> Backend:
        from accelet.accelerators.files.backend import Files  # noqa: PLC0415 - it needs these settings

        return Files(self)


def _group_problems(where: FieldPath, group: Group) -> list[Problem]:
    found = []
    if not group.paths and not group.usb:
        found.append(Problem(where, "a group needs paths or usb"))
    for index, path in enumerate(group.paths):
        here = (*where, "paths", index)
        if fault := find_fault(path.path):
            found.append(Problem((*here, "path"), fault))
        if path.type == "Mount" and path.permissions:
            found.append(Problem((*here, "permissions"), "a Mount has no permissions; it has readOnly"))
        if path.type == "Device" and path.read_only:
            found.append(Problem((*here, "readOnly"), "a Device has no readOnly; it has permissions"))
    return found


def _groups_meet(one: Group, other: Group) -> bool:
    """Whether both would make the same device: the same matches in the same places, or the same USB ids."""
    paths_meet = (
        bool(one.paths)
        and len(one.paths) == len(other.paths)
        and all(globs_meet(a.path, b.path) for a, b in zip(one.paths, other.paths, strict=True))
    )
    return paths_meet or any(_usb_meet(a, b) for a, b in product(one.usb, other.usb))


def _usb_meet(one: UsbDevice, other: UsbDevice) -> bool:
    return one.name == other.name and (not one.serial or not other.serial or one.serial == other.serial)


def _usb_number(value: str | int) -> int:
    return value if isinstance(value, int) else int(value, 16)
