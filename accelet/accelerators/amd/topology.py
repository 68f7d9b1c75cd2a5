"""What KFD says of GPUs and partitions, under /sys/class/kfd/kfd/topology.

A node of it is a GPU, a partition of one, or a processor. The form is that of the kernel's kfd_topology.c and
of published recordings of MI300X (CPX) and Vega. The kernel answers EPERM for a node whose render node the
reader's device cgroup does not allow.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from accelet.accelerators.hostfiles import MOST_BYTES, read_names, read_text
from accelet.accelerators.pci import PciAddress

FOLDER = "sys/class/kfd/kfd/topology/nodes"
MOST_NODES = 512
"""More than any host has: 8 GPUs in 8 partitions each, and processors."""

_MOST_BANKS = 16
_NUMBER = re.compile("[0-9]{1,20}")
_MINORS = range(128, 1 << 20)
_FRAME_BUFFER = (1, 2)
"""Heap types of a GPU's own memory: visible to the processor, or not (kfd_crat.h)."""


@dataclass(frozen=True, slots=True)
class KfdNode:
    """A GPU or a partition: where KFD says it is, its render node's number, and its memory if that is said.

    `place` is the PCI address; of a partition its function may be the number of the partition instead.
    `partition` is the number by the newer way to say it, 0 where it is not used.
    """

    place: PciAddress
    partition: int
    render_minor: int
    memory_bytes: int | None = None
    hive: int | None = None


@dataclass(frozen=True, slots=True)
class Topology:
    """The GPUs and partitions, in order of KFD's numbers; `hidden` is how many nodes it does not show."""

    nodes: tuple[KfdNode, ...] = ()
    hidden: int = 0


def read_topology(root: Path) -> Topology:
    folder = root / FOLDER
    names = sorted((name for name in read_names(folder) if name.isdecimal()), key=int)[:MOST_NODES]
    nodes, hidden = [], 0
    for name in names:
        if _is_hidden(folder / name / "properties"):
            hidden += 1
        elif (node := _read_node(folder / name)) is not None:
            nodes.append(node)
    return Topology(tuple(nodes), hidden)


def _is_hidden(path: Path) -> bool:
    try:
        with path.open("rb", buffering=0) as file:
            file.read(1)
    except PermissionError:
        return True
    except OSError:
        return False
    return False


def _read_node(folder: Path) -> KfdNode | None:
    said = _numbers(read_text(folder / "properties") or "")
    minor, location = said.get("drm_render_minor", 0), said.get("location_id")
    if minor not in _MINORS or location is None or said.get("simd_count", 0) == 0:
        return None
    place = PciAddress(said.get("domain", 0), location >> 8 & 0xFF, location >> 3 & 0x1F, location & 7)
    return KfdNode(
        place, location >> 28 & 0xF, minor, _memory(folder / "mem_banks"), said.get("hive_id") or None
    )


def _memory(banks: Path) -> int | None:
    total = 0
    for name in read_names(banks)[:_MOST_BANKS]:
        said = _numbers(read_text(banks / name / "properties") or "")
        if said.get("heap_type") in _FRAME_BUFFER:
            total += said.get("size_in_bytes", 0)
    return total if 0 < total <= MOST_BYTES else None


def _numbers(text: str) -> Mapping[str, int]:
    """Lines of a name and a number."""
    lines = (line.partition(" ") for line in text.splitlines())
    return {name: int(value) for name, _, value in lines if _NUMBER.fullmatch(value)}
