"""Google's functions on a host's PCI bus, as sysfs describes them."""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from accelet.accelerators.tpu.table import GOOGLE_VENDOR

_ADDRESS: Final = re.compile(r"([0-9a-f]{4,8}):([0-9a-f]{2}):([0-9a-f]{2})\.([0-7])")
_ID: Final = re.compile(r"0x[0-9a-f]{4}")
_BRIDGE_CLASS: Final = "0x0604"


@dataclass(frozen=True, slots=True)
class Address:
    """A PCI address; its order is that of the bus."""

    text: str

    @property
    def parts(self) -> tuple[int, ...]:
        match = _ADDRESS.fullmatch(self.text)
        assert match is not None, "only addresses that match are made"
        return tuple(int(part, 16) for part in match.groups())

    @property
    def slot(self) -> str:
        """The address without its function: `0000:00:05`."""
        return self.text.rpartition(".")[0]


@dataclass(frozen=True, slots=True)
class Function:
    """A PCI function of Google's, as far as sysfs says; None where it does not.

    `pci_class` is the whole class (`0x120000`), `iommu_group` and `accel` the numbers behind `/dev/vfio` and
    `/dev/accel`.
    `config_fault` says why its configuration cannot be read. `group_strangers` are others in its IOMMU group,
    without bridges and functions of its own slot.
    """

    address: Address
    device: str
    subsystem_device: str | None = None
    pci_class: str | None = None
    numa_node: int | None = None
    driver: str | None = None
    iommu_group: int | None = None
    accel: int | None = None
    config_fault: str | None = None
    group_strangers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A function of Google's whose device id cannot be told."""

    address: Address
    reason: str


def read_functions(root: Path) -> list[Function | Unreadable]:
    """Every PCI function of Google's below `root`, in order of address.

    Raises:
        OSError: the bus as a whole cannot be listed, other than for not being there.
    """
    bus = root / "sys/bus/pci/devices"
    try:
        names = [entry.name for entry in bus.iterdir()]
    except FileNotFoundError:
        return []
    accels = _accels_by_address(root)
    addresses = sorted((Address(name) for name in names if _ADDRESS.fullmatch(name)), key=lambda a: a.parts)
    return [
        _read_function(root, address, accels.get(address.text))
        for address in addresses
        if read_line(bus / address.text / "vendor") == GOOGLE_VENDOR
    ]


def read_line(path: Path) -> str | None:
    """A sysfs attribute without its line end; None if it cannot be read."""
    try:
        return path.read_text(encoding="ascii", errors="replace").strip()
    except OSError:
        return None


def read_number(path: Path) -> int | None:
    """A sysfs attribute that is a number of 0 or more; None if it is anything else."""
    text = read_line(path)
    return int(text) if text is not None and re.fullmatch("[0-9]{1,6}", text) else None


def _read_function(root: Path, address: Address, accel: int | None) -> Function | Unreadable:
    folder = root / "sys/bus/pci/devices" / address.text
    device = read_line(folder / "device")
    if device is None or not _ID.fullmatch(device):
        shown = "it cannot be read" if device is None else f"it holds {device!r}"
        return Unreadable(address, f"the PCI device id of {address.text} is unknown: {shown}")
    group = _link_name(folder / "iommu_group")
    return Function(
        address=address,
        device=device,
        subsystem_device=read_line(folder / "subsystem_device"),
        pci_class=read_line(folder / "class"),
        numa_node=read_number(folder / "numa_node"),
        driver=_link_name(folder / "driver"),
        iommu_group=int(group) if group is not None and group.isdecimal() else None,
        accel=accel,
        config_fault=_find_config_fault(folder / "config"),
        group_strangers=() if group is None else tuple(_strangers(root, group, address)),
    )


def _accels_by_address(root: Path) -> dict[str, int]:
    """The N of accelN by the PCI address it belongs to."""
    found = {}
    try:
        entries = sorted((root / "sys/class/accel").iterdir())
    except OSError:
        return {}
    for entry in entries:
        match = re.fullmatch("accel([0-9]{1,4})", entry.name)
        address = _link_name(entry / "device")
        if match and address is not None:
            found[address] = int(match[1])
    return found


def _link_name(path: Path) -> str | None:
    """The name of what a link leads to; the name is right also where the link leaves the root."""
    return Path(os.path.realpath(path)).name if path.is_symlink() else None


def _find_config_fault(path: Path) -> str | None:
    """Reads the vendor id where the bus itself gives it: all ones from a device that does not answer."""
    try:
        with path.open("rb") as file:
            start = file.read(4)
    except FileNotFoundError:
        return None
    except OSError as error:
        return f"its PCI configuration cannot be read ({error.strerror})"
    if start[:2] == b"\xff\xff" or len(start) < 4:
        return "it does not answer on the PCI bus (its configuration reads as 0xffff)"
    return None


def _strangers(root: Path, group: str, address: Address) -> Iterator[str]:
    try:
        members = sorted(
            entry.name for entry in (root / "sys/kernel/iommu_groups" / group / "devices").iterdir()
        )
    except OSError:
        return
    for member in members:
        pci_class = read_line(root / "sys/bus/pci/devices" / member / "class") or ""
        # VFIO itself leaves bridges of a group to their driver: they give a container no device.
        if not member.startswith(f"{address.slot}.") and not pci_class.startswith(_BRIDGE_CLASS):
            yield member
