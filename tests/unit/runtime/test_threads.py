"""Blocking calls on threads, and what becomes of those that nobody waits for any more."""

import asyncio
import threading

import pytest

from accelet.runtime.threads import Workers


async def test_a_call_that_no_thread_has_begun_is_taken_back_with_its_wait() -> None:
    workers, begun, go_on = Workers("test"), threading.Event(), threading.Event()
    done: list[int] = []

    def call(number: int) -> None:
        begun.set()
        go_on.wait(10.0)
        done.append(number)

    tasks = [asyncio.create_task(workers.run(call, number)) for number in range(4)]
    assert await asyncio.to_thread(begun.wait, 10.0)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    go_on.set()

    async with asyncio.timeout(10.0):
        assert await workers.run(lambda: "next") == "next"
    workers.close()

    assert done == [0], "the first had begun; the others come before the last one's turn"


async def test_what_a_call_raises_comes_to_who_waits() -> None:
    workers = Workers("test")

    with pytest.raises(ZeroDivisionError):
        await workers.run(lambda: 1 // 0)
    assert await workers.run(lambda: 7) == 7
    workers.close()
