"""One card and what is left of it."""

from dataclasses import dataclass, replace
from typing import NamedTuple

from accelet.accelerators.device import TileLink, UnitId
from accelet.scheduler.cards.needs import Amounts


@dataclass(frozen=True, slots=True)
class Free:
    """What pods can still get of one card: nothing of one that takes no further holder.

    `tiles` can all be had together. `shares` is how many further holders there can be.
    """

    tiles: frozenset[int] = frozenset()
    millicores: int = 0
    memory_bytes: int = 0
    shares: int = 0


@dataclass(frozen=True, slots=True)
class CardState:
    """One card and what is left of it.

    `tiles` are the numbers of those that nobody holds and nobody keeps out of service. A card of which a tile
    is held (`is_split`) is shared by nobody, and of a card that is shared no tile is given: who shares it
    sees all of it. One that is not `is_open` is ill or out of service, and takes nobody. Where the card's
    memory is not known (`is_memory_known`), nothing is given of it: its amounts are 0.
    """

    id: UnitId
    resource: str
    card: str | None = None
    numa_node: int | None = None
    links: tuple[TileLink, ...] = ()
    tile_count: int = 1
    tiles: frozenset[int] = frozenset((0,))
    millicores: int = 1000
    memory_bytes: int = 0
    memory_total: int = 0
    is_memory_known: bool = True
    shares: int = 1
    share_total: int = 1
    is_split: bool = False
    is_shared: bool = False
    is_open: bool = True
    is_preferred: bool = False
    preferred_tiles: frozenset[int] = frozenset()

    @property
    def load(self) -> float:
        """How much of it is used, from 0 to 1: of whatever there is least left of."""
        return max(
            1 - len(self.tiles) / self.tile_count,
            1 - self.millicores / 1000,
            1 - self.memory_bytes / self.memory_total if self.memory_total else 0.0,
            1 - self.shares / self.share_total if self.share_total else 0.0,
        )

    def room_for(self, each: Amounts, shares: int = 1) -> int:
        """How many times it has `each` left, for `shares` holders at a time."""
        if not self.is_open or (self.is_shared if each.tiles else self.is_split):
            return 0
        most = self.shares // shares
        if each.tiles:
            most = min(most, len(self.tiles) // each.tiles)
        if each.millicores:
            most = min(most, self.millicores // each.millicores)
        if each.memory_bytes:
            most = min(most, self.memory_bytes // each.memory_bytes)
        return max(0, most)

    @property
    def free(self) -> Free:
        """What pods can still get, which is less than what nobody holds: see `Free`."""
        by_tiles = self.room_for(Amounts(tiles=1))
        shares = max(by_tiles, self.room_for(Amounts()))
        if not shares:
            return Free()
        tiles = self.tiles if by_tiles else frozenset()
        return Free(tiles, max(0, self.millicores), max(0, self.memory_bytes), shares)

    def without(self, each: Amounts, tiles: frozenset[int], shares: int) -> "CardState":
        """What is left when someone holds `tiles` (none: a share of the whole) and the rest of `each`."""
        return replace(
            self,
            tiles=self.tiles - tiles,
            millicores=self.millicores - each.millicores,
            memory_bytes=self.memory_bytes - each.memory_bytes,
            shares=self.shares - shares,
            is_split=self.is_split or bool(tiles),
            is_shared=self.is_shared or not tiles,
        )


CardStates = tuple[CardState, ...]


class Hold(NamedTuple):
    """One card of a container: its place among the node's cards, and the tiles of it (none: all, shared)."""

    card: int
    tiles: tuple[int, ...] = ()
