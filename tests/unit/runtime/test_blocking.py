"""What holds the event loop up is measured."""

import asyncio
import gc

import pytest

from accelet.runtime.blocking import measure_blocking, without_full_collections
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


def _full_collections(churn: int) -> int:
    """How many come while so many objects are made that live on."""
    before = gc.get_stats()[2]["collections"]
    kept = [[number] for number in range(churn)]
    assert len(kept) == churn
    return int(gc.get_stats()[2]["collections"] - before)


def test_only_young_objects_are_looked_at_while_it_lasts() -> None:
    gc.collect()
    with without_full_collections():
        assert _full_collections(2_000_000) == 0
    assert gc.get_threshold()[2] == 10
