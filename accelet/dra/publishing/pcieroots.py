"""Which PCIe root complex each device hangs on, as sysfs shows it."""

import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path

_ROOT = re.compile(r"/(pci[0-9a-f]{4,8}:[0-9a-f]{2})/")


def read_pcie_roots(root: Path, addresses: Iterable[str | None]) -> Mapping[str, str]:
    """The root complexes (`pci0000:00`) by PCI address, of those devices whose place `root`'s sysfs shows."""
    found = {}
    for address in addresses:
        if address is None or address in found:
            continue
        match = _ROOT.search(os.path.realpath(root / "sys/bus/pci/devices" / address))
        if match is not None:
            found[address] = match[1]
    return found
