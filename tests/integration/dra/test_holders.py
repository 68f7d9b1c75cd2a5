"""Cards that containers hold by the device plugin, after a change to DRA."""

import asyncio
from collections.abc import Collection
from functools import partial
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from accelet.accelerators.device import UnitId
from accelet.dra.metrics import DraMetrics
from accelet.dra.running.driver import DriverOptions, NodeDriver
from accelet.kube.client import Client
from tests.integration.dra.world import GPU, NODE, World, a_node, an_agent, result, until
from tests.unit.dra.strategies import gpu, gpus

CARDS = gpus(gpu(3), gpu(4))
CARD_3, CARD_4 = "gpu-0000-03-00-0", "gpu-0000-04-00-0"
HELD = gpu(3)[0].unit


class Holders:
    """Who holds cards, told only once `may_tell` is set; `asked` is set when it is to be told of cards."""

    def __init__(self) -> None:
        self.asked, self.may_tell = asyncio.Event(), asyncio.Event()

    async def read(self, units: Collection[UnitId]) -> frozenset[UnitId]:
        if units:
            self.asked.set()
            await self.may_tell.wait()
        return frozenset({HELD} & set(units))


async def test_a_new_resource_is_not_published_before_its_holders_were_looked_at(folder: Path) -> None:
    async with a_node(folder) as world:
        holders = Holders()
        driver = _driver(world, holders)
        running = asyncio.create_task(driver.run())
        try:
            await world.kubelet.register()
            driver.expect([CARDS.name])
            driver.take(CARDS)
            async with asyncio.timeout(10):
                await holders.asked.wait()
            assert world.slices() == []
            holders.may_tell.set()
            await until(lambda: CARD_4 in world.devices())
            assert CARD_3 in _tainted(world)
            assert CARD_4 not in _tainted(world)
        finally:
            running.cancel()
            await asyncio.wait([running])


def _tainted(world: World) -> set[str]:
    return {name for name, device in world.devices().items() if device.get("taints")}


async def test_nothing_is_prepared_while_the_kubelets_checkpoint_cannot_be_read(folder: Path) -> None:
    """Who holds the cards by the device plugin cannot be told then."""
    async with a_node(folder) as world:
        checkpoint = folder / "device-plugins" / "kubelet_internal_checkpoint"
        checkpoint.write_text("{")
        claim = world.claim("card", result(CARD_3))
        async with an_agent(world):
            await world.kubelet.register()
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(1.5):
                    await world.kubelet.prepare(claim)
            assert world.devices() == {}
            assert not world.cdi.exists()
            checkpoint.unlink()
            assert (await world.kubelet.prepare(claim))["card"].error == ""


def _driver(world: World, holders: Holders) -> NodeDriver:
    folder = world.folder
    options = DriverOptions(GPU, NODE, Path("/"), folder, world.cdi, "boot")
    connect = partial(Client.connect, folder / "kubeconfig")
    return NodeDriver(options, connect, holders.read, DraMetrics(CollectorRegistry()))
