"""How long to wait before the next try."""

from hypothesis import given
from hypothesis import strategies as st

from accelet.runtime.backoff import Backoff


def test_waits_double_up_to_the_most_and_begin_anew_after_a_success() -> None:
    backoff = Backoff(first_s=0.5, most_s=3.0)
    waits = []
    for _ in range(4):
        waits.append(backoff.wait_s)
        backoff = backoff.failed()
    assert waits == [0.5, 1.0, 2.0, 3.0]
    assert backoff.worked().wait_s == 0.5


@given(st.integers(0, 10_000))
def test_no_number_of_tries_overflows(tries: int) -> None:
    assert 0.02 <= Backoff(first_s=0.02, most_s=60.0, tries=tries).wait_s <= 60.0
