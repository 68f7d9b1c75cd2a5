"""`make test-delays` makes threads and timers late, and nothing else."""

import asyncio
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.delays import Delays, LateLoop


@given(st.text(max_size=8), st.floats(0, 1), st.floats(0, 10))
def test_delays_are_within_their_bounds_and_the_same_for_the_same_seed(
    seed: str, share: float, most_s: float
) -> None:
    one, other = (Delays(seed, share=share, most_s=most_s) for _ in range(2))
    drawn = [one.draw_s() for _ in range(50)]
    assert drawn == [other.draw_s() for _ in range(50)]
    assert all(0 <= late_s <= most_s for late_s in drawn)


@pytest.mark.parametrize(("share", "some"), [(0.0, False), (1.0, True)])
def test_the_share_says_how_much_is_late(share: float, *, some: bool) -> None:
    delays = Delays("0", share=share)
    assert all((delays.draw_s() > 0) is some for _ in range(50))


def test_a_late_loop_gives_the_results_and_the_errors_of_its_threads() -> None:
    async def work() -> tuple[int, bool]:
        with pytest.raises(ZeroDivisionError):
            await asyncio.to_thread(lambda: 1 // 0)
        here = threading.get_ident()
        return await asyncio.to_thread(lambda: 7), await asyncio.to_thread(threading.get_ident) != here

    with asyncio.Runner(loop_factory=lambda: LateLoop(Delays("0", share=1.0, most_s=0.01))) as runner:
        assert runner.run(work()) == (7, True)


def test_a_late_loop_wakes_late_and_not_early() -> None:
    async def sleep_s() -> float:
        clock = asyncio.get_running_loop().time
        began_s = clock()
        await asyncio.sleep(0.01)
        return clock() - began_s

    late_s = Delays("0", share=1.0, most_s=0.1).draw_s()
    with asyncio.Runner(loop_factory=lambda: LateLoop(Delays("0", share=1.0, most_s=0.1))) as runner:
        assert runner.run(sleep_s()) > late_s
