"""The monitoring resource: one device that shows all GPUs of the node to one exporter."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal, Self

from msgspec import Meta
from msgspec.structs import replace

from accelet.accelerators.backend import Tiles
from accelet.accelerators.device import Device, DeviceId, UnitId
from accelet.accelerators.edits import ContainerEdits
from accelet.accelerators.gathering import gather_edits
from accelet.accelerators.intel.card import Card
from accelet.accelerators.intel.match import SERVED_DRIVERS, CardMatch, Driver
from accelet.accelerators.intel.scan import CardFinder, CardScan
from accelet.accelerators.inventory import Inventory
from accelet.accelerators.scancache import HostScan, ScanCache, uncached
from accelet.accelerators.settings import Settings

MonitoringMode = Literal["none", "single", "split"]


class MonitoringSettings(Settings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`driver` restricts it to the cards of one; without, all served cards are one resource's.

    With `match` a card is shown only if it is one of those of at least one of these.
    """

    driver: Annotated[Driver, Meta(description="only the cards of this driver")] | None = None
    match: Annotated[tuple[CardMatch, ...], Meta(description="only cards that one of these matches")] = ()

    def overlaps(self, other: Self) -> bool:
        """Two that show the same cards do not compete for them, but their device ids must differ."""
        return self.driver == other.driver

    def backend(self, cache: ScanCache = uncached) -> "Monitoring":
        return Monitoring(self, cache(CardFinder))


def monitoring_resources(
    mode: MonitoringMode, matches: Iterable[CardMatch] = (), prefix: str = "gpu.intel.com"
) -> tuple[tuple[str, MonitoringSettings], ...]:
    """The resources, by the names Intel's plugin gave them, that a monitoring mode stands for.

    `matches` are those of the resources that serve cards: what they leave out is not shown, as in Intel's
    plugin with -allow-ids and -deny-ids. Without any all cards are.
    """
    every = MonitoringSettings(match=tuple(matches))
    if mode == "single":
        return ((f"{prefix}/monitoring", every),)
    if mode == "split":
        return tuple(
            (f"{prefix}/{driver}_monitoring", replace(every, driver=driver)) for driver in SERVED_DRIVERS
        )
    return ()


@dataclass(frozen=True, slots=True)
class Monitoring:
    """Implements `accelet.accelerators.backend.Backend`: a device without health, NUMA node or shares.

    A sick card is shown too, since that is when a monitor is wanted.
    """

    settings: MonitoringSettings
    find: HostScan[CardScan]

    def scan(self, root: Path) -> Inventory:
        found = self.find(root)
        cards = [card for card in found.cards if self._shows(card)]
        if not cards:
            return Inventory((), found.skipped, warnings=found.warnings, unanswered=found.unanswered)
        name = f"monitoring-{self.settings.driver}-all" if self.settings.driver else "monitoring-all"
        nodes = {node for card in cards for node in (*card.nodes, *card.management_nodes)}
        device = Device(
            id=DeviceId(name),
            unit=UnitId(name),
            nodes=tuple(sorted(nodes, key=lambda node: node.container_path)),
            driver=self.settings.driver,
        )
        return Inventory((device,), found.skipped, warnings=found.warnings, unanswered=found.unanswered)

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
        return gather_edits(devices)

    def _shows(self, card: Card) -> bool:
        matches, driver = self.settings.match, card.counted_driver
        if matches and all(match.refusal(card) for match in matches):
            return False
        if self.settings.driver:
            return driver == self.settings.driver
        return bool(matches) or driver in SERVED_DRIVERS
