"""Time that a test moves."""

import asyncio

import pytest

from accelet.fakekubelet.clock import ManualClock, within


async def test_sleepers_wake_in_the_order_of_their_times_and_may_sleep_again() -> None:
    clock = ManualClock()
    woken: list[tuple[str, float]] = []

    async def sleeper(name: str, *naps: float) -> None:
        for nap in naps:
            await clock.sleep(nap)
            woken.append((name, clock.now()))

    tasks = [asyncio.create_task(sleeper("slow", 5)), asyncio.create_task(sleeper("quick", 1, 1, 4))]
    await clock.advance(5.5)
    assert woken == [("quick", 1), ("quick", 2), ("slow", 5)]
    await clock.advance(0.5)
    assert woken[-1] == ("quick", 6)
    await asyncio.gather(*tasks)


async def test_work_within_time_gives_its_result_and_late_work_is_cancelled() -> None:
    clock = ManualClock()
    was_cancelled = asyncio.Event()

    async def work() -> str:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            was_cancelled.set()
            raise
        return "never"

    async def quick() -> str:
        return "done"

    assert await within(clock, 1, quick()) == "done"
    late = asyncio.create_task(within(clock, 1, work()))
    await clock.advance(1)
    with pytest.raises(TimeoutError):
        await late
    assert was_cancelled.is_set()
