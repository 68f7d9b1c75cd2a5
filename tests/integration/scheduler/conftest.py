import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from accelet.control.lease import Terms
from accelet.fakeapi import FakeApi
from accelet.scheduler.process import Scheduler, SchedulerOptions
from accelet.scheduler.settings import SchedulerSettings
from tests.integration.scheduler.world import World, open_world
from tests.integration.terms import STEADY

Start = Callable[..., AbstractAsyncContextManager["asyncio.Task[None]"]]


@pytest.fixture
def world() -> Iterator[World]:
    with FakeApi(bookmark_s=1.0) as api, open_world(api) as world:
        yield world


@pytest.fixture
def start(world: World, tmp_path: Path) -> Start:
    """Runs a replica of the scheduler."""

    @asynccontextmanager
    async def running(
        token: str = "a-token",
        http: tuple[str, int] | None = None,
        kueue_within_s: float = 10.0,
        terms: Terms = STEADY,
        **settings: Any,
    ) -> AsyncIterator["asyncio.Task[None]"]:
        kubeconfig = world.api.write_kubeconfig(tmp_path / f"kubeconfig-{token}", token)
        options = SchedulerOptions(kubeconfig, terms=terms, http=http, kueue_within_s=kueue_within_s)
        chosen = SchedulerSettings(version="v1", **settings)
        task = asyncio.create_task(Scheduler(options, chosen).run())
        try:
            yield task
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    return running
