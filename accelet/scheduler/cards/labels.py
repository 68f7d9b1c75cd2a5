"""What administrators and telemetry say of a node's cards in labels, in the words of GPU Aware Scheduling."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from accelet.accelerators.device import CARD_NAME, TileLink
from accelet.assignments.nodecards import NodeCard

_DISABLE = re.compile(rf"gas-disable-({CARD_NAME})")
_TILE_OUT = re.compile(rf"gas-tile-(?:disable|deschedule)-({CARD_NAME})_gt([0-9]{{1,3}})")
_TILE_PREFERRED = re.compile(rf"gas-tile-preferred-({CARD_NAME})")
_PREFERRED = "gas-prefer-gpu"
_GROUP = "PCI_GROUP"
_LINK = re.compile(r"([0-9]{1,3})\.([0-9]{1,3})-([0-9]{1,3})\.([0-9]{1,3})")
_MOST_CHUNKS = 64


@dataclass(frozen=True, slots=True)
class CardLabels:
    """By DRM name: cards out of service, tiles out of service, cards and tiles to be taken first."""

    closed: frozenset[str] = frozenset()
    closed_tiles: Mapping[str, frozenset[int]] = field(default_factory=dict)
    preferred: frozenset[str] = frozenset()
    preferred_tiles: Mapping[str, frozenset[int]] = field(default_factory=dict)


def read_card_labels(labels: Mapping[str, str], domain: str) -> CardLabels:
    """What a Node's labels say; `domain` is that of the cards' resource, `gpu.intel.com`.

    Only the part after the slash counts of those that telemetry writes: their prefix ends in the name of a
    telemetry policy. A label with the value `false` says nothing.
    """
    closed: set[str] = set()
    preferred: set[str] = set()
    closed_tiles: dict[str, frozenset[int]] = {}
    preferred_tiles: dict[str, frozenset[int]] = {}
    for key, value in labels.items():
        name = key.rpartition("/")[2]
        if not name.startswith("gas-") or value == "false":
            continue
        if match := _DISABLE.fullmatch(name):
            closed |= _group_of(match[1], labels, domain) if value == _GROUP else {match[1]}
        elif match := _TILE_OUT.fullmatch(name):
            closed_tiles[match[1]] = closed_tiles.get(match[1], frozenset()) | {int(match[2])}
        elif name == _PREFERRED:
            preferred.add(value)
        elif (match := _TILE_PREFERRED.fullmatch(name)) and value[2:].isdecimal() and value[:2] == "gt":
            preferred_tiles[match[1]] = preferred_tiles.get(match[1], frozenset()) | {int(value[2:])}
    return CardLabels(frozenset(closed), closed_tiles, frozenset(preferred), preferred_tiles)


def read_links(cards: tuple[NodeCard, ...], labels: Mapping[str, str]) -> Mapping[str, frozenset[TileLink]]:
    """All links of each card by its id, in both directions.

    Those that its agent publishes, and those of the label `xe-links`, which XPU Manager writes through Node
    Feature Discovery: `0.0-1.0_2.0-3.0`, cards counted in the order of their DRM numbers.
    """
    links: dict[str, set[TileLink]] = {card.id: set() for card in cards}
    ends = [(card, link) for card in cards for link in card.links]
    by_domain: dict[str, list[NodeCard]] = {}
    for card in cards:
        if card.card is not None:
            by_domain.setdefault(card.resource.partition("/")[0], []).append(card)
    for domain, of_domain in by_domain.items():
        ordered = sorted(of_domain, key=lambda card: int((card.card or "")[4:]))
        for match in map(_LINK.fullmatch, _joined(labels, f"{domain}/xe-links").split("_")):
            if match is not None:
                one, tile, other, far_tile = (int(number) for number in match.groups())
                if max(one, other) < len(ordered) and one != other:
                    ends.append((ordered[one], TileLink(tile, ordered[other].id, far_tile)))
    for card, link in ends:
        if link.far in links and link.far != card.id:
            links[card.id].add(link)
            links[link.far].add(TileLink(link.far_tile, card.id, link.tile))
    return {card: frozenset(some) for card, some in links.items()}


def _group_of(card: str, labels: Mapping[str, str], domain: str) -> set[str]:
    """The cards that share a PCI group with this one, itself among them: `0.1_2.3.4` has two groups."""
    for group in _joined(labels, f"{domain}/pci-groups").split("_"):
        members = {f"card{number}" for number in group.split(".")}
        if card in members:
            return members
    return {card}


def _joined(labels: Mapping[str, str], name: str) -> str:
    """A label's text, which goes on in labels of the same name with 2, 3 … behind and a Z before each."""
    return "".join(_chunks(labels, name))


def _chunks(labels: Mapping[str, str], name: str) -> Iterator[str]:
    yield labels.get(name, "")
    for number in range(2, _MOST_CHUNKS):
        chunk = labels.get(f"{name}{number}")
        if chunk is None:
            return
        yield chunk.removeprefix("Z")
