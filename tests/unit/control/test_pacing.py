"""Work that costs much has pauses in it, and between its turns."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelet.control.pacing import Intervals, Parts, Rests
from tests.fakes.clocks import FakeClock


@given(
    st.floats(0.0, 1000.0, allow_nan=False),
    st.floats(0.1, 100.0, allow_nan=False),
    st.floats(0.0, 20.0, allow_nan=False),
)
def test_a_look_that_took_long_is_followed_by_a_longer_interval(
    took_s: float, least_s: float, share: float
) -> None:
    clock = FakeClock()
    intervals = Intervals(clock, least_s, share)
    assert intervals.left_s <= 0, "the first look may be at once"
    with intervals.look():
        clock.time_s += took_s
    assert intervals.left_s == pytest.approx(max(least_s, share * took_s))
    clock.time_s = intervals.until_s
    assert intervals.left_s <= 0


async def test_others_have_their_turn_after_each_part() -> None:
    turns: list[str] = []

    async def other() -> None:
        for _ in range(3):
            turns.append("other")
            await asyncio.sleep(0)

    task = asyncio.create_task(other())
    parts = Parts(2)
    for number in range(4):
        await parts.pause()
        turns.append(str(number))
        parts.count()
    await parts.pause()
    await task
    assert turns == ["0", "1", "other", "2", "3", "other", "other"]


def test_a_rest_ends_by_itself_and_its_beginning_is_known_until_it_is_forgotten() -> None:
    clock = FakeClock()
    rests = Rests[str](clock.now_s)
    assert not rests.is_resting("a")
    assert rests.last("a").since_s == 0.0
    rests.begin("a", 10.0)
    rests.begin("b", 10.0)
    assert rests.is_resting("a")
    clock.time_s += 10.0
    assert not rests.is_resting("a")
    rests.forget_ended(but={"a"})
    assert (rests.last("a").since_s, rests.last("b").since_s) == (clock.time_s - 10.0, 0.0)
