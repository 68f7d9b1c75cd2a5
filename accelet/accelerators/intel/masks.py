"""ZE_AFFINITY_MASK: which tiles of its GPUs a process may see, written and read.

Rules: Level Zero specification (affinity mask, device hierarchy) and intel/compute-runtime,
`ExecutionEnvironment::parseAffinityMask`. Numbers count what the process can see, that is the cards
whose nodes the container has, in the driver's order; the order inside a mask means nothing.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from accelet.accelerators.errors import MaskError

_ENTRY = re.compile(r"([0-9]{1,6})(?:\.([0-9]{1,6}))?")


class Hierarchy(StrEnum):
    """How a process sees cards of several tiles, the values of ZE_FLAT_DEVICE_HIERARCHY.

    In COMPOSITE a card is a device and a mask says `card` or `card.tile`; in FLAT and COMBINED a tile
    is a device and a mask says its number, counted through all cards. FLAT is the driver's default
    since late 2023; before, it was COMPOSITE.
    """

    FLAT = "FLAT"
    COMBINED = "COMBINED"
    COMPOSITE = "COMPOSITE"


@dataclass(frozen=True, slots=True)
class VisibleCard:
    """One card a container sees: how many tiles it has and which of them the container may use."""

    tile_count: int
    tiles: frozenset[int]

    def __post_init__(self) -> None:
        if self.tile_count < 1 or not self.tiles <= frozenset(range(self.tile_count)):
            raise MaskError(f"a card of {self.tile_count} tiles has no tiles {sorted(self.tiles)}")

    @property
    def is_whole(self) -> bool:
        return len(self.tiles) == self.tile_count


def read_hierarchy(value: str) -> Hierarchy:
    """The hierarchy a container's own ZE_FLAT_DEVICE_HIERARCHY selects.

    Raises:
        MaskError: the value is none of the three. The driver then takes its default, which depends on
            its age, so that no mask could be relied on.
    """
    try:
        return Hierarchy(value)
    except ValueError:
        names = ", ".join(Hierarchy)
        raise MaskError(
            f"the container sets ZE_FLAT_DEVICE_HIERARCHY to {value!r}, which is none of {names}: "
            "how Level Zero would then count tiles depends on its version"
        ) from None


def write_mask(cards: Sequence[VisibleCard], hierarchy: Hierarchy) -> str | None:
    """The mask that shows exactly these tiles; None where no mask is needed for it.

    `cards` are all cards the container sees, in the driver's order.
    """
    if all(card.is_whole for card in cards):
        return None
    entries: list[str] = []
    first_tile = 0
    for index, card in enumerate(cards):
        if hierarchy is not Hierarchy.COMPOSITE:
            entries += [str(first_tile + tile) for tile in sorted(card.tiles)]
        elif card.is_whole:
            entries.append(str(index))
        else:
            entries += [f"{index}.{tile}" for tile in sorted(card.tiles)]
        first_tile += card.tile_count
    if not entries:
        raise MaskError("a mask that shows no tile at all would show them all")
    return ",".join(entries)


def read_mask(mask: str, tile_counts: Sequence[int], hierarchy: Hierarchy) -> tuple[frozenset[int], ...]:
    """The tiles a mask shows of each card, where `tile_counts` are those of the cards in view.

    Reads as the driver does: an empty mask shows everything; an entry beyond the last card or tile, and
    in FLAT and COMBINED one of the form `card.tile`, shows nothing.

    Raises:
        MaskError: an entry is not a number, or not two with a dot between.
    """
    if not mask:
        return tuple(frozenset(range(count)) for count in tile_counts)
    shown: list[set[int]] = [set() for _ in tile_counts]
    flat = [(card, tile) for card, count in enumerate(tile_counts) for tile in range(count)]
    for entry in mask.split(","):
        match = _ENTRY.fullmatch(entry)
        if match is None:
            raise MaskError(
                f"the affinity mask {mask!r} has an entry {entry!r}, which is not a number or two"
            )
        number, tile = int(match[1]), None if match[2] is None else int(match[2])
        if hierarchy is not Hierarchy.COMPOSITE:
            if tile is None and number < len(flat):
                shown[flat[number][0]].add(flat[number][1])
        elif number < len(tile_counts):
            shown[number] |= set(range(tile_counts[number])) & (
                set(range(tile_counts[number])) if tile is None else {tile}
            )
    return tuple(frozenset(tiles) for tiles in shown)
