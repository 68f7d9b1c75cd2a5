"""Google's functions on a host's PCI bus, as sysfs describes them."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from accelet.accelerators.device import HEALTHY, Health
from accelet.accelerators.hostfiles import is_folder, read_link_name, read_names, read_numa_node, read_text
from accelet.accelerators.pci import PciAddress
from accelet.accelerators.pciconfig import read_config_health
from accelet.accelerators.tpu.table import GOOGLE_VENDOR, KNOWN_CHIPS

PCI_DEVICES: Final = "sys/bus/pci/devices"
VFIO_DRIVER: Final = "vfio-pci"

_ID: Final = re.compile(r"0x[0-9a-f]{4}")
_BRIDGE_CLASS: Final = "0x0604"


@dataclass(frozen=True, slots=True)
class Function:
    """A PCI function of Google's, as far as sysfs says; None where it does not.

    `pci_class` is the whole class (`0x120000`), `iommu_group` and `accel` the numbers behind `/dev/vfio` and
    `/dev/accel`.
    `config_health` is how well it answers on the bus. `group_strangers` are others in its IOMMU group,
    without bridges and functions of its own slot.
    """

    address: PciAddress
    device: str
    subsystem_device: str | None = None
    pci_class: str | None = None
    numa_node: int | None = None
    driver: str | None = None
    iommu_group: int | None = None
    accel: int | None = None
    config_health: Health = HEALTHY
    group_strangers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A function that may be a TPU's, of which sysfs does not tell what it is. `code`: what is missing."""

    address: PciAddress
    code: str
    reason: str


def read_functions(root: Path) -> list[Function | Unreadable]:
    """Every PCI function of Google's below `root`, in order of address.

    Raises:
        OSError: the bus as a whole cannot be listed, other than for not being there.
    """
    try:
        names = [entry.name for entry in (root / PCI_DEVICES).iterdir()]
    except FileNotFoundError:
        return []
    accels = _accels_by_address(root)
    found: list[Function | Unreadable] = []
    for address in sorted(filter(None, map(PciAddress.parse, names))):
        folder = root / PCI_DEVICES / str(address)
        vendor = read_text(folder / "vendor")
        if vendor == GOOGLE_VENDOR:
            found.append(_read_function(root, address, accels.get(address)))
        elif (vendor is None or not _ID.fullmatch(vendor)) and _may_be_a_chip(folder):
            shown = "cannot be read" if vendor is None else f"reads {vendor[:32]!r}"
            reason = f"its PCI vendor {shown}, so nobody can tell whether it is a TPU"
            found.append(Unreadable(address, "unreadable-vendor", reason))
    return found


def _may_be_a_chip(folder: Path) -> bool:
    """Whether a function without a vendor could be a TPU's by its device id; one that has gone is none."""
    device = read_text(folder / "device")
    return is_folder(folder) if device is None else device in KNOWN_CHIPS


def _read_function(root: Path, address: PciAddress, accel: int | None) -> Function | Unreadable:
    folder = root / PCI_DEVICES / str(address)
    device = read_text(folder / "device")
    if device is None or not _ID.fullmatch(device):
        shown = "cannot be read" if device is None else f"reads {device[:32]!r}"
        return Unreadable(
            address, "unreadable-device-id", f"its PCI device id {shown}, so nobody can tell what it is"
        )
    group = _read_group(folder)
    return Function(
        address=address,
        device=device,
        subsystem_device=read_text(folder / "subsystem_device"),
        pci_class=read_text(folder / "class"),
        numa_node=read_numa_node(folder),
        driver=read_link_name(folder / "driver"),
        iommu_group=group,
        accel=accel,
        config_health=read_config_health(folder / "config", GOOGLE_VENDOR, "chip"),
        group_strangers=() if group is None else tuple(_find_strangers(root, group, address)),
    )


def _read_group(folder: Path) -> int | None:
    name = read_link_name(folder / "iommu_group")
    return int(name) if name is not None and re.fullmatch("[0-9]{1,6}", name) else None


def _accels_by_address(root: Path) -> dict[PciAddress, int]:
    """The N of accelN by the function it belongs to."""
    found = {}
    for name in read_names(root / "sys/class/accel"):
        match = re.fullmatch("accel([0-9]{1,4})", name)
        address = PciAddress.parse(read_link_name(root / "sys/class/accel" / name / "device") or "")
        if match and address is not None:
            found[address] = int(match[1])
    return found


def _find_strangers(root: Path, group: int, address: PciAddress) -> Iterator[str]:
    """By the devices' own links: /sys/kernel, where groups list their members, need not be mounted."""
    for name in read_names(root / PCI_DEVICES):
        if _read_group(root / PCI_DEVICES / name) != group:
            continue
        member = PciAddress.parse(name)
        pci_class = read_text(root / PCI_DEVICES / name / "class") or ""
        is_same_slot = member is not None and slot_of(member) == slot_of(address)
        # VFIO itself leaves bridges of a group to their driver: they give a container no device.
        if not is_same_slot and not pci_class.startswith(_BRIDGE_CLASS):
            yield name


def slot_of(address: PciAddress) -> str:
    """The address without its function, as in ids: `0000-05-00`."""
    return address.as_id.rpartition(".")[0]
