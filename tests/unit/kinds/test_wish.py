"""What a person writes on a task to have it moved."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelet.kinds.wish import WISHED_FOR_S, MoveWish, parse_wish, render_wish

NAMES = st.from_regex("[a-z0-9]([-a-z0-9.]{0,60}[a-z0-9])?", fullmatch=True)
TIMES = st.datetimes(min_value=datetime(2000, 1, 1), max_value=datetime(2100, 1, 1), timezones=st.just(UTC))  # noqa: DTZ001


@given(to=st.none() | NAMES, now=TIMES)
def test_a_wish_is_read_as_it_was_written(to: str | None, now: datetime) -> None:
    assert parse_wish(render_wish(to, now)) == MoveWish(to, now.replace(microsecond=0).timestamp())


def test_a_wish_is_one_for_ten_minutes() -> None:
    asked = datetime(2026, 1, 1, tzinfo=UTC)
    wish = parse_wish(render_wish("gpu-7", asked))
    assert wish is not None
    for late_s, is_present in ((0, True), (WISHED_FOR_S, True), (WISHED_FOR_S + 1, False), (-601, False)):
        assert wish.is_present((asked + timedelta(seconds=late_s)).timestamp()) is is_present


@pytest.mark.parametrize(
    "text",
    [
        "",
        "gpu-7",
        "gpu\x1b[31m 2026-01-01T00:00:00Z",
        "gpu\n7 2026-01-01T00:00:00Z",
        "gpu-7 ",
        " 2026-01-01T00:00:00Z",
        "gpu-7 soon",
        "gpu-7 2026-01-01T00:00:00",
        f"{'n' * 400} 2026-01-01T00:00:00Z",
    ],
)
def test_what_cannot_be_read_is_no_wish(text: str) -> None:
    assert parse_wish(text) is None


@given(st.text(max_size=400))
def test_any_text_is_a_wish_or_none(text: str) -> None:
    parse_wish(text)
