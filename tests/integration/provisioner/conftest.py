import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from accelet.fakeapi import FakeApi
from accelet.provisioner.choice import choose_provider
from accelet.provisioner.process import Provisioner, ProvisionerOptions
from accelet.provisioner.settings import ProvisionerSettings, SimulatedPools
from tests.integration.provisioner.world import World, open_world
from tests.integration.terms import STEADY

TIMES: dict[str, Any] = {"poll_s": 0.2, "grace_s": 0.2, "settle_s": 0.1, "lag_s": 0.5, "rest_s": 0.5}
Start = Callable[..., AbstractAsyncContextManager["asyncio.Task[None]"]]


@pytest.fixture
def world() -> Iterator[World]:
    with FakeApi(bookmark_s=1.0) as api, open_world(api) as world:
        yield world


@pytest.fixture
def start(world: World, tmp_path: Path) -> Start:
    """Runs a replica of the provisioner with the simulated provider."""

    @asynccontextmanager
    async def running(**changes: Any) -> AsyncIterator["asyncio.Task[None]"]:
        kubeconfig = world.api.write_kubeconfig(tmp_path / "kubeconfig")
        simulated = changes.pop("simulated", SimulatedPools(create_s=0.3, join_s=0.2, delete_s=0.1))
        settings = ProvisionerSettings(version="v1", simulated=simulated, **{**TIMES, **changes})
        make_provider, pool_label = choose_provider(settings)
        options = ProvisionerOptions(kubeconfig, terms=STEADY)
        task = asyncio.create_task(Provisioner(options, settings, make_provider, pool_label).run())
        try:
            yield task
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    return running
