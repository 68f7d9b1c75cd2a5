"""How much memory devices have, by the cgroup controller `dmem`.

Linux has it since 6.14 (Documentation/admin-guide/cgroup-v2.rst). xe accounts for the memory of its cards: a
region for each tile, `vram0` and `vram1`. i915 does not. To read it asks no hardware and wakes no card.
"""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from accelet.accelerators.hostfiles import MOST_BYTES, read_text
from accelet.accelerators.pci import PciAddress

CGROUPS: Final = "sys/fs/cgroup"
"""The root of the cgroups of version 2, below the root of the host."""

MOST_REGIONS: Final = 1024
"""Eight cards of two tiles with all their virtual functions have fewer."""

_LONGEST: Final = 1 << 16
_LINE = re.compile(r"drm/([0-9a-f:.]{7,20})/([a-z0-9_]{1,16}) ([0-9]{1,19})", re.ASCII)
_OF_A_TILE = re.compile(r"vram([0-9]{1,2})", re.ASCII)

Region = tuple[PciAddress, str]
"""A region of a device's memory, as `vram0`."""


def read_capacities(root: Path) -> Mapping[Region, int]:
    """The bytes of each region of the host; none where its kernel has no such controller."""
    return read_regions(root / CGROUPS / "dmem.capacity")


def read_regions(file: Path) -> Mapping[Region, int]:
    """The bytes that a file of `dmem` says of each region; lines that are no such thing are left out."""
    text = read_text(file, _LONGEST) or ""
    lines = text.splitlines()
    if len(text.encode()) >= _LONGEST:
        lines = lines[:-1]  # its number may have been cut short
    parsed = (_LINE.fullmatch(line.strip()) for line in lines[:MOST_REGIONS])
    matches = ((PciAddress.parse(match[1]), match) for match in parsed if match is not None)
    return {
        (pci, match[2]): int(match[3])
        for pci, match in matches
        if pci is not None and int(match[3]) <= MOST_BYTES
    }


def tiles_of(pci: PciAddress | None, regions: Mapping[Region, int]) -> Mapping[int, int]:
    """The bytes of each tile of a card, by the tile's number."""
    named = ((_OF_A_TILE.fullmatch(name), size) for (of, name), size in regions.items() if of == pci)
    return {int(match[1]): size for match, size in named if match is not None and size}
