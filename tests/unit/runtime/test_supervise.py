"""A task that fails by a fault of its own is started again."""

import asyncio

import pytest

from accelet.runtime.supervise import supervise


async def test_fault_is_logged_told_and_the_task_started_again(caplog: pytest.LogCaptureFixture) -> None:
    runs = 0
    faults = 0

    async def run() -> None:
        nonlocal runs
        runs += 1
        if runs == 1:
            raise ValueError("a fault")

    def failed() -> None:
        nonlocal faults
        faults += 1

    async with asyncio.timeout(5):
        await supervise("gpu", run, failed, first_wait_s=0.01)
    assert (runs, faults) == (2, 1)
    assert "a fault" in caplog.text
