"""Tables in pipes and on narrow terminals."""

import io

from hypothesis import given
from hypothesis import strategies as st

from accelet.cli.drawing.output import Output
from accelet.cli.drawing.records import Records, lay_out, styled

WORDS = st.text(st.characters(codec="utf-8", categories=("L", "N", "P", "S")), max_size=30)
HEADS = ("POD", "DEVICES", "NODES", "WHY")
ROWS = st.lists(st.tuples(WORDS, st.lists(WORDS, max_size=3), WORDS, WORDS), max_size=6)


def drawn(records: Records, width: int | None) -> list[str]:
    return [line.plain for line in lay_out(records, width)]


@given(ROWS)
def test_without_a_limit_each_record_is_one_line(rows: list[tuple[str, list[str], str, str]]) -> None:
    head, *lines = drawn(Records(HEADS, rows), None)
    assert head.split() == list(HEADS)
    assert len(lines) == len(rows)
    for (pod, devices, node, why), line in zip(rows, lines, strict=True):
        # A line ends where its last word does.
        assert all(cell.rstrip() in line for cell in (pod, ", ".join(devices), node, why))


@given(ROWS, st.integers(1, 200))
def test_no_cell_is_ever_cut_or_folded(rows: list[tuple[str, list[str], str, str]], width: int) -> None:
    lines = drawn(Records(HEADS, rows), width)
    for pod, devices, node, why in rows:
        for cell in (pod, *devices, node, why):
            assert any(cell in line for line in lines)


@given(ROWS, st.integers(40, 200))
def test_a_line_is_wider_than_the_terminal_only_for_one_cell(
    rows: list[tuple[str, list[str], str, str]], width: int
) -> None:
    longest = max((len(", ".join(row[1])) for row in rows), default=0)
    for line in lay_out(Records(HEADS, rows), width):
        assert line.cell_len <= width or line.cell_len <= 2 * max(60, longest) + 20


def test_what_has_no_room_beside_the_rest_is_named_below() -> None:
    records = Records(("POD", "CARD", "WHY"), [("train-0", "card0", "its PCI configuration cannot be read")])
    assert drawn(records, 30) == [
        "POD      CARD",
        "train-0  card0",
        "    WHY its PCI configuration cannot be read",
    ]


def test_lines_of_a_cell_stay_below_each_other_on_a_terminal_and_are_joined_in_a_pipe() -> None:
    records = Records(("CARD", "HOLDERS"), [("card0", ["tile 0 a", "tile 1 b"])])
    assert drawn(records, 80) == ["CARD   HOLDERS", "card0  tile 0 a", "       tile 1 b"]
    assert drawn(records, None) == ["CARD   HOLDERS", "card0  tile 0 a, tile 1 b"]


@given(st.text())
def test_no_text_is_markup_or_moves_the_terminal(text: str) -> None:
    shown = styled(text).plain
    assert shown.isprintable()
    file = io.StringIO()
    Output(file).line(f"[red]{text}", styled("[/nothing]", "bold"))
    assert file.getvalue() == styled(f"[red]{text}[/nothing]").plain + "\n"


def test_a_hostile_name_is_shown_as_it_is() -> None:
    file = io.StringIO()
    Output(file).table(Records(("POD",), [("[bold]x[/] :smile:\x1b[2J",)]))
    assert file.getvalue() == "POD\n[bold]x[/] :smile:\\x1b[2J\n"
