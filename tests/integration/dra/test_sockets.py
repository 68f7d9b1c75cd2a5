"""A driver whose folders cannot be made at first."""

import asyncio
from collections.abc import Collection
from functools import partial
from pathlib import Path

from prometheus_client import CollectorRegistry

from accelet.accelerators.device import UnitId
from accelet.dra.metrics import DraMetrics
from accelet.dra.running.driver import DriverOptions, NodeDriver
from accelet.kube.client import Client
from tests.integration.dra.world import GPU, NODE, a_node, until


async def test_sockets_are_served_once_their_folders_can_be_made(folder: Path) -> None:
    async with a_node(folder) as world:
        options = DriverOptions(GPU, NODE, Path("/"), folder, world.cdi, "boot")
        connect = partial(Client.connect, folder / "kubeconfig")
        driver = NodeDriver(options, connect, _nobody, DraMetrics(CollectorRegistry()))
        blocked = folder / "plugins_registry"
        blocked.write_text("no folder")
        running = asyncio.create_task(driver.run())
        try:
            await until(lambda: "cannot be made" in (driver.problem or ""), timeout_s=5)
            blocked.unlink()
            assert (await world.register()).driver == GPU
        finally:
            running.cancel()
            await asyncio.wait([running])


async def _nobody(_units: Collection[UnitId]) -> frozenset[UnitId]:
    return frozenset()
