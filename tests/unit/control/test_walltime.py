"""Waits that are written down: over when they are, and not put off by clocks that are set back."""

from hypothesis import given
from hypothesis import strategies as st

from accelet.control.walltime import left_s

_MOST = st.floats(0.0, 1e5)


@given(_MOST, st.floats(0.0, 1.0), st.floats(0.0, 1e5))
def test_a_wait_lasts_as_long_as_it_was_to_last(most_s: float, part: float, passed_s: float) -> None:
    now_s = 1e9
    left = left_s(now_s + most_s * part, now_s + passed_s, most_s)
    assert abs(left - max(0.0, most_s * part - passed_s)) < 1e-3


@given(_MOST, st.floats(0.0, 1.0), st.floats(0.0, 1e8))
def test_a_clock_that_is_set_back_puts_it_off_for_a_while_at_most(
    most_s: float, part: float, back_s: float
) -> None:
    """Told again and again by that clock, it is over after twice its time, or a minute more."""
    until_s, now_s = 1e9 + most_s * part, 1e9 - back_s
    ended_s = next(
        now_s + waited_s
        for waited_s in (0.0, most_s, 2 * most_s, 2 * most_s + 60.0)
        if left_s(until_s, now_s + waited_s, most_s) <= 1e-3
    )
    assert ended_s <= now_s + 2 * most_s + 60.0
