"""Google's functions on a host's PCI bus, as sysfs describes them."""

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Final

from accelet.accelerators.device import HEALTHY, Health
from accelet.accelerators.hostfiles import is_folder, read_link_name, read_names, read_numa_node, read_text
from accelet.accelerators.pci import PciAddress
from accelet.accelerators.reading.hardwarereads import NO_ANSWER, HardwareReads, unanswered_health
from accelet.accelerators.reading.pciconfig import read_config_health
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
    `config_health` is how well it answers on the bus; where it no longer `answers` at all, the rest is as it
    was last seen. `group_strangers` are others in its IOMMU group,
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
    answers: bool = True
    group_strangers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A function that may be a TPU's, of which sysfs does not tell what it is. `code`: what is missing."""

    address: PciAddress
    code: str
    reason: str


_Entry = tuple[PciAddress, int]
"""An address on the bus, and the inode that tells its entry from the next one at that address."""


class FunctionReads:
    """Reads Google's functions one by one, and remembers each in case that it does not answer one day."""

    def __init__(self) -> None:
        self._reads = HardwareReads()
        self._last: Mapping[_Entry, Function | Unreadable | None] = {}

    def read(self, root: Path) -> list[Function | Unreadable]:
        """Every PCI function of Google's below `root`, in order of address.

        One that does not answer is as it was last seen, with that fault; one that never did may be a TPU's.

        Raises:
            OSError: the bus as a whole cannot be listed, other than for not being there.
        """
        entries = _list_functions(root)
        accels = _accels_by_address(root)
        reads = {one: partial(_read_if_googles, root, one[0], accels.get(one[0])) for one in entries}
        answers = self._reads.ask(reads)
        seen = {one: answers[one] if one in answers else self._without_answer(one) for one in entries}
        self._last = seen
        return [found for found in seen.values() if found is not None]

    def _without_answer(self, entry: _Entry) -> Function | Unreadable | None:
        unanswered = unanswered_health("chip")
        if entry not in self._last:
            return Unreadable(entry[0], NO_ANSWER, unanswered.reason or "")
        last = self._last[entry]
        return replace(last, config_health=unanswered, answers=False) if isinstance(last, Function) else last


def _list_functions(root: Path) -> list[_Entry]:
    try:
        with os.scandir(root / PCI_DEVICES) as entries:
            named = [(PciAddress.parse(entry.name), entry.inode()) for entry in entries]
    except FileNotFoundError:
        return []
    return sorted((address, inode) for address, inode in named if address is not None)


def _read_if_googles(root: Path, address: PciAddress, accel: int | None) -> Function | Unreadable | None:
    folder = root / PCI_DEVICES / str(address)
    vendor = read_text(folder / "vendor")
    if vendor == GOOGLE_VENDOR:
        return _read_function(root, address, accel)
    if (vendor is None or not _ID.fullmatch(vendor)) and _may_be_a_chip(folder):
        shown = "cannot be read" if vendor is None else f"reads {vendor[:32]!r}"
        reason = f"its PCI vendor {shown}, so nobody can tell whether it is a TPU"
        return Unreadable(address, "unreadable-vendor", reason)
    return None


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
