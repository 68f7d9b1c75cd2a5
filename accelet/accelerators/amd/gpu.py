"""An AMD GPU or one of its partitions as one scan saw it, and the devices it is offered as."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Annotated

import msgspec
from msgspec import Meta

from accelet.accelerators.device import HEALTHY, Device, DeviceId, Health, NearGroup, UnitId
from accelet.accelerators.edits import DeviceNode
from accelet.accelerators.pci import PciAddress
from accelet.accelerators.settings import Glob, PciDeviceId, as_id, can_meet, either, globs_meet

DRIVER = "amdgpu"
WHOLE = "whole"
"""The mode of a GPU that cannot be partitioned."""

Product = Annotated[str, Meta(min_length=1, description="shell pattern over product names, as *MI300X*")]
Mode = Annotated[str, Meta(min_length=1, description="shell pattern over modes, as cpx_* or whole")]


@dataclass(frozen=True, slots=True)
class AmdGpu:
    """A whole GPU, or a compute partition of one (`partition` is its number).

    `mode` is how the GPU is cut (`cpx_nps4`), `whole` where it cannot be. `nodes` are the device nodes a
    program needs to compute on it, /dev/kfd included. `hive` names the GPUs that xGMI connects with each
    other, None where KFD says nothing of it. `is_integrated`: the GPU of a processor (APU).
    """

    pci: PciAddress
    partition: int | None = None
    mode: str = WHOLE
    model: str | None = None
    pci_device: str | None = None
    numa_node: int | None = None
    memory_bytes: int | None = None
    hive: int | None = None
    health: Health = HEALTHY
    card: str | None = None
    nodes: tuple[DeviceNode, ...] = ()
    is_integrated: bool = False

    @property
    def gpu(self) -> UnitId:
        return UnitId(self.pci.as_id)

    @property
    def unit(self) -> UnitId:
        """Partitions are units of their own: each has a render node, and memory that is its alone."""
        return self.gpu if self.partition is None else UnitId(f"{self.gpu}-p{self.partition}")


class AmdMatch(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All criteria that are given must hold; none given means every GPU and every partition.

    `product`, `mode` and `id` are shell patterns: over the product name, over how the GPU is cut
    (`spx_nps1`, `cpx_nps4`, `whole`), over the PCI address in either writing.
    """

    product: Annotated[tuple[Product, ...], Meta(min_length=1)] | None = None
    mode: Annotated[tuple[Mode, ...], Meta(min_length=1)] | None = None
    device_id: Annotated[tuple[PciDeviceId, ...], Meta(min_length=1)] | None = None
    id: Glob | None = None

    def mismatch(self, gpu: AmdGpu) -> str | None:
        """Why `gpu` is not one of these; None if it is one."""
        name = gpu.model or ""
        if self.product is not None and not any(fnmatchcase(name, glob) for glob in self.product):
            return f"its product is {name or 'unknown'}, not {either(self.product)}"
        if self.mode is not None and not any(fnmatchcase(gpu.mode, glob) for glob in self.mode):
            return f"its mode is {gpu.mode}, not {either(self.mode)}"
        wanted = self.device_ids()
        if wanted is not None and gpu.pci_device not in wanted:
            return f"its PCI device id is {gpu.pci_device or 'unknown'}, not {either(sorted(wanted))}"
        if self.id is not None and not fnmatchcase(gpu.gpu, as_id(self.id)):
            return f"its PCI address {gpu.pci} does not match {self.id}"
        return None

    def overlaps(self, other: "AmdMatch") -> bool:
        """Whether one GPU can be matched by both, as far as the criteria alone can tell."""
        return (
            can_meet(self.device_ids(), other.device_ids())
            and (self.id is None or other.id is None or globs_meet(as_id(self.id), as_id(other.id)))
            and _any_meet(self.product, other.product)
            and _any_meet(self.mode, other.mode)
        )

    def device_ids(self) -> frozenset[str] | None:
        """The wanted device ids as sysfs writes them; None for any."""
        return None if self.device_id is None else frozenset(map(str.lower, self.device_id))


def _any_meet(mine: tuple[str, ...] | None, theirs: tuple[str, ...] | None) -> bool:
    return mine is None or theirs is None or any(globs_meet(one, two) for one in mine for two in theirs)


def offer_gpus(gpus: Iterable[AmdGpu], shares: int) -> tuple[Device, ...]:
    """Each GPU or partition `shares` times: in order of PCI address, then partition, then share."""
    ordered = sorted(gpus, key=lambda gpu: (gpu.pci, -1 if gpu.partition is None else gpu.partition))
    spans = _hives_span_numa_nodes(ordered)
    return tuple(
        device for gpu in ordered for device in _offer_gpu(gpu, shares, _groups(gpu, hive_first=spans))
    )


_WORTH_OF_GPU, _WORTH_OF_HIVE, _WORTH_OF_NUMA_NODE = 10, 30, 10
"""By how much scores of ROCm's plugin differ: same GPU 10 or 20, xGMI 10 or PCIe 40, NUMA node 10 or 20."""


def _hives_span_numa_nodes(gpus: Iterable[AmdGpu]) -> bool:
    found = {(gpu.hive, gpu.numa_node) for gpu in gpus if gpu.hive and gpu.numa_node is not None}
    return len({hive for hive, _ in found}) < len(found)


def _groups(gpu: AmdGpu, *, hive_first: bool) -> tuple[NearGroup, ...]:
    """GPU, hive and NUMA node. The wider of hive and NUMA node comes first; the other counts within it."""
    hive = () if not gpu.hive else (NearGroup(f"hive {gpu.hive:016x}", _WORTH_OF_HIVE),)
    numa = () if gpu.numa_node is None else (NearGroup(f"NUMA node {gpu.numa_node}", _WORTH_OF_NUMA_NODE),)
    part = () if gpu.partition is None else (NearGroup(f"GPU {gpu.gpu}", _WORTH_OF_GPU),)
    return (*hive, *numa, *part) if hive_first else (*numa, *hive, *part)


def _offer_gpu(gpu: AmdGpu, shares: int, groups: tuple[NearGroup, ...]) -> Iterator[Device]:
    for share in range(shares) if shares > 1 else (None,):
        yield Device(
            id=DeviceId(gpu.unit if share is None else f"{gpu.unit}-s{share}"),
            unit=gpu.unit,
            health=gpu.health,
            numa_nodes=() if gpu.numa_node is None else (gpu.numa_node,),
            nodes=gpu.nodes,
            card=gpu.card,
            pci=str(gpu.pci),
            pci_device=gpu.pci_device,
            model=gpu.model,
            driver=DRIVER,
            kind="integrated" if gpu.is_integrated else "discrete",
            share=share,
            memory_bytes=gpu.memory_bytes,
            # A GPU that was cut anew shares hardware with what it was before, whichever of both is held.
            parent=gpu.gpu,
            groups=groups,
            mode=None if gpu.mode == WHOLE else gpu.mode,
            fabric=None if not gpu.hive else f"hive-{gpu.hive:016x}",
        )
