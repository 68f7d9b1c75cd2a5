"""Lays records out in columns: values in, lines of text out."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from rich.cells import cell_len
from rich.text import Text

GAP = "  "
INDENT = "    "


def styled(text: str, style: str = "") -> Text:
    """`text` as it is: nothing in it is markup, and what a terminal would obey is shown as an escape."""
    shown = "".join(sign if sign.isprintable() else sign.encode("unicode_escape").decode() for sign in text)
    return Text(shown, style)


Line = str | Text
Cell = Line | Sequence[Line]
"""One or several lines; what is only a `str` is plain text."""


@dataclass(frozen=True, slots=True)
class Records:
    """Records under column heads. `widths` are the least widths of columns, for tables that look alike;
    `justified_right` has the heads of columns of figures.
    """

    heads: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    widths: Mapping[str, int] | None = None
    justified_right: frozenset[str] = frozenset()


def lay_out(records: Records, width: int | None) -> Iterator[Text]:
    """The lines of a table of at most `width` columns; None for no limit, where each record is one line.

    No cell is ever folded or cut. Where not all columns fit side by side, the last ones of each record
    follow on lines of their own, each with its head. A cell that is wider than the table stays whole.
    """
    rows = [[_lines(cell) for cell in row] for row in records.rows]
    if width is None:
        rows = [[(_joined(lines),) for lines in row] for row in rows]
    widths = _widths(records, rows)
    shown = len(widths) if width is None else _fitting(widths, width)
    columns = list(zip(records.heads, widths, strict=True))[:shown]
    yield _side_by_side(records, columns, [Text(head) for head, _ in columns], style="bold")
    for row in rows:
        for line in zip_longest(*row[:shown], fillvalue=Text()):
            yield _side_by_side(records, columns, line)
        yield from _below(records.heads[shown:], row[shown:], width or 0)


def _lines(cell: Cell) -> tuple[Text, ...]:
    lines = [cell] if isinstance(cell, str | Text) else cell
    return tuple(styled(line) if isinstance(line, str) else line for line in lines)


def _joined(lines: Sequence[Text]) -> Text:
    return Text(", ").join(lines)


def _widths(records: Records, rows: Sequence[Sequence[Sequence[Text]]]) -> list[int]:
    least = records.widths or {}
    return [
        max(least.get(head, 0), cell_len(head), *(line.cell_len for row in rows for line in row[column]), 0)
        for column, head in enumerate(records.heads)
    ]


def _fitting(widths: Sequence[int], width: int) -> int:
    """How many leading columns fit; at least one."""
    taken, fitting = -len(GAP), 0
    for column in widths:
        taken += len(GAP) + column
        if taken > width:
            break
        fitting += 1
    return max(fitting, 1)


def _side_by_side(
    records: Records, columns: Sequence[tuple[str, int]], cells: Sequence[Text], style: str = ""
) -> Text:
    line = Text(style=style)
    for (head, width), cell in zip(columns, cells, strict=True):
        space = " " * (width - cell.cell_len)
        line.append(GAP if line else "")
        line = line + space + cell if head in records.justified_right else line + cell + space
    line.rstrip()
    return line


def _below(heads: Sequence[str], cells: Sequence[Sequence[Text]], width: int) -> Iterator[Text]:
    """The cells that had no room beside the others, as many a line as fit whole."""
    line = Text()
    for head, lines in zip(heads, cells, strict=True):
        text = _joined(lines)
        if not text:
            continue
        entry = Text(f"{head} ", "dim") + text
        if line and len(INDENT) + line.cell_len + len(GAP) + entry.cell_len > width:
            yield Text(INDENT) + line
            line = Text()
        line = line + GAP + entry if line else entry
    if line:
        yield Text(INDENT) + line
