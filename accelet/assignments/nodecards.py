"""A node's cards as its agent publishes them for schedulers: the Node's annotation `accelet.dev/cards`.

The form is that of docs/cards.schema.json.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated

import msgspec

from accelet.accelerators.device import DEVICE_ID_PATTERN, HEALTHY, DeviceId, Health, TileLink, UnitId, worst
from accelet.accelerators.inventory import NOTHING_TOLD, Inventory
from accelet.assignments.assignment import MAX_COUNT, MAX_TILE
from accelet.kube.objects import MOST_ANNOTATED
from accelet.runtime.excerpts import printable

NODE_CARDS_ANNOTATION = "accelet.dev/cards"
MILLICORES = 1000
"""Of every card, whatever it is: a container that asks for 500 wants half of its time."""


_VERSION = 1
_MAX_MEMORY = 2**50

MAX_CARDS = 1024
"""More than a node has, with all virtual functions."""


class NodeCardsError(Exception):
    """The annotation cannot be read. The text is a sentence for people."""


@dataclass(frozen=True, slots=True)
class NodeCard:
    """One card of a node, and the resource it is served as.

    `shares` is how many holders it can have at one time: its devices, as far as the kubelet is offered any.
    `unassigned` of them are with containers to which no scheduler has assigned anything: these see the card
    whole. `memory_bytes` is None where the agent could not tell, which is not the same as none.
    `part_of` is the GPU that this card is a partition, a MIG instance or a virtual function of, `mode` how a
    GPU is cut (`cpx_nps4`, `mig`), `fabric` the name of what connects cards directly (an xGMI hive).
    """

    id: UnitId
    resource: str
    card: str | None = None
    pci: str | None = None
    model: str | None = None
    driver: str | None = None
    tiles: int = 1
    memory_bytes: int | None = None
    numa_node: int | None = None
    links: tuple[TileLink, ...] = ()
    shares: int = 1
    unassigned: int = 0
    health: Health = HEALTHY
    part_of: UnitId | None = None
    mode: str | None = None
    fabric: str | None = None


def list_node_cards(
    resource: str,
    inventory: Inventory,
    unassigned: Mapping[UnitId, int],
    told: Mapping[DeviceId, Health] = NOTHING_TOLD,
) -> Iterator[NodeCard]:
    """The cards of one resource, each as well as its worst device.

    `told` is the health that the kubelet was told, where it is another than was found.

    Units of which tiles are handed out one by one are none, nor are those that are no GPU: these have neither
    a DRM name nor a kind. NVIDIA's GPUs have no DRM name where only its compute driver is loaded.
    """
    for unit, devices in inventory.by_unit.items():
        first = devices[0]
        if (first.card is not None or first.kind is not None) and first.tile is None:
            yield NodeCard(
                id=unit,
                resource=resource,
                card=first.card,
                pci=first.pci,
                model=first.model or first.pci_device,
                driver=first.driver,
                tiles=first.tile_count,
                memory_bytes=first.memory_bytes,
                numa_node=first.numa_nodes[0] if first.numa_nodes else None,
                links=first.links,
                shares=len(devices),
                unassigned=unassigned.get(unit, 0),
                health=worst(told.get(device.id, device.health) for device in devices),
                part_of=None if first.parent == unit else first.parent,
                mode=first.mode,
                fabric=first.fabric,
            )


def extended_capacity(cards: Iterable[NodeCard]) -> Mapping[str, int]:
    """What kube-scheduler has to see on the Node so that it fits pods that ask for parts of cards.

    `tiles`, `millicores` and `memory.max` (bytes) of each domain, `gpu.intel.com` for instance; of healthy
    cards only. Where the memory of none is known there is no `memory.max`.
    """
    found: Counter[str] = Counter()
    for card in cards:
        amounts = (card.tiles, MILLICORES, card.memory_bytes)
        for name, amount in zip(capacity_names(card.resource), amounts, strict=True):
            if amount is not None:
                found[name] += amount * card.health.is_healthy
    return dict(found)


def capacity_names(resource: str) -> tuple[str, str, str]:
    """What the tiles, millicores and memory of a resource's cards are called: each in its domain."""
    domain = resource.partition("/")[0]
    return f"{domain}/tiles", f"{domain}/millicores", f"{domain}/memory.max"


_Id = Annotated[str, msgspec.Meta(pattern=rf"^{DEVICE_ID_PATTERN.pattern}\Z")]
_Text = Annotated[str, msgspec.Meta(min_length=1, max_length=256)]
_Tile = Annotated[int, msgspec.Meta(ge=0, le=MAX_TILE)]


class _Card(msgspec.Struct, frozen=True, omit_defaults=True):
    id: _Id
    resource: _Text
    card: Annotated[str, msgspec.Meta(pattern=r"^card(?:0|[1-9][0-9]{0,5})\Z")] | None = None
    pci: _Text | None = None
    model: _Text | None = None
    driver: _Text | None = None
    tiles: Annotated[int, msgspec.Meta(ge=1, le=MAX_TILE + 1)] = 1
    memory: Annotated[int, msgspec.Meta(ge=0, le=_MAX_MEMORY)] | None = None
    numa: Annotated[int, msgspec.Meta(ge=0, le=1023)] | None = None
    links: tuple[tuple[_Tile, _Id, _Tile], ...] = ()
    shares: Annotated[int, msgspec.Meta(ge=0, le=MAX_COUNT)] = 1
    unassigned: Annotated[int, msgspec.Meta(ge=0, le=MAX_COUNT)] = 0
    unhealthy: str | None = None
    part_of: _Id | None = None
    mode: _Text | None = None
    fabric: _Text | None = None


class CardsDocument(msgspec.Struct, frozen=True):
    """The annotation; fields that a later agent adds are for later schedulers."""

    version: int
    cards: Annotated[tuple[_Card, ...], msgspec.Meta(max_length=MAX_CARDS)]


_READ_DOCUMENT = msgspec.json.Decoder(CardsDocument)


def parse_node_cards(text: str) -> tuple[NodeCard, ...]:
    """The cards that a Node's annotation says.

    Raises:
        NodeCardsError: it is malformed, says a card twice, or is of a version not known here.
    """
    if len(text) > MOST_ANNOTATED:
        raise NodeCardsError(f"{NODE_CARDS_ANNOTATION} has {len(text)} characters, more than any object may.")
    try:
        document = _READ_DOCUMENT.decode(text)
    except (msgspec.DecodeError, RecursionError) as error:
        raise NodeCardsError(f"{NODE_CARDS_ANNOTATION}: {printable(str(error), 200)}.") from None
    if document.version != _VERSION:
        raise NodeCardsError(
            f"{NODE_CARDS_ANNOTATION}: version {document.version} is not known here; "
            f"this accelet reads version {_VERSION}."
        )
    cards = tuple(_read(card) for card in document.cards)
    twice = [one for one, count in Counter(card.id for card in cards).items() if count > 1]
    if twice:
        raise NodeCardsError(f"{NODE_CARDS_ANNOTATION}: card {twice[0]} is there twice.")
    return cards


def render_node_cards(cards: Iterable[NodeCard]) -> str:
    """The annotation's text, compact, cards in the order given."""
    document = CardsDocument(_VERSION, tuple(_write(card) for card in cards))
    return msgspec.json.encode(document).decode()


def _read(card: _Card) -> NodeCard:
    return NodeCard(
        id=UnitId(card.id),
        resource=card.resource,
        card=card.card,
        pci=card.pci,
        model=card.model,
        driver=card.driver,
        tiles=card.tiles,
        memory_bytes=card.memory,
        numa_node=card.numa,
        links=tuple(TileLink(tile, UnitId(far), far_tile) for tile, far, far_tile in card.links),
        shares=card.shares,
        unassigned=card.unassigned,
        health=Health(card.unhealthy),
        part_of=None if card.part_of is None else UnitId(card.part_of),
        mode=card.mode,
        fabric=card.fabric,
    )


def _write(card: NodeCard) -> _Card:
    return _Card(
        id=card.id,
        resource=card.resource,
        card=card.card,
        pci=card.pci,
        model=card.model,
        driver=card.driver,
        tiles=card.tiles,
        memory=card.memory_bytes,
        numa=card.numa_node,
        links=tuple((link.tile, link.far, link.far_tile) for link in card.links),
        shares=card.shares,
        unassigned=card.unassigned,
        unhealthy=card.health.reason,
        part_of=card.part_of,
        mode=card.mode,
        fabric=card.fabric,
    )
