"""A GPU as one scan saw it, and the devices it is offered as."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from accelet.accelerators.device import HEALTHY, Device, DeviceId, Health, TileLink, UnitId
from accelet.accelerators.edits import DeviceNode, Mount
from accelet.accelerators.pci import PciAddress

Kind = Literal["integrated", "discrete"]
Granularity = Literal["card", "tile"]
ByPath = Literal["none", "single", "all"]

ASSUMED_DRIVER = "i915"
"""What a card counts as when nothing names its driver (Intel's plugin does so too)."""

BY_PATH_FOLDER = "/dev/dri/by-path"


@dataclass(frozen=True, slots=True)
class Card:
    """One physical GPU.

    `driver` is None where sysfs names none. `memory_bytes` is None where it is not known, which is not 0.
    `links` are empty where nothing tells them: sysfs says which fabric a card is on, not which of its tiles
    is linked to which. `by_path_links` are the host paths of its links in /dev/dri/by-path, and
    `has_by_path_folder` says whether the host has that folder.
    `management_nodes` are those of its management engine, by which firmware and sensors are read.
    `parent` is the physical function that a virtual one is a part of.
    """

    unit: UnitId
    name: str | None = None
    pci: PciAddress | None = None
    pci_device: str | None = None
    driver: str | None = None
    kind: Kind | None = None
    tile_count: int = 1
    memory_bytes: int | None = None
    numa_node: int | None = None
    links: tuple[TileLink, ...] = ()
    health: Health = HEALTHY
    nodes: tuple[DeviceNode, ...] = ()
    by_path_links: tuple[str, ...] = ()
    has_by_path_folder: bool = False
    management_nodes: tuple[DeviceNode, ...] = ()
    parent: UnitId | None = None

    @property
    def counted_driver(self) -> str:
        return self.driver or ASSUMED_DRIVER

    @property
    def hardware_order(self) -> tuple[bool, PciAddress, int, str]:
        """By PCI address as a number; cards without one last, by the number in their name."""
        name = self.name or ""
        digits = name.removeprefix("card")
        number = int(digits) if digits.isdecimal() else 0
        return self.pci is None, self.pci or PciAddress(0, 0, 0, 0), number, name


def offer_cards(cards: Iterable[Card], unit: Granularity, shares: int, by_path: ByPath) -> tuple[Device, ...]:
    """Each card, or each tile of it, `shares` times: in order of hardware, then tile, then share.

    Ids are the unit's, then `-t1` for a tile, then `-s0` for a share where there are several.
    """
    ordered = sorted(cards, key=lambda card: card.hardware_order)
    return tuple(device for card in ordered for device in _offer_card(card, unit, shares, by_path))


def _offer_card(card: Card, unit: Granularity, shares: int, by_path: ByPath) -> Iterator[Device]:
    pci = None if card.pci is None else str(card.pci)
    numa_nodes = () if card.numa_node is None else (card.numa_node,)
    mounts = _by_path_mounts(card, by_path)
    for tile in range(card.tile_count) if unit == "tile" else (None,):
        stem = card.unit if tile is None else f"{card.unit}-t{tile}"
        for share in range(shares) if shares > 1 else (None,):
            yield Device(
                id=DeviceId(stem if share is None else f"{stem}-s{share}"),
                unit=card.unit,
                health=card.health,
                numa_nodes=numa_nodes,
                nodes=card.nodes,
                mounts=mounts,
                card=card.name,
                pci=pci,
                pci_device=card.pci_device,
                driver=card.driver,
                kind=card.kind,
                tile=tile,
                tile_count=card.tile_count,
                share=share,
                memory_bytes=card.memory_bytes,
                links=card.links,
                parent=card.parent,
            )


def _by_path_mounts(card: Card, by_path: ByPath) -> tuple[Mount, ...]:
    if by_path == "single":
        return tuple(Mount(link, link) for link in card.by_path_links)
    if by_path == "all" and card.has_by_path_folder:
        return (Mount(BY_PATH_FOLDER, BY_PATH_FOLDER),)
    return ()
