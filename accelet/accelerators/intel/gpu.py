"""The `intel-gpu` back-end: one resource's share of the node's Intel GPUs."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

import msgspec

from accelet.accelerators.backend import Tiles
from accelet.accelerators.device import Device, DeviceId
from accelet.accelerators.edits import ContainerEdits
from accelet.accelerators.intel.card import ByPath, Card, Granularity, offer_cards
from accelet.accelerators.intel.cardmemory import MemoryByDevice, memory_problems, with_memory
from accelet.accelerators.intel.edits import gpu_edits
from accelet.accelerators.intel.match import CardMatch
from accelet.accelerators.intel.scan import CardFinder, CardScan
from accelet.accelerators.inventory import Inventory, Skipped
from accelet.accelerators.scancache import HostScan, ScanCache, uncached
from accelet.accelerators.settings import Settings, Shares
from accelet.runtime.settings import Contradiction


class IntelGpuSettings(Settings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Which cards, cut how finely, and what containers get besides the nodes.

    `by_path`: of /dev/dri/by-path a container sees the links to its own cards as device files
    (`single`), the folder with all links (`all`), or nothing. `pci_order` False leaves
    ZE_ENABLE_PCI_ID_DEVICE_ORDER unset beside a mask. `memory` is that of each card of a kind, where the
    kernel does not tell it.
    """

    match: CardMatch = msgspec.field(default_factory=CardMatch)
    unit: Granularity = "card"
    shares: Shares = 1
    by_path: ByPath = "single"
    pci_order: bool = True
    memory: MemoryByDevice = msgspec.field(default_factory=dict)

    def problems(self) -> tuple[Contradiction, ...]:
        return tuple(memory_problems(self.memory))

    def overlaps(self, other: Self) -> bool:
        return self.match.overlaps(other.match)

    def backend(self, cache: ScanCache = uncached) -> "IntelGpu":
        return IntelGpu(self, cache(CardFinder))


@dataclass(frozen=True, slots=True)
class IntelGpu:
    """Implements `accelet.accelerators.backend.Backend`."""

    settings: IntelGpuSettings
    find: HostScan[CardScan]

    def scan(self, root: Path) -> Inventory:
        chosen, found = self.settings, self.find(root)
        known = replace(found, cards=tuple(with_memory(card, chosen.memory) for card in found.cards))
        return select_cards(known, chosen.match, chosen.unit, chosen.shares, chosen.by_path)

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
        return gpu_edits(devices, tiles, environment, emit_pci_order=self.settings.pci_order)


def select_cards(
    found: CardScan, match: CardMatch, unit: Granularity, shares: int, by_path: ByPath
) -> Inventory:
    """The devices one resource makes of the cards that were found."""
    refusals = [(card, match.refusal(card)) for card in found.cards]
    chosen = [card for card, refusal in refusals if refusal is None]
    return Inventory(
        devices=offer_cards(chosen, unit, shares, by_path),
        skipped=found.skipped + tuple(_skip_refused(refusals)),
        warnings=found.warnings,
        unanswered=found.unanswered,
    )


def _skip_refused(refusals: Iterable[tuple[Card, tuple[str, str] | None]]) -> Iterable[Skipped]:
    for card, refusal in refusals:
        if refusal is not None:
            code, reason = refusal
            yield Skipped(f"/sys/class/drm/{card.name}", code, reason, card.unit)
