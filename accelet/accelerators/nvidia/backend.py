"""The `nvidia-gpu` back-end: one resource's share of the node's NVIDIA GPUs, or of their MIG instances."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from accelet.accelerators.backend import Tiles, has_tiles
from accelet.accelerators.device import Device, DeviceId, UnitId
from accelet.accelerators.edits import ContainerEdits
from accelet.accelerators.errors import EditsError
from accelet.accelerators.gathering import gather_edits
from accelet.accelerators.inventory import Inventory, Skipped
from accelet.accelerators.nvidia.functions import BUS
from accelet.accelerators.nvidia.gpu import NvidiaGpu, offer_gpus
from accelet.accelerators.nvidia.instances import MigInstance, mismatch, offer_instances
from accelet.accelerators.nvidia.scan import GpuScan
from accelet.accelerators.nvidia.settings import NvidiaGpuSettings
from accelet.accelerators.scancache import HostScan

VISIBLE = "NVIDIA_VISIBLE_DEVICES"


@dataclass(frozen=True, slots=True)
class NvidiaGpus:
    """Implements `accelet.accelerators.backend.Backend`."""

    settings: NvidiaGpuSettings
    find: HostScan[GpuScan]

    def scan(self, root: Path) -> Inventory:
        return select_gpus(self.find(root), self.settings)

    def valid_sets(
        self, inventory: Inventory, size: int, available: Collection[DeviceId] | None = None
    ) -> None:
        return None

    def edits(
        self,
        inventory: Inventory,
        devices: Sequence[Device],
        tiles: Tiles,
        environment: Mapping[str, str],
    ) -> ContainerEdits:
        if has_tiles(tiles):
            raise EditsError("an NVIDIA GPU has no tiles that a container could be restricted to")
        if self.settings.inject == "cdi":
            return gather_edits(devices)
        units = dict.fromkeys(device.unit for device in sorted(devices, key=lambda one: one.pci or ""))
        return gather_edits(devices, {VISIBLE: ",".join(units)})


def select_gpus(found: GpuScan, settings: NvidiaGpuSettings) -> Inventory:
    """The devices one resource makes of the GPUs and MIG instances that were found."""
    return _select_instances(found, settings) if settings.unit == "mig" else _select_whole(found, settings)


def _select_whole(found: GpuScan, settings: NvidiaGpuSettings) -> Inventory:
    by_cdi = settings.inject == "cdi"
    refusals = {gpu.unit: _refusal(gpu, found, settings) for gpu in found.gpus}
    return Inventory(
        devices=offer_gpus(
            (gpu for gpu in found.gpus if refusals[gpu.unit] is None), settings.shares, by_cdi=by_cdi
        ),
        skipped=found.skipped + tuple(_skips(found.gpus, refusals)),
        warnings=found.problems if by_cdi else (),
        unanswered=found.unanswered,
    )


def _select_instances(found: GpuScan, settings: NvidiaGpuSettings) -> Inventory:
    whole = {gpu.unit: _refuse_whole(gpu, settings) for gpu in found.gpus}
    wanted = [one for one in found.instances if settings.match.mismatch(one.gpu) is None]
    refusals = {one.unit: _refuse_instance(one, found, settings) for one in wanted}
    served = [one for one in wanted if refusals[one.unit] is None]
    return Inventory(
        devices=offer_instances(served, settings.shares),
        skipped=(
            *found.skipped,
            *_skips(found.gpus, whole),
            *found.unserved,
            *_skips_of_instances(wanted, refusals),
        ),
        warnings=(*found.problems, *_unlike(served, settings)),
        unanswered=found.unanswered,
    )


_Refusal = tuple[str, str]
"""A code and a sentence."""


def _skips(gpus: Sequence[NvidiaGpu], refusals: Mapping[UnitId, _Refusal | None]) -> Iterator[Skipped]:
    for gpu in gpus:
        if (refusal := refusals[gpu.unit]) is not None:
            yield Skipped(f"/{BUS}/{gpu.pci}", *refusal, gpu.unit)


def _skips_of_instances(
    instances: Sequence[MigInstance], refusals: Mapping[UnitId, _Refusal | None]
) -> Iterator[Skipped]:
    for one in instances:
        if (refusal := refusals[one.unit]) is not None:
            yield Skipped(f"/{BUS}/{one.gpu.pci}", refusal[0], f"{one.name}: {refusal[1]}", one.unit)


def _refusal(gpu: NvidiaGpu, found: GpuScan, settings: NvidiaGpuSettings) -> _Refusal | None:
    reason = settings.match.mismatch(gpu)
    if reason is not None:
        return "not-selected", f"this resource leaves it out: {reason}"
    if gpu.instances:
        return "partitioned", "it is cut into MIG instances; a resource with unit: mig serves these"
    return found.unnamed.get(gpu.unit) if settings.inject == "cdi" else None


def _refuse_whole(gpu: NvidiaGpu, settings: NvidiaGpuSettings) -> _Refusal | None:
    """Why nothing of a GPU is for a resource of instances."""
    reason = settings.match.mismatch(gpu)
    if reason is None and not gpu.instances:
        reason = "it has no MIG instances"
    return None if reason is None else ("not-selected", f"this resource leaves it out: {reason}")


def _refuse_instance(one: MigInstance, found: GpuScan, settings: NvidiaGpuSettings) -> _Refusal | None:
    reason = mismatch(settings.match, one)
    if reason is not None:
        return "not-selected", f"this resource leaves it out: {reason}"
    return found.unnamed.get(one.unit)


def _unlike(served: Sequence[MigInstance], settings: NvidiaGpuSettings) -> Iterator[str]:
    """GPUs that are cut differently have instances of different sizes, which one name would hide."""
    counts = Counter(one.gpu.pci for one in served)
    if settings.match.instance is None and len(set(counts.values())) > 1:
        said = ", ".join(f"{pci} has {count}" for pci, count in sorted(counts.items()))
        yield (
            f"the GPUs have different numbers of MIG instances ({said}), so these are not of one size: "
            "give each size a resource of its own by match.instance"
        )
