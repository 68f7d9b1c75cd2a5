"""The `nvidia-gpu` back-end: one resource's share of the node's NVIDIA GPUs."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from accelet.accelerators.backend import Tiles
from accelet.accelerators.device import Device, DeviceId
from accelet.accelerators.edits import ContainerEdits
from accelet.accelerators.errors import EditsError
from accelet.accelerators.gathering import gather_edits
from accelet.accelerators.inventory import Inventory, Skipped
from accelet.accelerators.nvidia.gpu import NvidiaGpu, offer_gpus
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
        if tiles:
            raise EditsError("an NVIDIA GPU has no tiles that a container could be restricted to")
        if self.settings.inject == "cdi":
            return gather_edits(devices)
        units = dict.fromkeys(device.unit for device in sorted(devices, key=lambda one: one.pci or ""))
        return gather_edits(devices, {VISIBLE: ",".join(units)})


def select_gpus(found: GpuScan, settings: NvidiaGpuSettings) -> Inventory:
    """The devices one resource makes of the GPUs that were found."""
    skipped = dict(_skip(found, settings))
    chosen = [gpu for gpu in found.gpus if gpu.unit not in skipped]
    return Inventory(
        devices=offer_gpus(chosen, settings.shares, by_cdi=settings.inject == "cdi"),
        skipped=found.skipped + tuple(skipped.values()),
        warnings=found.problems if settings.inject == "cdi" else (),
        unanswered=found.unanswered,
    )


def _skip(found: GpuScan, settings: NvidiaGpuSettings) -> Iterator[tuple[str, Skipped]]:
    for gpu in found.gpus:
        if (refusal := _refusal(gpu, found, settings)) is not None:
            code, reason = refusal
            yield gpu.unit, Skipped(f"/sys/bus/pci/devices/{gpu.pci}", code, reason, gpu.unit)


def _refusal(gpu: NvidiaGpu, found: GpuScan, settings: NvidiaGpuSettings) -> tuple[str, str] | None:
    reason = settings.match.mismatch(gpu)
    if reason is not None:
        return "not-selected", f"this resource leaves it out: {reason}"
    return found.unnamed.get(gpu.unit) if settings.inject == "cdi" else None
