"""All AMD GPUs and partitions of a node, and every candidate that is none with its reason."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from accelet.accelerators.amd.functions import BUS, FunctionLook, is_gpu, read_gpu
from accelet.accelerators.amd.gpu import AmdGpu
from accelet.accelerators.amd.topology import KfdNode, Topology, read_topology
from accelet.accelerators.device import UnitId
from accelet.accelerators.hostfiles import read_inodes
from accelet.accelerators.inventory import Skipped
from accelet.accelerators.pci import PciAddress
from accelet.accelerators.reading.hardwarereads import NO_ANSWER, HardwareReads, unanswered_health


@dataclass(frozen=True, slots=True)
class AmdScan:
    """What one look found, in order of PCI address and partition."""

    gpus: tuple[AmdGpu, ...] = ()
    skipped: tuple[Skipped, ...] = ()
    warnings: tuple[str, ...] = ()
    unanswered: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, order=True)
class _Function:
    """A PCI function, and the inode that tells its entry on the bus from the next one at that address."""

    pci: PciAddress
    inode: int

    @property
    def host_path(self) -> str:
        return f"/{BUS}/{self.pci}"


class AmdFinder:
    """Looks for the GPUs of one node, again and again; not safe for use by several threads at once."""

    def __init__(self) -> None:
        self._functions, self._kfd, self._gpus = HardwareReads(), HardwareReads(), HardwareReads()
        self._is_gpu: Mapping[_Function, bool] = {}
        self._last: Mapping[_Function, FunctionLook] = {}
        self._topology = Topology()

    def __call__(self, root: Path) -> AmdScan:
        """Reads every GPU below `root`; never raises for what one GPU's files say."""
        functions, unknown = self._find_functions(root)
        if not functions:
            return AmdScan(unanswered=unknown)
        topology = self._kfd.ask({"kfd": partial(read_topology, root)}).get("kfd")
        self._topology = self._topology if topology is None else topology
        nodes = sort_nodes(self._topology, [one.pci for one in functions])
        asked = {
            one: partial(read_gpu, root, one.pci, nodes[one.pci], some_hidden=self._topology.hidden > 0)
            for one in functions
        }
        answers = self._gpus.ask(asked)
        self._last = {one: answers.get(one) or self._without_answer(one) for one in functions}
        seen = [self._last[one] for one in functions]
        parts = [part for one in seen for part in one.parts]
        return AmdScan(
            tuple(parts),
            tuple(one.refusal for one in seen if one.refusal is not None),
            tuple(one.warning for one in seen if one.warning) + tuple(_fewer_partitions(parts)),
            unknown + tuple(one.host_path for one in functions if one not in answers),
        )

    def _find_functions(self, root: Path) -> tuple[list[_Function], tuple[str, ...]]:
        """AMD's GPUs on the bus in order of address, and what did not answer. Each is asked only once."""
        parsed = ((PciAddress.parse(name), inode) for name, inode in read_inodes(root / BUS).items())
        there = sorted(_Function(pci, inode) for pci, inode in parsed if pci is not None)
        new = [one for one in there if one not in self._is_gpu]
        answers = self._functions.ask({one: partial(is_gpu, root, str(one.pci)) for one in new})
        known = {**self._is_gpu, **answers}
        self._is_gpu = {one: known[one] for one in there if one in known}
        unknown = tuple(one.host_path for one in new if one not in answers)
        return [one for one in there if self._is_gpu.get(one)], unknown

    def _without_answer(self, function: _Function) -> FunctionLook:
        """As it was last seen, its health unknown; skipped where it never was."""
        health, last = unanswered_health("GPU"), self._last.get(function)
        if last is not None and last.parts:
            return replace(last, parts=tuple(replace(part, health=health) for part in last.parts))
        unit = UnitId(function.pci.as_id)
        return FunctionLook(refusal=Skipped(function.host_path, NO_ANSWER, health.reason or "", unit))


def sort_nodes(
    topology: Topology, functions: Collection[PciAddress]
) -> Mapping[PciAddress, Sequence[tuple[int, KfdNode]]]:
    """KFD's nodes by the GPU they belong to, each with the number of its partition, in order of number.

    Where KFD gives a function that is on the bus, that is the GPU. Else the function is the partition's
    number, and the GPU is at function 0. Nodes of one GPU that give one number are numbered by render node.
    """
    found: dict[PciAddress, list[tuple[int, KfdNode]]] = {pci: [] for pci in functions}
    for node in topology.nodes:
        first = replace(node.place, function=0)
        if node.place in found:
            found[node.place].append((node.partition, node))
        elif first in found:
            found[first].append((node.partition or node.place.function, node))
    return {pci: _numbered(nodes) for pci, nodes in found.items()}


def _numbered(nodes: Iterable[tuple[int, KfdNode]]) -> Sequence[tuple[int, KfdNode]]:
    ordered = sorted(nodes, key=lambda one: (one[0], one[1].render_minor))
    if len({number for number, _ in ordered}) == len(ordered):
        return ordered
    by_minor = sorted((node for _, node in ordered), key=lambda node: node.render_minor)
    return list(enumerate(by_minor))


def _fewer_partitions(parts: Sequence[AmdGpu]) -> Iterable[str]:
    """GPUs that have fewer partitions than others that are cut alike: normal where DRM devices run out."""
    counts = Counter(part.pci for part in parts if part.partition is not None)
    kinds = {part.pci: (part.pci_device, part.mode) for part in parts}
    most: dict[tuple[str | None, str], int] = {}
    for pci, count in counts.items():
        most[kinds[pci]] = max(count, most.get(kinds[pci], 0))
    for pci, count in counts.items():
        if count < most[kinds[pci]]:
            why = "the kernel may have run out of DRM devices"
            yield f"{pci} has {count} partitions, others of its kind {most[kinds[pci]]}: {why}"
