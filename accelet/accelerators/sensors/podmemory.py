"""Memory of cards by the dmem cgroup: what there is, and what each pod has of it."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType

from accelet.accelerators.hostfiles import read_names
from accelet.accelerators.reading.devicememory import CGROUPS, Region, read_capacities, read_regions

MOST_PODS = 512
"""A kubelet runs 110 pods unless it is told otherwise."""

_PARENTS = ("kubepods", "kubepods.slice")
_CLASS = re.compile(r"burstable|besteffort|kubepods-(?:burstable|besteffort)\.slice")
_POD = re.compile(r"(?:kubepods-(?:burstable-|besteffort-)?)?pod([0-9a-fA-F_-]{32,36})(?:\.slice)?")


@dataclass(frozen=True, slots=True)
class CardMemory:
    """In bytes: the size of each region, and what the pods of each UID have of it."""

    sizes: Mapping[Region, int] = field(default_factory=lambda: MappingProxyType({}))
    used: Mapping[str, Mapping[Region, int]] = field(default_factory=lambda: MappingProxyType({}))


def read_card_memory(root: Path, *, of_pods: bool) -> CardMemory:
    """What the cgroups below `root` tell; nothing where the kernel has no such controller."""
    sizes = read_capacities(root)
    if not sizes or not of_pods:
        return CardMemory(sizes)
    found = ((uid, read_regions(folder / "dmem.current")) for uid, folder in _find_pods(root / CGROUPS))
    return CardMemory(sizes, {uid: regions for uid, regions in found if regions})


def _find_pods(cgroups: Path) -> Iterator[tuple[str, Path]]:
    """The cgroups of pods by their UIDs, as the kubelet lays them out with either of its drivers."""
    parents = [cgroups / name for name in _PARENTS]
    parents += [parent / name for parent in parents for name in read_names(parent) if _CLASS.fullmatch(name)]
    named = ((_POD.fullmatch(name), parent / name) for parent in parents for name in read_names(parent))
    pods = [(match[1].replace("_", "-").lower(), folder) for match, folder in named if match is not None]
    yield from pods[:MOST_PODS]
