"""A driver whose folders cannot be made at first, whose sockets go, and whose kubelet ends."""

import asyncio
import socket
from collections.abc import Collection
from functools import partial
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from accelet.accelerators.device import UnitId
from accelet.dra.metrics import DraMetrics
from accelet.dra.running.driver import DriverOptions, NodeDriver
from accelet.kube.client import Client
from tests.integration.dra.world import GPU, NODE, a_node, an_agent, result, until

CARD = "gpu-0000-04-00-0"


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


async def test_a_resource_is_not_ready_once_its_kubelet_ended_and_ready_with_the_next(folder: Path) -> None:
    async with a_node(folder) as world, an_agent(world) as agent:
        await world.register()
        await until(lambda: all(one.is_ok for one in agent.readiness()))
        await world.kubelet.stop()
        await until(lambda: any("the kubelet is not running" in one.detail for one in agent.readiness()))
        await world.register()
        await until(lambda: all(one.is_ok for one in agent.readiness()))


@pytest.mark.parametrize("place", ["plugins/gpu.accelet.dev", "plugins_registry"])
@pytest.mark.parametrize("what", ["file", "folder", "socket"])
async def test_a_socket_that_something_else_replaced_is_served_anew(
    folder: Path, place: str, what: str
) -> None:
    async with a_node(folder) as world, an_agent(world):
        driver = await world.register()
        (path,) = (folder / place).glob("*.sock")
        path.rename(path.with_suffix(".aside"))
        with socket.socket(socket.AF_UNIX) as other:
            match what:
                case "file":
                    path.touch()
                case "folder":
                    path.mkdir()
                case _:
                    other.bind(str(path))
            await until(lambda: bool(set((folder / place).glob("*.sock")) - {path}))
            await driver.connected(times=2)
            assert (await world.prepare(world.claim("card", result(CARD))))["card"].error == ""


async def _nobody(_units: Collection[UnitId]) -> frozenset[UnitId]:
    return frozenset()
