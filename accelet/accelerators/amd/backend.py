"""The `amd-gpu` back-end: one resource's share of the node's AMD GPUs and partitions."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from accelet.accelerators.amd.functions import BUS
from accelet.accelerators.amd.gpu import offer_gpus
from accelet.accelerators.amd.scan import AmdScan
from accelet.accelerators.amd.settings import AmdGpuSettings
from accelet.accelerators.backend import Tiles, has_tiles
from accelet.accelerators.device import Device, DeviceId
from accelet.accelerators.edits import ContainerEdits
from accelet.accelerators.errors import EditsError
from accelet.accelerators.gathering import gather_edits
from accelet.accelerators.inventory import Inventory, Skipped
from accelet.accelerators.scancache import HostScan


@dataclass(frozen=True, slots=True)
class AmdGpus:
    """Implements `accelet.accelerators.backend.Backend`."""

    settings: AmdGpuSettings
    find: HostScan[AmdScan]

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
        """Device nodes alone: KFD shows a container the GPUs whose render node it may open."""
        if has_tiles(tiles):
            raise EditsError("an AMD GPU has no tiles that a container could be restricted to")
        return gather_edits(devices)


def select_gpus(found: AmdScan, settings: AmdGpuSettings) -> Inventory:
    """The devices one resource makes of the GPUs and partitions that were found."""
    reasons = [(gpu, settings.match.mismatch(gpu)) for gpu in found.gpus]
    skipped = (
        Skipped(f"/{BUS}/{gpu.pci}", "not-selected", f"this resource leaves it out: {reason}", gpu.unit)
        for gpu, reason in reasons
        if reason is not None
    )
    return Inventory(
        devices=offer_gpus((gpu for gpu, reason in reasons if reason is None), settings.shares),
        skipped=(*found.skipped, *skipped),
        warnings=found.warnings,
        unanswered=found.unanswered,
    )
