"""Draws cards: a line each, a mark for each tile, so that one sees how free tiles are scattered."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from accelet.runtime.excerpts import printable
from accelet.scheduler.cards.view import (
    CardView,
    ClusterView,
    HolderView,
    NodeView,
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
_MOST_WIDE = (16, 12, _MOST_TILES_IN_A_ROW, 8, 12)


def print_cards(console: Console, view: ClusterView) -> None:
    """Prints the nodes with cards, those without in one line, and what is free in all."""
    shown = [node for node in view.nodes if not node.is_bare]
    widths = _widths([card for node in shown for card in node.cards])
    for node in shown:
        console.print(_heading(node))
        if node.cards:
            console.print(_draw_node(node, widths, plain=console.options.ascii_only))
        for stray in node.strays:
            devices, holder = escape(stray.devices), escape(stray.container)
            console.print(f"  [red]{holder} is assigned {devices}, which the node does not publish[/]")
        console.print()
    _print_bare(console, [node.name for node in view.nodes if node.is_bare])
    for total in view.totals:
        _print_total(console, total)
    _print_end(console, view)


def _heading(node: NodeView) -> str:
    name = f"[bold]{escape(node.name)}[/]"
    if node.problem is not None:
        return f"{name}  [yellow]{escape(node.problem)}[/]"
    tiles = [tile for card in node.cards for tile in card.tiles]
    return f"{name}  " + _say_free(
        sum(tile.state == "free" for tile in tiles),
        len(tiles),
        sum(card.is_free for card in node.cards),
        len(node.cards),
    )


def _say_free(tiles_free: int, tiles: int, cards_free: int, cards: int) -> str:
    of_tiles = f"{tiles_free:,} of {_plural(tiles, 'tile')} free"
    return f"{of_tiles}, {cards_free:,} of {_plural(cards, 'card')} wholly free"


def _widths(cards: Sequence[CardView]) -> list[int]:
    """Of all columns but the last, the same for every node."""
    cells = [_HEADS[:-1], *(_figures(card) for card in cards)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(_HEADS) - 1)]
    return [min(width, most) for width, most in zip(widths, _MOST_WIDE, strict=True)]


def _figures(card: CardView) -> tuple[str, ...]:
    total, free = card.memory_bytes, card.memory_free_bytes
    memory = "" if total is None or free is None else f"{_gib(free)}/{_gib(total)}Gi"
    tiles = " " * min(len(card.tiles), _MOST_TILES_IN_A_ROW)
    return card.card or card.id, printable(card.model or ""), tiles, str(card.millicores_free), memory


def _draw_node(node: NodeView, widths: Sequence[int], *, plain: bool) -> Table:
    table = Table(box=None, show_header=True, header_style="dim", pad_edge=False, padding=(0, 2, 0, 0))
    for head, width in zip(_HEADS, widths, strict=False):
        table.add_column(
            head,
            width=width,
            overflow="ellipsis",
            no_wrap=head != "TILES",
            justify="right" if head in ("MILLI", "MEMORY") else "left",
        )
    table.add_column(_HEADS[-1], overflow="fold")
    for card in node.cards:
        name, model, _, millicores, memory = _figures(card)
        table.add_row(
            name,
            Text(model),
            _draw_tiles(card.tiles, plain=plain),
            Text(millicores, style="" if card.millicores_free >= 0 else "red"),
            Text(memory, style="" if (card.memory_free_bytes or 0) >= 0 else "red"),
            Text("\n").join(_notes(card)),
        )
    return table


def _draw_tiles(tiles: Sequence[TileView], *, plain: bool) -> Text:
    text = Text()
    for number, tile in enumerate(tiles):
        mark = _MARKS[tile.state]
        row_ends = number and number % _MOST_TILES_IN_A_ROW == 0
        text.append("\n" if row_ends else "").append(mark.plain if plain else mark.sign, mark.style)
    return text


def _notes(card: CardView) -> Iterator[Text]:
    """What is wrong with a card, then who holds what of it."""
    for conflict in card.conflicts:
        yield Text(f"! {conflict}", "red")
    if card.health != "Healthy":
        yield Text(f"ill: {printable(card.health, _MOST_OF_A_REASON)}", "magenta")
    if not card.in_service:
        yield Text("out of service", "magenta")
    elif closed := [tile.tile for tile in card.tiles if not tile.in_service]:
        yield Text(f"out of service: {_numbers(closed)}", "magenta")
    yield from map(_draw_holder, card.holders)
    if card.unassigned:
        yield Text(f"all {_plural(card.unassigned, 'container')} without an assignment", "yellow")


def _draw_holder(holder: HolderView) -> Text:
    text = Text(_numbers(holder.tiles) if holder.tiles else "all", "cyan" if holder.tiles else "yellow")
    return text.append(f" {holder.container}", "default")


def _numbers(tiles: Sequence[int]) -> str:
    return f"{'tiles' if len(tiles) > 1 else 'tile'} {','.join(map(str, tiles))}"


def _print_bare(console: Console, names: Sequence[str]) -> None:
    if names:
        rest = f" and {len(names) - _MOST_NODES_NAMED} more" if len(names) > _MOST_NODES_NAMED else ""
        named = escape(", ".join(names[:_MOST_NODES_NAMED]))
        console.print(f"{_plural(len(names), 'node')} without cards: {named}{rest}\n")


def _print_total(console: Console, total: TotalView) -> None:
    free = _say_free(total.tiles_free, total.tiles, total.cards_free, total.cards)
    console.print(f"[bold]{escape(total.resource)}[/]  {free}")
    parts = [
        *([_plural(total.largest_tiles, "tile")] if total.largest_tiles else []),
        *([f"{total.largest_millicores} millicores"] if total.largest_millicores else []),
        *([f"{_gib(total.largest_memory_bytes)} GiB of memory"] if total.largest_memory_bytes else []),
    ]
    console.print(f"  the most that one card has free: {', '.join(parts) or 'nothing'}")


def _print_end(console: Console, view: ClusterView) -> None:
    """What the marks mean, as far as there are any, and a warning where cards are held that cannot be."""
    cards = [card for node in view.nodes for card in node.cards]
    states = {tile.state for card in cards for tile in card.tiles}
    legend = [
        f"[{mark.style}]{mark.plain if console.options.ascii_only else mark.sign}[/] {mark.words}"
        for state, mark in _MARKS.items()
        if state in states
    ]
    if legend:
        console.print("  " + "  ".join(legend) + "\n  MILLI, MEMORY: millicores and memory that are free")
    if conflicts := sum(bool(card.conflicts) for card in cards):
        console.print(
            f"[red]Warning: {_plural(conflicts, 'card')} with holders that cannot hold it together, "
            "marked !. The scheduler gives nothing twice: somebody else has written such an assignment.[/]"
        )
    if not view.nodes:
        console.print("There are no nodes.")


def _gib(amount: int) -> str:
    gib = amount / 2**30
    return f"{gib:.3g}" if abs(gib) < 100 else f"{gib:.0f}"


def _plural(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'s' * (count != 1)}"
