"""Lines of what programs write."""

from hypothesis import given
from hypothesis import strategies as st

from accelet.cli.tasks.lines import LONGEST, LineCutter

_PIECES = st.lists(st.binary(max_size=40) | st.just(b"\n") | st.just(b"x" * (LONGEST + 7)), max_size=12)


@given(_PIECES)
def test_lines_are_the_same_however_they_come_and_none_is_longer_than_the_longest(
    pieces: list[bytes],
) -> None:
    def cut(parts: list[bytes]) -> list[str]:
        cutter = LineCutter()
        return [line for part in parts for line in cutter.feed(part)] + cutter.end()

    whole = b"".join(pieces)
    lines = cut(pieces)
    assert "".join(lines) == "".join(cut([whole]))
    assert all(len(line) <= 8 * LONGEST for line in lines)
    if len(whole) < LONGEST:
        assert lines == cut([whole[at : at + 1] for at in range(len(whole))])


def test_a_line_without_an_end_is_kept_no_longer_than_one_line() -> None:
    cutter = LineCutter()
    shown = sum(len(line) for _ in range(100) for line in cutter.feed(b"y" * 10_000))

    assert 1_000_000 - shown < LONGEST
