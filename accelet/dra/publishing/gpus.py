"""GPUs as devices: each tile of cards with several, each card, and a monitor for each card.

A card's counters let its tiles or the whole of it be held, never both. What several claims share of one
device they take as millicores and memory; the hardware enforces neither.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from accelet.dra.names import ALL_MILLICORES, STEP_MILLICORES, label_of
from accelet.dra.pool import (
    MEMORY,
    MILLICORES,
    Atom,
    Attribute,
    Capacity,
    CounterSet,
    PoolDevice,
)
from accelet.dra.publishing.attributes import standard_attributes, text_attribute
from accelet.dra.publishing.served import ServedUnit

MOST_TILES = 31
"""A counter set holds 32 counters, and one is the card's memory."""

MEBIBYTE = 2**20

LESS_THAN = 2**63
"""Bytes of memory: the API server cuts larger amounts, to one that no step divides, and refuses the pool."""

ASSUMED_DRIVER = "i915"


@dataclass(frozen=True, slots=True)
class Gpus:
    """The devices of some cards, the smallest first."""

    counter_sets: tuple[CounterSet, ...]
    devices: tuple[PoolDevice, ...]
    left_out: tuple[str, ...]


def gpu_devices(cards: Sequence[ServedUnit]) -> Gpus:
    """Tiles of all cards, then cards, then monitors, each in order of hardware."""
    described = [_Card(card) for card in cards]
    tiles = tuple(tile for card in described for tile in card.tiles())
    wholes = tuple(card.whole() for card in described)
    monitors = tuple(card.monitor() for card in described)
    left_out = tuple(said for card in cards for said in _left_out(card))
    return Gpus(tuple(card.counter_set() for card in described), tiles + wholes + monitors, left_out)


def _left_out(card: ServedUnit) -> Iterator[str]:
    tiles, memory = card.device.tile_count, card.device.memory_bytes or 0
    if tiles > MOST_TILES:
        yield (
            f"{card.unit} has {tiles} tiles and is offered whole only: "
            f"Kubernetes counts no more than {MOST_TILES} of one card"
        )
    if memory >= LESS_THAN:
        yield (
            f"{card.unit} is said to have {memory} bytes of memory and is offered without: "
            f"Kubernetes counts less than {LESS_THAN}"
        )


def millicores_of(shares: int) -> Capacity:
    """What holders of a device that `shares` may hold at a time take of its time.

    In tens, and so that there are never more holders than that.
    """
    exact = [
        amount
        for amount in range(STEP_MILLICORES, ALL_MILLICORES + 1, STEP_MILLICORES)
        if ALL_MILLICORES // amount <= shares
    ]
    most_holders = ALL_MILLICORES // exact[0]
    default = max(amount for amount in exact if ALL_MILLICORES // amount == most_holders)
    return Capacity(ALL_MILLICORES, default, STEP_MILLICORES, STEP_MILLICORES)


class _Card:
    def __init__(self, served: ServedUnit) -> None:
        self.served = served
        device = served.device
        self._label = label_of(device.unit)
        self._name = f"gpu-{self._label}"
        self._tile_count = device.tile_count if device.tile_count <= MOST_TILES else 1
        self._has_tiles = 1 < device.tile_count <= MOST_TILES
        memory = device.memory_bytes or 0
        self._memory = memory // MEBIBYTE * MEBIBYTE if memory < LESS_THAN else 0
        self._tile_memory = self._memory // self._tile_count // MEBIBYTE * MEBIBYTE
        self._atoms: frozenset[Atom] = frozenset((device.unit, tile) for tile in range(device.tile_count))
        self._common: Mapping[str, Attribute] = {
            "card": self._label,
            "kernelDriver": device.driver or ASSUMED_DRIVER,
            **text_attribute("pciDevice", device.pci_device),
            **text_attribute("model", device.model),
            **standard_attributes([served]),
        }

    def counter_set(self) -> CounterSet:
        return CounterSet(self._name, self._counters(range(self._tile_count), self._memory))

    def tiles(self) -> Iterable[PoolDevice]:
        for tile in range(self._tile_count) if self._has_tiles else ():
            yield PoolDevice(
                name=f"{self._name}-tile-{tile}",
                kind="tile",
                atoms=frozenset({(self.served.unit, tile)}),
                attributes={"type": "tile", "tile": tile, "tiles": 1, **self._common},
                counter_set=self._name,
                counters=self._counters([tile], self._tile_memory),
                capacities=self._capacities(self._tile_memory),
                is_shareable=True,
            )

    def whole(self) -> PoolDevice:
        return PoolDevice(
            name=self._name,
            kind="gpu",
            atoms=self._atoms,
            attributes={"type": "gpu", "tiles": self.served.device.tile_count, **self._common},
            counter_set=self._name,
            counters=self._counters(range(self._tile_count), self._memory),
            capacities=self._capacities(self._memory),
            is_shareable=True,
        )

    def monitor(self) -> PoolDevice:
        return PoolDevice(
            name=f"{self._name}-monitor",
            kind="monitor",
            atoms=self._atoms,
            attributes={"type": "monitor", "tiles": self.served.device.tile_count, **self._common},
            is_shareable=True,
        )

    def _counters(self, tiles: Iterable[int], memory: int) -> Mapping[str, int]:
        counted = {f"tile-{tile}": 1 for tile in tiles}
        return {**counted, MEMORY: memory} if self._tile_memory else counted

    def _capacities(self, memory: int) -> Mapping[str, Capacity]:
        amounts = {MILLICORES: millicores_of(self.served.shares)}
        if self._tile_memory:
            amounts[MEMORY] = Capacity(memory, default=0, least=0, step=MEBIBYTE)
        return amounts
