"""The `files` back-end: devices that are files on the host."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Annotated, Self

import msgspec
from msgspec import Meta

from accelet.accelerators.backend import Tiles
from accelet.accelerators.device import Device, DeviceId
from accelet.accelerators.edits import ContainerEdits
from accelet.accelerators.files.globs import find_fault
from accelet.accelerators.files.groups import Group, GroupPath, HostGlob, group_problems, groups_meet
from accelet.accelerators.files.units import PathReads, find_path_units, find_usb_units
from accelet.accelerators.files.usb import UsbReads
from accelet.accelerators.gathering import gather_edits
from accelet.accelerators.inventory import Inventory, Skipped
from accelet.accelerators.reading.hardwarereads import HardwareReads
from accelet.accelerators.scancache import HostScan, ScanCache, uncached
from accelet.accelerators.settings import Settings
from accelet.runtime.settings import Contradiction


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

    def problems(self) -> tuple[Contradiction, ...]:
        found: list[Contradiction] = []
        if not self.paths and not self.groups:
            found.append(Contradiction((), "name at least one path or one group"))
        if self.groups and not self.paths and self.shares != 1:
            found.append(Contradiction(("shares",), "shares count for `paths`; in a group say `count`"))
        for index, glob in enumerate(self.paths):
            if fault := find_fault(glob):
                found.append(Contradiction(("paths", index), fault))
        for index, group in enumerate(self.groups):
            found += group_problems(("groups", index), group)
        return tuple(found)

    def overlaps(self, other: Self) -> bool:
        return any(groups_meet(one, two) for one, two in product(self.all_groups(), other.all_groups()))

    def finder(self) -> "FilesFinder":
        """Makes what scans for a resource of these settings."""
        return FilesFinder(self.all_groups())

    def backend(self, cache: ScanCache = uncached) -> "Files":
        return Files(self, cache(self.finder))


class GenericDevice(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One entry of generic-device-plugin's `devices`: there, `<domain>/<name>` is the resource."""

    name: Annotated[str, Meta(min_length=1)]
    groups: Annotated[tuple[Group, ...], Meta(min_length=1)]

    def settings(self) -> "FilesSettings":
        return FilesSettings(groups=self.groups)


class FilesFinder:
    """Looks for the devices of groups, again and again; not safe for use by several threads at once."""

    def __init__(
        self, groups: Sequence[Group], make_reads: Callable[[], HardwareReads] = HardwareReads
    ) -> None:
        """`make_reads` makes what asks for globs, for paths and for USB devices, in this order."""
        self._groups = tuple(groups)
        self._paths = PathReads(make_reads(), make_reads())
        self._usb = UsbReads(make_reads())

    def __call__(self, root: Path) -> Inventory:
        """What is there below `root`; raises nothing."""
        paths = self._paths.find(root, self._groups)
        plugged = self._usb.find(root) if any(group.usb for group in self._groups) else ()
        devices: dict[DeviceId, Device] = {}
        skipped: list[Skipped] = []
        for group in self._groups:
            for found in (*find_path_units(paths, group), *find_usb_units(root, group, plugged)):
                if isinstance(found, Skipped):
                    skipped.append(found)
                elif found.id in devices:
                    path = (found.nodes or found.mounts)[0].host_path
                    skipped.append(Skipped(path, "duplicate-unit", "another group of this resource has it"))
                else:
                    devices[found.id] = found
        unanswered = (*sorted(paths.unanswered), *self._usb.unanswered)
        return Inventory(tuple(devices.values()), tuple(skipped), unanswered=unanswered)


@dataclass(frozen=True, slots=True)
class Files:
    """Implements `accelet.accelerators.backend.Backend`; what is there, and answers, is healthy."""

    settings: FilesSettings
    find: HostScan[Inventory]

    def scan(self, root: Path) -> Inventory:
        return self.find(root)

    def valid_sets(
        self, inventory: Inventory, size: int, available: Collection[DeviceId] | None = None
    ) -> None:
        return None

    def edits(
        self,
        inventory: Inventory,
        devices: Sequence[Device],
        tiles: Tiles,
        environment: Mapping[str, str],
    ) -> ContainerEdits:
        return gather_edits(devices)
