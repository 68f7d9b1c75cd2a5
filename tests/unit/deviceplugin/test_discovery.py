"""When hardware is scanned."""

from hypothesis import given
from hypothesis import strategies as st

from deviceplugin.discovery import HINT_GATHER_S, LOOK_FRESH_S, SCAN_S, next_scan

NOW = st.floats(min_value=0, max_value=1e8)


@given(NOW)
def test_next_scan_is_about_a_period_away_and_at_a_moment_common_to_all(now_s: float) -> None:
    at = next_scan(now_s)
    assert at % SCAN_S == 0
    assert SCAN_S / 2 - 1e-6 <= at - now_s <= SCAN_S * 3 / 2 + 1e-6


@given(NOW, st.floats(min_value=0, max_value=SCAN_S / 4))
def test_resources_that_scanned_together_scan_together_again(tick: float, took_s: float) -> None:
    started = next_scan(tick)
    assert next_scan(started) == next_scan(started + took_s) == started + SCAN_S


def test_look_from_before_a_hint_is_no_answer_to_it() -> None:
    assert LOOK_FRESH_S < HINT_GATHER_S
