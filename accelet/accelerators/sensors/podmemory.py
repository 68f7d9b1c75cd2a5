"""Memory of cards by the dmem cgroup: what there is, and what each pod has of it.

Linux has it since 6.14 (kernel/cgroup/dmem.c); xe accounts for the memory of its cards, i915 does not.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from accelet.accelerators.hostfiles import MOST_BYTES, read_names, read_text
from accelet.accelerators.pci import PciAddress
from accelet.accelerators.sensors.sensorfile import as_label

MOST_PODS = 512
"""A kubelet runs 110 pods unless it is told otherwise."""

_CGROUPS = "sys/fs/cgroup"
_MOST_REGIONS = 64
_LINE = re.compile(r"drm/([0-9a-f:.]{7,20})/([a-z0-9_]{1,16}) ([0-9]{1,19})")
_PARENTS = ("kubepods", "kubepods.slice")
_CLASS = re.compile(r"burstable|besteffort|kubepods-(?:burstable|besteffort)\.slice")
_POD = re.compile(r"(?:kubepods-(?:burstable-|besteffort-)?)?pod([0-9a-fA-F_-]{32,36})(?:\.slice)?")

Region = tuple[PciAddress, str]
"""A region of a card's memory, as `vram0`: one a tile."""


@dataclass(frozen=True, slots=True)
class CardMemory:
    """In bytes: the size of each region, and what the pods of each UID have of it."""

    sizes: Mapping[Region, int] = field(default_factory=lambda: MappingProxyType({}))
    used: Mapping[str, Mapping[Region, int]] = field(default_factory=lambda: MappingProxyType({}))


def read_card_memory(root: Path, *, of_pods: bool) -> CardMemory:
    """What the cgroups below `root` tell; nothing where the kernel has no such controller."""
    cgroups = root / _CGROUPS
    sizes = _read_regions(cgroups / "dmem.capacity")
    if not sizes or not of_pods:
        return CardMemory(sizes)
    found = ((uid, _read_regions(folder / "dmem.current")) for uid, folder in _find_pods(cgroups))
    return CardMemory(sizes, {uid: regions for uid, regions in found if regions})


def _read_regions(file: Path) -> Mapping[Region, int]:
    lines = (read_text(file) or "").splitlines()[:_MOST_REGIONS]
    parsed = (_LINE.fullmatch(line.strip()) for line in lines)
    matches = ((PciAddress.parse(match[1]), match) for match in parsed if match is not None)
    return {
        (pci, as_label(match[2], "memory")): int(match[3])
        for pci, match in matches
        if pci is not None and int(match[3]) <= MOST_BYTES
    }


def _find_pods(cgroups: Path) -> Iterator[tuple[str, Path]]:
    """The cgroups of pods by their UIDs, as the kubelet lays them out with either of its drivers."""
    parents = [cgroups / name for name in _PARENTS]
    parents += [parent / name for parent in parents for name in read_names(parent) if _CLASS.fullmatch(name)]
    named = ((_POD.fullmatch(name), parent / name) for parent in parents for name in read_names(parent))
    pods = [(match[1].replace("_", "-").lower(), folder) for match, folder in named if match is not None]
    yield from pods[:MOST_PODS]
