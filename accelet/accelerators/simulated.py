"""The `simulated` back-end: GPUs described in YAML, each standing for nodes the host really has."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Self

import msgspec
from msgspec import Meta

from accelet.accelerators.backend import Tiles
from accelet.accelerators.device import CARD_NAME, Device, DeviceId, Health, TileLink, UnitId
from accelet.accelerators.edits import ContainerEdits, DeviceNode
from accelet.accelerators.errors import ScanError
from accelet.accelerators.intel.card import Card, Granularity, Kind
from accelet.accelerators.intel.edits import gpu_edits
from accelet.accelerators.intel.gpu import select_cards
from accelet.accelerators.intel.match import CardMatch, Driver
from accelet.accelerators.intel.scan import CardScan
from accelet.accelerators.inventory import Inventory
from accelet.accelerators.pci import PciAddress
from accelet.accelerators.scancache import ScanCache, uncached
from accelet.accelerators.settings import PciDeviceId, Settings, Shares
from accelet.runtime.settings import Contradiction, FieldPath, Mistake, Reader

_TOLD_PROBLEMS = 5

HostPath = Annotated[str, Meta(pattern="^/", description="an absolute path")]
Pci = Annotated[
    str,
    Meta(
        pattern=r"^[0-9a-fA-F]{4,8}[:-][0-9a-fA-F]{2}[:-][0-9a-fA-F]{2}\.[0-7]$",
        description="PCI address, as 0000-03-00.0; in quotes if written 0000:03:00.0",
    ),
]


class SimulatedNode(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A node the container gets: `path` on the host, seen as `mount_path` (default: the same)."""

    path: HostPath
    mount_path: HostPath | None = None
    permissions: Annotated[str, Meta(pattern="^[rwm]{1,3}$")] = "rw"


class SimulatedLink(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A direct link from a card's `tile` to tile `to_tile` of the card at the PCI address `to`, and back."""

    tile: Annotated[int, Meta(ge=0, le=63)]
    to: Pci
    to_tile: Annotated[int, Meta(ge=0, le=63)]


class SimulatedCard(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One GPU; `unhealthy` is the reason why it is, and its absence says that it is well.

    A link need be written at one of its two cards only.
    """

    pci: Pci
    nodes: Annotated[tuple[SimulatedNode, ...], Meta(min_length=1)]
    card: Annotated[str, Meta(pattern=f"^{CARD_NAME}$", description="a DRM name, as card3")] | None = None
    driver: Driver = "i915"
    device_id: PciDeviceId | None = None
    kind: Kind = "discrete"
    tiles: Annotated[int, Meta(ge=1, le=64)] = 1
    memory_mib: Annotated[int, Meta(ge=1)] | None = None
    numa_node: Annotated[int, Meta(ge=0, le=1023)] | None = None
    links: tuple[SimulatedLink, ...] = ()
    unhealthy: Annotated[str, Meta(min_length=1)] | None = None


class SimulatedFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What `file:` names: the same `cards`, read anew at every scan, so that health can change."""

    cards: tuple[SimulatedCard, ...]

    def problems(self) -> tuple[Contradiction, ...]:
        return _contradictions(self.cards)


class SimulatedSettings(Settings, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The GPUs, here or in a file of their own, and how they are offered (as with `intel-gpu`)."""

    cards: tuple[SimulatedCard, ...] | None = None
    file: HostPath | None = None
    match: CardMatch = msgspec.field(default_factory=CardMatch)
    unit: Granularity = "card"
    shares: Shares = 1
    pci_order: bool = True

    def problems(self) -> tuple[Contradiction, ...]:
        if (self.cards is None) == (self.file is None):
            return (Contradiction((), "a simulated resource has either cards or a file that lists them"),)
        return _contradictions(self.cards or ())

    def overlaps(self, other: Self) -> bool:
        if not self.match.overlaps(other.match):
            return False
        if self.file or other.file:
            return self.file == other.file
        mine, theirs = ({str(_address(card)) for card in cards or ()} for cards in (self.cards, other.cards))
        return not mine.isdisjoint(theirs)

    def backend(self, cache: ScanCache = uncached) -> "Simulated":
        return Simulated(self)


@dataclass(frozen=True, slots=True)
class Simulated:
    """Implements `accelet.accelerators.backend.Backend`; looks at no hardware and no node."""

    settings: SimulatedSettings

    def scan(self, root: Path) -> Inventory:
        cards = self.settings.cards
        if self.settings.file is not None:
            cards = read_simulated_file(Path(self.settings.file)).cards
        links = _links(cards or ())
        found = CardScan(tuple(_card(card, index, links) for index, card in enumerate(cards or ())))
        chosen = self.settings
        return select_cards(found, chosen.match, chosen.unit, chosen.shares, by_path="none")

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


def read_simulated_file(path: Path) -> SimulatedFile:
    """The cards a file describes.

    Raises:
        ScanError: the file cannot be read, or what it says is no list of cards: its first mistakes.
    """
    reader = Reader(str(path))
    try:
        node = reader.parse(path.read_text())
    except OSError as error:
        raise ScanError(f"cannot read the simulated cards in {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ScanError(f"{path} does not describe simulated cards: it is not UTF-8") from error
    described = reader.read(node, SimulatedFile) if node is not None else None
    if isinstance(described, SimulatedFile) and not reader.problems:
        return described
    raise ScanError(f"{path} does not describe simulated cards: {_describe_problems(reader.problems)}")


def _describe_problems(problems: Sequence[Mistake]) -> str:
    if not problems:
        return "it is empty"
    told = [
        f"line {each.line}: {each.where or 'the file'}: {each.sentence}" for each in problems[:_TOLD_PROBLEMS]
    ]
    more = len(problems) - len(told)
    return "; ".join(told) + (f"; and {more} more" if more else "")


def _contradictions(cards: Sequence[SimulatedCard]) -> tuple[Contradiction, ...]:
    """What the `cards` may not say together."""
    return tuple(Contradiction(("cards", *path), said) for path, said in _find_contradictions(cards))


def _find_contradictions(cards: Sequence[SimulatedCard]) -> Iterator[tuple[FieldPath, str]]:
    seen: set[UnitId] = set()
    for index, card in enumerate(cards):
        unit = _unit(card.pci)
        if unit in seen:
            yield (index, "pci"), f"another card has the PCI address {_address(card)} already"
        seen.add(unit)
    tiles = {_unit(card.pci): card.tiles for card in cards}
    for index, card in enumerate(cards):
        for place, link in enumerate(card.links):
            for name, said in _wrong_link(card, link, tiles):
                yield (index, "links", place, name), said


def _wrong_link(
    card: SimulatedCard, link: SimulatedLink, tiles: Mapping[UnitId, int]
) -> Iterator[tuple[str, str]]:
    far = _unit(link.to)
    if link.tile >= card.tiles:
        yield "tile", f"{card.pci} has no tile {link.tile}"
    if far == _unit(card.pci):
        yield "to", "a card has no link to itself"
    elif far not in tiles:
        yield "to", f"there is no card {link.to}"
    elif link.to_tile >= tiles[far]:
        yield "to_tile", f"{link.to} has no tile {link.to_tile}"


def _links(cards: Iterable[SimulatedCard]) -> Mapping[UnitId, tuple[TileLink, ...]]:
    """Each card's links, whichever end they are written at."""
    found: dict[UnitId, set[TileLink]] = {}
    for card in cards:
        near = _unit(card.pci)
        for link in card.links:
            far = _unit(link.to)
            found.setdefault(near, set()).add(TileLink(link.tile, far, link.to_tile))
            found.setdefault(far, set()).add(TileLink(link.to_tile, near, link.tile))
    return {unit: tuple(sorted(links)) for unit, links in found.items()}


def _address(card: SimulatedCard) -> PciAddress | None:
    return PciAddress.parse(card.pci)


def _unit(pci: str) -> UnitId:
    address = PciAddress.parse(pci)
    return UnitId(address.as_id if address else pci)


def _card(card: SimulatedCard, index: int, links: Mapping[UnitId, tuple[TileLink, ...]]) -> Card:
    unit, address = _unit(card.pci), _address(card)
    return Card(
        unit=unit,
        name=card.card or f"card{index}",
        pci=address,
        pci_device=card.device_id and card.device_id.lower(),
        driver=card.driver,
        kind=card.kind,
        tile_count=card.tiles,
        memory_bytes=None if card.memory_mib is None else card.memory_mib * 2**20,
        numa_node=card.numa_node,
        links=links.get(unit, ()),
        health=Health(card.unhealthy),
        nodes=tuple(DeviceNode(n.path, n.mount_path or n.path, n.permissions) for n in card.nodes),
    )
