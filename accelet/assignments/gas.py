"""The annotations of GPU Aware Scheduling, `gas-*`, to an assignment and back.

    gas-ts              = 1*19DIGIT                       ; ns since the epoch
    gas-container-cards = slot *( "|" slot )              ; one slot for each of spec.containers, in order
    slot                = "" / card *( "," card )
    gas-container-tiles = tslot *( "|" tslot )            ; slots as above
    tslot               = "" / item *( "," item )
    item                = card ":" "gt" N *( "+" "gt" N )
    card                = "card" N                        ; N without leading zeros

GAS writes them from version 0.1 to 0.6. Init containers have no slot. A card stands once in its slot; the
tiles of a slot name cards of the same slot, all of them or none.
"""

import re
from collections.abc import Iterator, Mapping, Sequence

from accelet.accelerators.device import CARD_NAME
from accelet.assignments.assignment import (
    ANY_RESOURCE,
    MAX_TILE,
    MAX_TIME_NS,
    Assignment,
    AssignmentError,
    card,
)
from accelet.kube.objects import MOST_ANNOTATED
from accelet.runtime.excerpts import excerpt

TIME_ANNOTATION = "gas-ts"
CARDS_ANNOTATION = "gas-container-cards"
TILES_ANNOTATION = "gas-container-tiles"

_TIME = re.compile(r"[0-9]{1,19}")
_CARD = re.compile(CARD_NAME)
_TILE = re.compile(r"gt(0|[1-9][0-9]{0,2})")

_Tiles = Mapping[str, frozenset[int]]


def parse_gas(annotations: Mapping[str, str], containers: Sequence[str]) -> Assignment | None:
    """The assignment that the `gas-*` annotations say, None where they say none.

    `containers` are the names of spec.containers, in order. `gas-ts` may be absent; alone it says nothing.

    Raises:
        AssignmentError: they are malformed, with annotation, container, and character (from 1).
    """
    cards_text = annotations.get(CARDS_ANNOTATION)
    if cards_text is None:
        if TILES_ANNOTATION in annotations:
            raise AssignmentError(
                f"Annotation {TILES_ANNOTATION} is there without {CARDS_ANNOTATION}, which names the cards."
            )
        return None
    cards = [_parse_cards(slot) for slot in _slots(CARDS_ANNOTATION, cards_text, containers)]
    tiles: list[_Tiles] = [{} for _ in containers]
    if TILES_ANNOTATION in annotations:
        slots = _slots(TILES_ANNOTATION, annotations[TILES_ANNOTATION], containers)
        tiles = [_parse_tiles(slot, names) for slot, names in zip(slots, cards, strict=True)]
    return Assignment(
        containers={
            name: {ANY_RESOURCE: tuple(card(one, *parts.get(one, ())) for one in names)}
            for name, names, parts in zip(containers, cards, tiles, strict=True)
        },
        decided_ns=_parse_time(annotations.get(TIME_ANNOTATION)),
    )


class _Slot:
    """A container's part of an annotation, and how to speak of a place in it."""

    def __init__(self, annotation: str, container: str, number: int, start: int, text: str) -> None:
        self.text = text
        self._place = f'Annotation {annotation}, slot {number} (container "{container}")'
        self._start = start

    def parts(self) -> Iterator[tuple[int, str]]:
        """The comma-separated parts and where each begins in the slot; none if the slot is empty."""
        if self.text:
            yield from _split(self.text, ",")

    def error(self, offset: int, problem: str) -> AssignmentError:
        return AssignmentError(f"{self._place}, character {self._start + offset + 1}: {problem}.")


def _slots(annotation: str, text: str, containers: Sequence[str]) -> list[_Slot]:
    if len(text) > MOST_ANNOTATED:
        raise AssignmentError(
            f"Annotation {annotation} has {len(text)} characters, more than any object may."
        )
    count = text.count("|") + 1
    if count != len(containers):
        raise AssignmentError(
            f"Annotation {annotation} has {count} slots, but the pod has {len(containers)} containers; it has"
            " to have one slot for each, separated by |, empty for a container without cards."
        )
    parts = _split(text, "|")
    return [
        _Slot(annotation, container, number, start, part)
        for number, (container, (start, part)) in enumerate(zip(containers, parts, strict=True), start=1)
    ]


def _split(text: str, separator: str) -> Iterator[tuple[int, str]]:
    start = 0
    for part in text.split(separator):
        yield start, part
        start += len(part) + 1


def _parse_cards(slot: _Slot) -> tuple[str, ...]:
    found: dict[str, None] = {}
    for start, part in slot.parts():
        found[_card_name(slot, start, part, found)] = None
    return tuple(found)


def _card_name(slot: _Slot, start: int, text: str, taken: Mapping[str, object]) -> str:
    if not _CARD.fullmatch(text):
        raise slot.error(start, f"{excerpt(text)} is no card; a card is written card3")
    if text in taken:
        raise slot.error(start, f"{text} is there twice")
    return text


def _parse_tiles(slot: _Slot, cards: Sequence[str]) -> _Tiles:
    found: dict[str, frozenset[int]] = {}
    for start, part in slot.parts():
        name, colon, tiles = part.partition(":")
        if not colon:
            raise slot.error(start, f"{excerpt(part)} names no tiles; tiles are written card3:gt0+gt1")
        _card_name(slot, start, name, found)
        if name not in cards:
            raise slot.error(start, f"{name} is not among the container's cards in {CARDS_ANNOTATION}")
        found[name] = _tile_numbers(slot, start + len(name) + 1, tiles)
    missing = [name for name in cards if name not in found]
    if found and missing:
        raise slot.error(
            len(slot.text), f"{missing[0]} of the container's cards has no tiles while others do"
        )
    return found


def _tile_numbers(slot: _Slot, offset: int, text: str) -> frozenset[int]:
    numbers: set[int] = set()
    for start, part in _split(text, "+"):
        match = _TILE.fullmatch(part)
        if match is None or int(match[1]) > MAX_TILE:
            raise slot.error(
                offset + start,
                f"{excerpt(part)} is no tile; a tile is written gt0, its number at most {MAX_TILE}",
            )
        if int(match[1]) in numbers:
            raise slot.error(offset + start, f"{part} is there twice")
        numbers.add(int(match[1]))
    return frozenset(numbers)


def _parse_time(text: str | None) -> int | None:
    if text is None:
        return None
    if not _TIME.fullmatch(text) or int(text) > MAX_TIME_NS:
        raise AssignmentError(
            f"Annotation {TIME_ANNOTATION} is {excerpt(text)}; it has to be a time in nanoseconds since 1970,"
            " of up to 19 digits."
        )
    return int(text)
