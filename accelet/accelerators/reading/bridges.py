"""Which PCI bridges a function is behind, as its link on the bus says."""

from pathlib import Path
from typing import Final

MOST_BRIDGES: Final = 32
"""More than a machine has between its host bridge and a card."""


def read_bridges(function: Path) -> tuple[str, ...]:
    """The names above a function in /sys/devices, `pci0000:00` first; none where there is no such link.

    `function` is its entry in /sys/bus/pci/devices, which leads to
    `../../../devices/pci0000:00/0000:00:01.0/0000:01:00.0`.
    """
    try:
        names = function.readlink().parts
    except OSError:
        return ()
    if "devices" not in names:
        return ()
    return names[names.index("devices") + 1 : -1][:MOST_BRIDGES]
