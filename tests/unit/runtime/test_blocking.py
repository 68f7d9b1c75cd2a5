"""What holds the event loop up is measured."""

import asyncio

import pytest

from accelet.runtime.blocking import measure_blocking
from tests.fakes.clocks import FakeClock


async def test_what_holds_the_loop_up_is_seen_as_no_more_than_a_period_shorter() -> None:
    clock, seen = FakeClock(), list[float]()
    measuring = asyncio.create_task(measure_blocking(seen.append, clock))
    await clock.advance(0.1)
    assert seen
    assert max(seen) < 1e-6
    before = len(seen)
    # Nobody runs for 0.3 s: when the loop goes on, the sleeper is late.
    clock.time_s += 0.3
    await clock.advance(0)
    assert seen[before:] == [pytest.approx(0.3, abs=0.02)]
    measuring.cancel()
    await asyncio.gather(measuring, return_exceptions=True)
