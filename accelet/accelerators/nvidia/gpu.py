"""An NVIDIA GPU as one scan saw it, and the devices it is offered as."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Annotated

import msgspec
from msgspec import Meta

from accelet.accelerators.device import HEALTHY, Device, DeviceId, Health, NearGroup, UnitId
from accelet.accelerators.edits import DeviceNode
from accelet.accelerators.nvidia.driverfiles import GpuInstance
from accelet.accelerators.pci import PciAddress
from accelet.accelerators.settings import Glob, PciDeviceId, as_id, can_meet, either, globs_meet

DRIVER = "nvidia"

Instance = Annotated[str, Meta(min_length=1, description="shell pattern over MIG instances, as gi[7-9]-ci0")]
Product = Annotated[str, Meta(min_length=1, description="shell pattern over product names, as *H100*")]


@dataclass(frozen=True, slots=True)
class NvidiaGpu:
    """One GPU. `unit` is its UUID (`GPU-…`), which goes with the board into another slot.

    `minor` is the number of its device node, which is neither that of nvidia-smi nor that of CUDA. `nodes`
    are the device nodes that a program needs to compute on it, the common ones included. `cdi_name` is the
    device of a CDI specification that gives a container just this GPU, None where there is none. `bridges`
    are the PCI bridges above it, from the host bridge (`pci0000:00`) down. `instances` are the MIG instances
    it is cut into, `instance_nodes` the device nodes of theirs that are there.
    """

    unit: UnitId
    pci: PciAddress
    minor: int
    model: str | None = None
    pci_device: str | None = None
    numa_node: int | None = None
    health: Health = HEALTHY
    nodes: tuple[DeviceNode, ...] = ()
    cdi_name: str | None = None
    bridges: tuple[str, ...] = ()
    instances: tuple[GpuInstance, ...] = ()
    instance_nodes: frozenset[str] = frozenset()

    @property
    def node(self) -> str:
        return f"/dev/nvidia{self.minor}"


class GpuMatch(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All criteria that are given must hold; none given means every GPU of NVIDIA's driver.

    `product` are shell patterns over the product name (`NVIDIA H100 80GB HBM3`), `id` is one over the GPU's
    UUID or PCI address, in either writing. `instance` are patterns over MIG instances (`gi7-ci0`): by their
    numbers, as no file says their profiles.
    """

    product: Annotated[tuple[Product, ...], Meta(min_length=1)] | None = None
    device_id: Annotated[tuple[PciDeviceId, ...], Meta(min_length=1)] | None = None
    id: Glob | None = None
    instance: Annotated[tuple[Instance, ...], Meta(min_length=1)] | None = None

    def mismatch(self, gpu: NvidiaGpu) -> str | None:
        """Why `gpu` is not one of these; None if it is one."""
        name = gpu.model or ""
        if self.product is not None and not any(fnmatchcase(name, glob) for glob in self.product):
            return f"its product is {name or 'unknown'}, not {either(self.product)}"
        wanted = self.device_ids()
        if wanted is not None and gpu.pci_device not in wanted:
            return f"its PCI device id is {gpu.pci_device or 'unknown'}, not {either(sorted(wanted))}"
        if self.id is not None and not (
            fnmatchcase(gpu.unit.lower(), self.id.lower()) or fnmatchcase(gpu.pci.as_id, as_id(self.id))
        ):
            return f"neither its id {gpu.unit} nor its PCI address {gpu.pci} matches {self.id}"
        return None

    def overlaps(self, other: "GpuMatch") -> bool:
        """Whether one GPU can be matched by both, as far as the criteria alone can tell."""
        mine, theirs = self.product, other.product
        return (
            can_meet(self.device_ids(), other.device_ids())
            and (self.id is None or other.id is None or globs_meet(as_id(self.id), as_id(other.id)))
            and _any_meet(mine, theirs)
            and _any_meet(self.instance, other.instance)
        )

    def device_ids(self) -> frozenset[str] | None:
        """The wanted device ids as sysfs writes them; None for any."""
        return None if self.device_id is None else frozenset(map(str.lower, self.device_id))


def _any_meet(mine: tuple[str, ...] | None, theirs: tuple[str, ...] | None) -> bool:
    return mine is None or theirs is None or any(globs_meet(one, two) for one in mine for two in theirs)


def offer_gpus(gpus: Iterable[NvidiaGpu], shares: int, *, by_cdi: bool) -> tuple[Device, ...]:
    """Each GPU `shares` times: in order of PCI address, then share. Ids are UUIDs, then `-s0` for a share."""
    ordered = sorted(gpus, key=lambda gpu: gpu.pci)
    return tuple(device for gpu in ordered for device in _offer_gpu(gpu, shares, by_cdi=by_cdi))


_WORTH = 10
"""Of each step that two GPUs are closer: as the scores of NVIDIA's allocator differ (go-gpuallocator)."""

_SWITCH = 4
"""Bridges above a GPU behind a PCIe switch: host bridge, root port, and the two ports of the switch."""


def groups_of(gpu: NvidiaGpu) -> tuple[NearGroup, ...]:
    """NUMA node, host bridge, root port and nearest PCIe switch, as far as known. NVLink is in no file."""
    places = [] if gpu.numa_node is None else [f"NUMA node {gpu.numa_node}"]
    places += ["/".join(gpu.bridges[:count]) for count in (1, 2) if len(gpu.bridges) >= count]
    if len(gpu.bridges) >= _SWITCH:
        places.append("/".join(gpu.bridges[:-1]))
    return tuple(NearGroup(place, _WORTH) for place in places)


def _offer_gpu(gpu: NvidiaGpu, shares: int, *, by_cdi: bool) -> Iterator[Device]:
    for share in range(shares) if shares > 1 else (None,):
        yield Device(
            id=DeviceId(gpu.unit if share is None else f"{gpu.unit}-s{share}"),
            unit=gpu.unit,
            health=gpu.health,
            numa_nodes=() if gpu.numa_node is None else (gpu.numa_node,),
            nodes=() if by_cdi else gpu.nodes,
            pci=str(gpu.pci),
            pci_device=gpu.pci_device,
            model=gpu.model,
            driver=DRIVER,
            kind="discrete",
            share=share,
            cdi_name=gpu.cdi_name if by_cdi else None,
            groups=groups_of(gpu),
            # A GPU that was cut anew shares hardware with what it was before, whichever of both is held.
            parent=gpu.unit,
        )
