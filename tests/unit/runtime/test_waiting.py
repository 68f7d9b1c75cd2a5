import asyncio
from collections.abc import Iterator

import pytest

from accelet.runtime.backoff import Backoff
from accelet.runtime.clock import SYSTEM_CLOCK, Clock, within
from accelet.runtime.waiting import left_s, until_it_works, wait_for_hint
from tests.fakes.clocks import FakeClock, settle


@pytest.mark.parametrize("clock", [SYSTEM_CLOCK, FakeClock()], ids=["system", "fake"])
async def test_hint_that_is_set_already_needs_no_wait(clock: Clock) -> None:
    hint = asyncio.Event()
    hint.set()
    assert await wait_for_hint(hint, 0.0, clock)
    assert hint.is_set(), "whoever takes it clears it"


async def test_hint_ends_a_wait_without_end() -> None:
    hint = asyncio.Event()
    waiting = asyncio.create_task(wait_for_hint(hint, None))
    await settle()
    hint.set()
    assert await waiting


async def test_wait_ends_after_its_time_by_the_clock() -> None:
    clock, hint = FakeClock(), asyncio.Event()
    waiting = asyncio.create_task(wait_for_hint(hint, 5.0, clock))
    await clock.advance(4.9)
    assert not waiting.done()
    await clock.advance(0.2)
    assert not await waiting


async def test_wait_by_the_machines_clock_ends() -> None:
    assert not await wait_for_hint(asyncio.Event(), 0.001)


def test_what_is_overdue_is_not_waited_for() -> None:
    assert [left_s(due_s, 10.0) for due_s in (12.5, 3.0, None)] == [2.5, 0.0, None]


@pytest.mark.parametrize("clock", [SYSTEM_CLOCK, FakeClock()], ids=["system", "fake"])
async def test_what_is_quick_enough_returns(clock: Clock) -> None:
    assert await within(clock, 60.0, asyncio.sleep(0, "done")) == "done"


async def test_what_takes_too_long_is_cancelled_and_says_so() -> None:
    never = asyncio.Event()
    with pytest.raises(TimeoutError, match=r"not done within 0\.001 s"):
        await within(SYSTEM_CLOCK, 0.001, never.wait())


async def test_timeout_of_its_own_is_passed_on() -> None:
    async def fail() -> None:
        raise TimeoutError("its own")

    with pytest.raises(TimeoutError, match="its own"):
        await within(SYSTEM_CLOCK, 60.0, fail())


async def test_call_is_made_again_after_growing_waits_until_it_works() -> None:
    clock, told = FakeClock(), []
    answers: Iterator[OSError | str] = iter([OSError("a"), OSError("b"), "works"])

    async def call() -> str:
        answer = next(answers)
        if isinstance(answer, OSError):
            raise answer
        return answer

    backoff = Backoff(first_s=1.0, most_s=60.0)
    work = until_it_works(
        call, OSError, lambda error, wait_s: told.append((str(error), wait_s)), backoff=backoff, clock=clock
    )
    task = asyncio.create_task(work)
    await clock.advance(0.9)
    assert told == [("a", 1.0)]
    await clock.advance(0.2)
    assert told == [("a", 1.0), ("b", 2.0)]
    await clock.advance(2.0)
    assert await task == "works"


async def test_error_that_is_not_expected_is_raised() -> None:
    async def call() -> None:
        raise KeyError("x")

    with pytest.raises(KeyError):
        await until_it_works(call, OSError, lambda *_: None, backoff=Backoff(1.0, 1.0))
