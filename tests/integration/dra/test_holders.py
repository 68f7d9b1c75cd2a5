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
from accelet.dra.running.pluginholders import PluginHolders
from accelet.fakekubelet import FakeKubelet, a_pod
from accelet.kube.client import Client
from accelet.kubelet.paths import KubeletPaths
from accelet.kubelet.podresources import PodResources
from accelet.node.kubeletrecords import KubeletRecords
from tests.integration.agent.running import GPU as PLUGIN_GPU
from tests.integration.agent.running import agent, cards_config, write_config
from tests.integration.dra.world import GPU, NODE, World, a_node, an_agent, result, until
from tests.unit.dra.strategies import gpu, gpus

UNITS = frozenset({UnitId("0000-03-00.0"), UnitId("0000-04-00.0")})
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
        driver.expect([CARDS.name])
        running = asyncio.create_task(driver.run())
        try:
            await world.register()
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
            await world.register()
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(1.5):
                    await world.prepare(claim)
            assert world.devices() == {}
            assert not world.cdi.exists()
            checkpoint.unlink()
            assert (await world.prepare(claim))["card"].error == ""


async def test_cards_of_a_pod_that_ended_are_free_though_the_kubelets_checkpoint_still_has_it(
    folder: Path,
) -> None:
    """The kubelet writes its checkpoint when it gives devices away, not when their pods end."""
    async with FakeKubelet(folder) as kubelet:
        async with agent(folder, write_config(folder, cards_config(2))):
            await kubelet.resource(PLUGIN_GPU).devices(healthy=2)
            ended = await kubelet.admit(a_pod("ended", limits={PLUGIN_GPU: 1}))
            going_on = await kubelet.admit(a_pod("going-on", limits={PLUGIN_GPU: 1}))
        await kubelet.resource(PLUGIN_GPU).disconnected()
        pod_resources = PodResources(KubeletPaths(folder).pod_resources_socket)
        records = KubeletRecords(KubeletPaths(folder))
        holders = PluginHolders(records, pod_resources, list_s=0.0, unshown_s=0.0)
        async with pod_resources:
            assert await holders.held_units(UNITS) == UNITS
            await kubelet.finish(ended)
            still = {UnitId(one) for one in going_on["main"].devices[PLUGIN_GPU]}
            assert await holders.held_units(UNITS) == still
            await kubelet.stop()
            assert await holders.held_units(UNITS) == still
        checkpoint = await records.checkpoint()
        assert checkpoint is not None
        assert len(checkpoint.entries) == 2


async def test_pods_are_not_taken_for_ended_while_podresources_does_not_answer(folder: Path) -> None:
    async with FakeKubelet(folder) as kubelet:
        async with agent(folder, write_config(folder, cards_config(2))):
            await kubelet.resource(PLUGIN_GPU).devices(healthy=2)
            await kubelet.admit(a_pod("one", limits={PLUGIN_GPU: 2}))
        await kubelet.stop()
        pod_resources = PodResources(KubeletPaths(folder).pod_resources_socket)
        holders = PluginHolders(
            KubeletRecords(KubeletPaths(folder)), pod_resources, list_s=0.0, unshown_s=0.0
        )
        async with pod_resources:
            assert await holders.held_units(UNITS) == UNITS
            assert await holders.held_units(UNITS) == UNITS


def _driver(world: World, holders: Holders) -> NodeDriver:
    folder = world.folder
    options = DriverOptions(GPU, NODE, Path("/"), KubeletPaths(folder), world.cdi, "boot")
    connect = partial(Client.connect, folder / "kubeconfig")
    return NodeDriver(options, connect, holders.read, DraMetrics(CollectorRegistry()))
