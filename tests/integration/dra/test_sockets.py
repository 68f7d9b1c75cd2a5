"""A driver whose kubelet has no folder for it yet, whose sockets go, and whose kubelet ends."""

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
from accelet.kubelet.paths import KubeletPaths
from tests.integration.dra.world import GPU, NODE, a_node, an_agent, result, until

CARD = "gpu-0000-04-00-0"


async def test_sockets_are_served_once_the_kubelets_folder_is_one(folder: Path) -> None:
    async with a_node(folder) as world:
        options = DriverOptions(GPU, NODE, Path("/"), KubeletPaths(folder), world.cdi, "boot")
        connect = partial(Client.connect, folder / "kubeconfig")
        driver = NodeDriver(options, connect, _nobody, DraMetrics(CollectorRegistry()))
        blocked = folder / "plugins_registry"
        blocked.rmdir()
        blocked.write_text("no folder")
        running = asyncio.create_task(driver.run())
        try:
            await until(lambda: "is no folder" in (driver.problem or ""), timeout_s=5)
            blocked.unlink()
            assert (await world.register()).driver == GPU
        finally:
            running.cancel()
            await asyncio.wait([running])


async def test_a_driver_waits_for_the_kubelets_folder_and_says_which_option_names_another(
    folder: Path,
) -> None:
    """A folder of its own making would be one that a kubelet with another --root-dir never looks into."""
    async with a_node(folder) as world:
        (folder / "plugins_registry").rmdir()
        async with an_agent(world) as agent:
            await until(lambda: any("--kubelet-root-dir" in one.detail for one in agent.readiness()))
            assert not (folder / "plugins_registry").exists()
            assert (await world.register()).driver == GPU


async def test_drivers_are_served_in_the_kubelets_root_while_device_plugins_stay(folder: Path) -> None:
    root, fixed = folder / "root", folder / "fixed"
    root.mkdir()
    fixed.mkdir()
    async with a_node(root) as world:
        # As a kubelet does: the fake keeps all of its folders in one.
        (fixed / "device-plugins").symlink_to(root / "device-plugins")
        options = DriverOptions(GPU, NODE, Path("/"), KubeletPaths(fixed, root_dir=root), world.cdi, "boot")
        connect = partial(Client.connect, root / "kubeconfig")
        driver = NodeDriver(options, connect, _nobody, DraMetrics(CollectorRegistry()))
        running = asyncio.create_task(driver.run())
        try:
            assert (await world.register()).driver == GPU
            await until(lambda: driver.publisher.problem == driver.problem)  # nothing of its sockets
            assert [one.name for one in fixed.iterdir()] == ["device-plugins"]
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
