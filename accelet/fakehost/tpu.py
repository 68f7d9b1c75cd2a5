"""TPU hosts of every generation as trees of sysfs, /dev and /etc, put together from what public sources say
of them.

The v5e-8 addresses and groups are those printed by a real one (google/tunix); the others follow its pattern.
"""

import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path


@dataclass(frozen=True)
class PciFunction:
    """A PCI function; None leaves the attribute out. `group` is its IOMMU group, `accel` its accelN."""

    address: str
    device: str
    vendor: str | None = "0x1ae0"
    subsystem_device: str | None = None
    pci_class: str | None = "0x120000"
    numa_node: str | None = "0"
    driver: str | None = "vfio-pci"
    group: int | None = None
    accel: int | None = None
    config: bytes | None = b"\xe0\x1a" + bytes(62)


@dataclass(frozen=True)
class TpuHost:
    """A host below a root folder. `files` are further ones by path, written as they stand."""

    functions: tuple[PciFunction, ...] = ()
    files: Mapping[str, str] = field(default_factory=dict)

    def write(self, root: Path) -> Path:
        """Makes the tree: sysfs with its links, and a plain file for each device node."""
        (root / "sys/bus/pci/devices").mkdir(parents=True, exist_ok=True)
        for function in self.functions:
            write_function(root, function)
        for path, text in self.files.items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(text)
        return root

    def without(self, *addresses: str) -> "TpuHost":
        return replace(self, functions=tuple(f for f in self.functions if f.address not in addresses))

    def changed(self, address: str, **changes: object) -> "TpuHost":
        """The host with other attributes at one address."""
        functions = tuple(
            replace(f, **changes) if f.address == address else f  # type: ignore[arg-type]  # its fields' own types
            for f in self.functions
        )
        return replace(self, functions=functions)

    def with_functions(self, *functions: PciFunction) -> "TpuHost":
        return replace(self, functions=(*self.functions, *functions))

    def with_files(self, files: Mapping[str, str]) -> "TpuHost":
        return replace(self, files={**self.files, **files})


def write_function(root: Path, function: PciFunction) -> None:
    bus = function.address.rpartition(":")[0]
    folder = root / f"sys/devices/pci{bus}/{function.address}"
    folder.mkdir(parents=True)
    _link(root / f"sys/bus/pci/devices/{function.address}", folder)
    attributes = {
        "vendor": function.vendor,
        "device": function.device,
        "subsystem_device": function.subsystem_device,
        "class": function.pci_class,
        "numa_node": function.numa_node,
    }
    for name, value in attributes.items():
        if value is not None:
            (folder / name).write_text(f"{value}\n")
    if function.config is not None:
        (folder / "config").write_bytes(function.config)
    if function.driver is not None:
        driver = root / f"sys/bus/pci/drivers/{function.driver}"
        driver.mkdir(parents=True, exist_ok=True)
        _link(folder / "driver", driver)
    if function.group is not None:
        _write_group(root, folder, function)
    if function.accel is not None:
        _write_accel(root, folder, function)


def _write_group(root: Path, folder: Path, function: PciFunction) -> None:
    group = root / f"sys/kernel/iommu_groups/{function.group}"
    (group / "devices").mkdir(parents=True, exist_ok=True)
    _link(folder / "iommu_group", group)
    _link(group / "devices" / function.address, folder)
    if function.driver != "vfio-pci":
        return
    (root / "dev/vfio").mkdir(parents=True, exist_ok=True)
    (root / "dev/vfio/vfio").touch()
    (root / f"dev/vfio/{function.group}").touch()
    (root / f"sys/class/vfio/{function.group}").mkdir(parents=True, exist_ok=True)
    (root / f"sys/class/vfio/{function.group}/dev").write_text(f"239:{function.group}\n")


def _write_accel(root: Path, folder: Path, function: PciFunction) -> None:
    accel = folder / f"accel/accel{function.accel}"
    accel.mkdir(parents=True)
    (accel / "dev").write_text(f"121:{function.accel}\n")
    _link(accel / "device", folder)
    (root / "sys/class/accel").mkdir(parents=True, exist_ok=True)
    _link(root / f"sys/class/accel/accel{function.accel}", accel)
    (root / "dev").mkdir(exist_ok=True)
    (root / f"dev/accel{function.accel}").touch()


def _link(link: Path, target: Path) -> None:
    """As the kernel writes links: the last part is always the target's name."""
    link.parent.mkdir(parents=True, exist_ok=True)
    link.symlink_to(Path(os.path.relpath(target.parent, link.parent)) / target.name)


GVNIC = PciFunction("0000:00:03.0", "0x0042", pci_class="0x020000", driver="gvnic", group=20)
NVME = PciFunction("0000:00:02.0", "0x001f", pci_class="0x010802", driver="nvme", group=21)
"""What every such VM has beside its TPUs."""

_V5E_8_SLOTS = (
    ("0000:00:0c.0", 3, "0"),
    ("0000:00:0d.0", 2, "0"),
    ("0000:00:0e.0", 4, "0"),
    ("0000:00:0f.0", 7, "0"),
    ("0000:80:00.0", 1, "1"),
    ("0000:80:01.0", 5, "1"),
    ("0000:80:02.0", 6, "1"),
    ("0000:80:03.0", 0, "1"),
)
_FOUR_SLOTS = ("0000:00:04.0", "0000:00:05.0", "0000:00:06.0", "0000:00:07.0")


def _eight_by_vfio(device: str) -> TpuHost:
    chips = (PciFunction(slot, device, group=group, numa_node=node) for slot, group, node in _V5E_8_SLOTS)
    return TpuHost((NVME, GVNIC, *chips))


def _four_by_vfio(device: str) -> TpuHost:
    chips = (PciFunction(slot, device, group=group) for group, slot in enumerate(_FOUR_SLOTS))
    return TpuHost((NVME, GVNIC, *chips))


def _four_by_accel(device: str, subsystem_device: str | None = None) -> TpuHost:
    chips = (
        PciFunction(slot, device, subsystem_device=subsystem_device, driver="accel", accel=number)
        for number, slot in enumerate(_FOUR_SLOTS)
    )
    return TpuHost((NVME, GVNIC, *chips))


def _one_by_vfio(device: str) -> TpuHost:
    return TpuHost((NVME, GVNIC, PciFunction("0000:00:05.0", device, group=0)))


def _tpu7x(*slots: tuple[str, int, str]) -> TpuHost:
    """Chips of two functions each, in two groups following one another."""
    functions = (
        PciFunction(f"{slot}.{number}", "0x0076", group=group + number, numa_node=node)
        for slot, group, node in slots
        for number in (0, 1)
    )
    return TpuHost((NVME, GVNIC, *functions))


HOSTS: Mapping[str, TpuHost] = {
    "v2": _four_by_accel("0x0027", "0x004e"),
    "v3": _four_by_accel("0x0027", "0x004f"),
    "v4": _four_by_accel("0x005e"),
    "v4-lite": _four_by_accel("0x0056"),
    "v5e-1": _one_by_vfio("0x0063"),
    "v5e-4": _four_by_vfio("0x0063"),
    "v5e-8": _eight_by_vfio("0x0063"),
    "v5p": _four_by_vfio("0x0062"),
    "v6e-1": _one_by_vfio("0x006f"),
    "v6e-4": _four_by_vfio("0x006f"),
    "v6e-8": _eight_by_vfio("0x006f"),
    "tpu7x-1": _tpu7x(("0000:05:00", 0, "0")),
    "tpu7x-4": _tpu7x(
        ("0000:05:00", 2, "0"), ("0000:06:00", 0, "0"), ("0000:85:00", 6, "1"), ("0000:86:00", 4, "1")
    ),
}


def renumber(host: TpuHost) -> TpuHost:
    """The same hardware after a reboot that numbered its groups and accel files the other way round."""
    groups = [f.group for f in host.functions if f.group is not None]
    accels = [f.accel for f in host.functions if f.accel is not None]
    return replace(
        host,
        functions=tuple(
            replace(
                f,
                group=None if f.group is None else groups.pop(),
                accel=None if f.accel is None else accels.pop(),
            )
            for f in host.functions
        ),
    )


def rewrite(host: TpuHost, root: Path) -> None:
    """Writes the host in place of what is below `root`."""
    for name in ("sys", "dev"):
        shutil.rmtree(root / name, ignore_errors=True)
    host.write(root)
