import asyncio
import logging

import pytest

from accelet.runtime.tasks import task_group


class FirstError(Exception): ...


async def fail(error: Exception, after: asyncio.Event | None = None) -> None:
    if after is not None:
        await after.wait()
    raise error


async def fail_when_cancelled() -> None:
    try:
        await asyncio.Event().wait()
    finally:
        raise ValueError("in turn")


async def test_first_failure_comes_out_alone_and_others_are_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def run() -> None:
        async with task_group() as tasks:
            tasks.create_task(fail_when_cancelled())
            await asyncio.sleep(0)
            tasks.create_task(fail(FirstError("first")))

    with caplog.at_level(logging.ERROR), pytest.raises(FirstError, match="first"):
        await run()
    assert [record.values for record in caplog.records] == [{"error": "ValueError: in turn"}]  # type: ignore[attr-defined]


async def test_failure_in_a_group_of_a_group_comes_out_alone() -> None:
    async def inner() -> None:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(fail(FirstError("deep")))

    with pytest.raises(FirstError, match="deep"):
        async with task_group() as tasks:
            tasks.create_task(inner())


async def test_failure_of_the_body_comes_out_and_ends_the_tasks() -> None:
    running: list[asyncio.Task[bool]] = []

    async def run() -> None:
        async with task_group() as tasks:
            running.append(tasks.create_task(asyncio.Event().wait()))
            raise FirstError

    with pytest.raises(FirstError):
        await run()
    assert running[0].cancelled()


async def test_cancellation_stays_one() -> None:
    async def run() -> None:
        async with task_group() as tasks:
            tasks.create_task(asyncio.Event().wait())

    task = asyncio.create_task(run())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
