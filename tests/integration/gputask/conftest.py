import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from accelet.control.lease import Terms
from accelet.fakeapi import FakeApi
from accelet.gputask.process import TaskOptions, run_task_controller
from accelet.gputask.settings import TaskSettings
from tests.integration.terms import STEADY

StartTasks = Callable[..., AbstractAsyncContextManager["asyncio.Task[None]"]]


@pytest.fixture
def api() -> Iterator[FakeApi]:
    with FakeApi(bookmark_s=1.0) as api:
        api.state.create("api/v1/namespaces", "", {"metadata": {"name": "kube-system"}})
        yield api


@pytest.fixture
def start(api: FakeApi, tmp_path: Path) -> StartTasks:
    """Runs a replica of the task controller; by its settings, where there are any more."""

    @asynccontextmanager
    async def running(terms: Terms = STEADY, **said: Any) -> AsyncIterator["asyncio.Task[None]"]:
        kubeconfig = api.write_kubeconfig(tmp_path / "kubeconfig")
        settings = TaskSettings(**{"version": "v1", "first_pause_s": 0.1, **said})
        task = asyncio.create_task(run_task_controller(TaskOptions(kubeconfig, terms=terms), settings))
        try:
            yield task
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    return running
