import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelet.control.workqueue import Schedule, WorkQueue
from accelet.kube.errors import TooManyError, UnavailableError
from tests.fakes.clocks import FakeClock, settle


def test_key_is_taken_once_however_often_it_was_added() -> None:
    schedule = Schedule[str](1.0, 8.0)
    for key in "abaab":
        schedule.add(key)
    assert [schedule.take(0.0) for _ in range(3)] == ["a", "b", None]


def test_key_added_while_taken_comes_again_after_it_is_done() -> None:
    schedule = Schedule[str](1.0, 8.0)
    schedule.add("a")
    schedule.take(0.0)
    schedule.add("a")
    assert schedule.take(0.0) is None
    schedule.done("a")
    assert schedule.take(0.0) == "a"


def test_earliest_delay_counts() -> None:
    schedule = Schedule[str](1.0, 8.0)
    schedule.add_at("a", 5.0)
    schedule.add_at("a", 3.0)
    schedule.add_at("a", 9.0)
    assert schedule.next_due_s == 3.0
    assert schedule.take(2.9) is None
    assert schedule.take(3.0) == "a"
    schedule.done("a")
    assert schedule.take(100.0) is None


def test_retries_double_up_to_the_most_and_start_again_when_forgotten() -> None:
    schedule = Schedule[str](1.0, 8.0)
    assert [schedule.retry("a", 0.0) for _ in range(5)] == [1.0, 2.0, 4.0, 8.0, 8.0]
    assert schedule.retry("b", 0.0) == 1.0
    schedule.forget("a")
    assert schedule.retry("a", 0.0) == 1.0


def test_a_key_is_not_taken_sooner_than_was_asked_for_whoever_adds_it_nor_much_later() -> None:
    schedule = Schedule[str](1.0, 8.0)
    assert schedule.retry("a", 0.0, 5.0) == 5.0
    schedule.add("a")
    schedule.add("b")
    schedule.add_at("a", 2.0)
    assert [schedule.take(4.9), schedule.take(4.9)] == ["b", None]
    assert schedule.take(5.0) == "a"
    schedule.done("a")
    assert schedule.take(100.0) is None
    assert schedule.retry("a", 100.0, 1e9) == 8.0


STEPS = st.lists(
    st.tuples(st.sampled_from(["add", "delay", "take", "done", "retry", "asked", "time"]), st.integers(0, 3)),
    max_size=60,
)


@given(STEPS)
def test_no_key_is_lost_and_none_is_taken_twice_at_a_time(steps: list[tuple[str, int]]) -> None:
    schedule = Schedule[int](1.0, 8.0)
    now_s, wanted, taken = 0.0, set[int](), set[int]()
    adding: dict[str, Callable[[int], object]] = {
        "add": schedule.add,
        "delay": lambda key: schedule.add_at(key, now_s + key),
        "retry": lambda key: schedule.retry(key, now_s),
        "asked": lambda key: held.update({key: now_s + schedule.retry(key, now_s, float(key))}),
    }
    held = dict[int, float]()
    for step, key in steps:
        if step in adding:
            adding[step](key)
            wanted.add(key)
        elif step == "time":
            now_s += key
        elif step == "done" and key in taken:
            schedule.done(key)
            taken.remove(key)
        elif step == "take" and (got := schedule.take(now_s)) is not None:
            assert got not in taken
            assert held.get(got, now_s) <= now_s or got == 0, "0 s are no wait that was asked for"
            taken.add(got)
            wanted.discard(got)
    seen = set[int]()
    for key in taken:
        schedule.done(key)
    while (got := schedule.take(now_s + 1000)) is not None:
        seen.add(got)
        schedule.done(got)
    assert wanted <= seen


@asynccontextmanager
async def working(
    queue: WorkQueue[str], look: Callable[[str], Awaitable[float | None]], parallel: int = 1
) -> AsyncIterator[None]:
    task = asyncio.create_task(queue.work(look, parallel=parallel))
    try:
        yield
    finally:
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


async def test_failing_key_comes_again_and_stops_no_other() -> None:
    clock, looks = FakeClock(), Counter[str]()

    async def look(key: str) -> None:
        looks[key] += 1
        if key == "unavailable":
            raise UnavailableError("no answer")
        if key == "fault":
            raise ZeroDivisionError

    queue = WorkQueue[str](clock, first_s=1.0, most_s=4.0)
    async with working(queue, look):
        for key in ("unavailable", "fault", "good"):
            queue.add(key)
        await settle()
        assert looks == {"unavailable": 1, "fault": 1, "good": 1}
        await clock.advance(1.0)
        assert looks == {"unavailable": 2, "fault": 2, "good": 1}
        await clock.advance(1.9)
        assert looks["fault"] == 2
        await clock.advance(0.1)
        assert looks["fault"] == 3


async def test_who_is_told_to_come_later_comes_no_sooner_though_there_is_news() -> None:
    clock, looks = FakeClock(), list[float]()

    async def look(_: str) -> None:
        looks.append(clock.now_s() - 1000)
        if len(looks) == 1:
            raise TooManyError("POST it", 429, "TooManyRequests", "", retry_after_s=7.0)

    queue = WorkQueue[str](clock)
    async with working(queue, look):
        queue.add("a")
        await settle()
        for _ in range(13):
            queue.add("a")
            await clock.advance(1.0)
        await clock.advance(100.0)
    assert looks[:2] == [0.0, 7.0]


async def test_look_says_when_it_wants_to_look_again() -> None:
    clock, looks = FakeClock(), list[float]()

    async def look(_: str) -> float | None:
        looks.append(clock.now_s() - 1000)
        return 5.0 if len(looks) < 3 else None

    queue = WorkQueue[str](clock)
    async with working(queue, look):
        queue.add_after("a", 2.0)
        await clock.advance(100.0)
    assert looks == [2.0, 7.0, 12.0]


async def test_keys_are_worked_on_in_parallel_but_none_with_itself() -> None:
    gate, now, most = asyncio.Event(), Counter[str](), Counter[str]()

    async def look(key: str) -> None:
        now[key] += 1
        now["all"] += 1
        for name in (key, "all"):
            most[name] = max(most[name], now[name])
        await gate.wait()
        now[key] -= 1
        now["all"] -= 1

    queue = WorkQueue[str]()
    async with working(queue, look, parallel=3):
        for key in "abcde":
            queue.add(key)
        await settle()
        for key in "abcde":
            queue.add(key)
        await settle()
        gate.set()
        await settle()
    assert most == {"a": 1, "b": 1, "c": 1, "d": 1, "e": 1, "all": 3}
