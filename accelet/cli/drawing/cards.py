"""Draws cards: a line each, a mark for each tile, so that one sees how free tiles are scattered."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from rich.text import Text

from accelet.cli.drawing.output import Output
from accelet.cli.drawing.records import Cell, Line, Records, styled
from accelet.runtime.excerpts import printable
from accelet.scheduler.cards.view import (
    CardView,
    ClusterView,
    HolderView,
    NodeCardsView,
    TileState,
    TileView,
    TotalView,
)

_MOST_NODES_NAMED = 8
_MOST_TILES_IN_A_ROW = 16
_MOST_OF_A_REASON = 200


@dataclass(frozen=True, slots=True)
class _Mark:
    """How a tile is drawn; `plain` where there is nothing but ASCII."""

    sign: str
    plain: str
    style: str
    words: str


_MARKS: Mapping[TileState, _Mark] = {
    "free": _Mark("·", ".", "green", "free"),
    "held": _Mark("█", "#", "cyan", "held"),
    "shared": _Mark("▒", "=", "yellow", "shared"),
    "blocked": _Mark("-", "-", "dim", "no share left"),
    "closed": _Mark("x", "x", "magenta", "out of service"),
    "contested": _Mark("!", "!", "bold red", "held twice"),
}
_HEADS = ("CARD", "MODEL", "TILES", "MILLI", "MEMORY", "HOLDERS")
_FIGURES = frozenset({"MILLI", "MEMORY"})
_MOST_OF_A_MODEL = 12


def print_cards(output: Output, view: ClusterView) -> None:
    """Prints the nodes with cards, those without in one line, and what is free in all."""
    shown = [node for node in view.nodes if not node.is_bare]
    widths = _widths([card for node in shown for card in node.cards])
    for node in shown:
        output.line(*_heading(node))
        if node.cards:
            # A record is one line where nobody looks at a screen.
            row = _MOST_TILES_IN_A_ROW if output.is_terminal else max(len(card.tiles) for card in node.cards)
            output.table(_draw_node(node, widths, row, plain=output.is_ascii))
        for stray in node.strays:
            said = f"  {stray.container} is assigned {stray.devices}, which the node does not publish"
            output.line(styled(said, "red"))
        output.line()
    _print_bare(output, [node.name for node in view.nodes if node.is_bare])
    for total in view.totals:
        _print_total(output, total)
    _print_end(output, view)


def _heading(node: NodeCardsView) -> tuple[Line, ...]:
    name = styled(node.name, "bold")
    if node.problem is not None:
        return name, "  ", styled(node.problem, "yellow")
    tiles = [tile for card in node.cards for tile in card.tiles]
    free = _say_free(
        sum(tile.state == "free" for tile in tiles),
        len(tiles),
        sum(card.is_free for card in node.cards),
        len(node.cards),
    )
    return (name, "  ", styled("cordoned", "magenta"), "  ", free) if node.is_cordoned else (name, "  ", free)


def _say_free(tiles_free: int, tiles: int, cards_free: int, cards: int) -> str:
    of_tiles = f"{tiles_free:,} of {_plural(tiles, 'tile')} free"
    return f"{of_tiles}, {cards_free:,} of {_plural(cards, 'card')} wholly free"


def _widths(cards: Sequence[CardView]) -> Mapping[str, int]:
    """The least widths of all columns but the last, the same for every node."""
    cells = [_HEADS[:-1], *(_figures(card) for card in cards)]
    return {head: max(len(row[column]) for row in cells) for column, head in enumerate(_HEADS[:-1])}


def _figures(card: CardView) -> tuple[str, ...]:
    total, free = card.memory_bytes, card.memory_free_bytes
    memory = "not known" if total is None or free is None else f"{_gib(free)}/{_gib(total)}Gi"
    tiles = " " * min(len(card.tiles), _MOST_TILES_IN_A_ROW)
    return (
        card.card or card.id,
        printable(card.model or "", _MOST_OF_A_MODEL),
        tiles,
        str(card.millicores_free),
        memory,
    )


def _draw_node(node: NodeCardsView, widths: Mapping[str, int], row: int, *, plain: bool) -> Records:
    return Records(_HEADS, [_draw_card(card, row, plain=plain) for card in node.cards], widths, _FIGURES)


def _draw_card(card: CardView, row: int, *, plain: bool) -> tuple[Cell, ...]:
    name, model, _, millicores, memory = _figures(card)
    return (
        name,
        model,
        _draw_tiles(card.tiles, row, plain=plain),
        millicores,
        memory,
        tuple(_notes(card)),
    )


def _draw_tiles(tiles: Sequence[TileView], in_a_row: int, *, plain: bool) -> tuple[Text, ...]:
    """A mark a tile, in rows of so many."""
    marks = [_MARKS[tile.state] for tile in tiles]
    rows = (marks[first : first + in_a_row] for first in range(0, len(marks), in_a_row))
    return tuple(
        Text().join(Text(mark.plain if plain else mark.sign, mark.style) for mark in row) for row in rows
    )


def _notes(card: CardView) -> Iterator[Text]:
    """What is wrong with a card, then who holds what of it."""
    for conflict in card.conflicts:
        yield styled(f"! {conflict}", "red")
    if card.health != "Healthy":
        yield styled(f"ill: {printable(card.health, _MOST_OF_A_REASON)}", "magenta")
    if not card.in_service:
        yield styled("out of service", "magenta")
    elif closed := [tile.tile for tile in card.tiles if not tile.in_service]:
        yield styled(f"out of service: {_numbers(closed)}", "magenta")
    yield from map(_draw_holder, card.holders)
    if card.unassigned:
        yield styled(f"all {_plural(card.unassigned, 'container')} without an assignment", "yellow")


def _draw_holder(holder: HolderView) -> Text:
    text = styled(_numbers(holder.tiles) if holder.tiles else "all", "cyan" if holder.tiles else "yellow")
    return text + styled(f" {holder.container}{' (deleted by force)' * holder.is_lingering}")


def _numbers(tiles: Sequence[int]) -> str:
    return f"{'tiles' if len(tiles) > 1 else 'tile'} {','.join(map(str, tiles))}"


def _print_bare(output: Output, names: Sequence[str]) -> None:
    if names:
        rest = f" and {len(names) - _MOST_NODES_NAMED} more" if len(names) > _MOST_NODES_NAMED else ""
        named = ", ".join(names[:_MOST_NODES_NAMED])
        output.line(f"{_plural(len(names), 'node')} without cards: {named}{rest}")
        output.line()


def _print_total(output: Output, total: TotalView) -> None:
    free = _say_free(total.tiles_free, total.tiles, total.cards_free, total.cards)
    output.line(styled(total.resource, "bold"), f"  {free}")
    memory = total.largest_memory_bytes
    parts = [
        *([_plural(total.largest_tiles, "tile")] if total.largest_tiles else []),
        *([f"{total.largest_millicores} millicores"] if total.largest_millicores else []),
        *([f"{_gib(memory)} GiB of memory"] if memory else []),
    ]
    unknown = "; its memory is not known" if memory is None else ""
    output.line(f"  the most that one card has free: {', '.join(parts) or 'nothing'}{unknown}")


def _print_end(output: Output, view: ClusterView) -> None:
    """What the marks mean, as far as there are any, and a warning where cards are held that cannot be."""
    cards = [card for node in view.nodes for card in node.cards]
    states = {tile.state for card in cards for tile in card.tiles}
    legend = [
        part
        for state, mark in _MARKS.items()
        if state in states
        for part in ("  ", styled(mark.plain if output.is_ascii else mark.sign, mark.style), f" {mark.words}")
    ]
    if legend:
        output.line(*legend)
        output.line("  MILLI, MEMORY: millicores and memory that pods can still get")
    if conflicts := sum(bool(card.conflicts) for card in cards):
        warning = (
            f"Warning: {_plural(conflicts, 'card')} with holders that cannot hold it together, marked !. "
            "The scheduler gives nothing twice: somebody else has written such an assignment."
        )
        output.line(styled(warning, "red"))
    if not view.nodes:
        output.line("There are no nodes.")


def _gib(amount: int) -> str:
    gib = amount / 2**30
    return f"{gib:.3g}" if abs(gib) < 100 else f"{gib:.0f}"


def _plural(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'s' * (count != 1)}"
