"""When the holders of a card are evicted: not for one look, and never because nobody can tell how it is."""

import asyncio
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path

import pytest

from accelet.accelerators.ailments import Ailments
from accelet.accelerators.device import UnitId
from accelet.accelerators.scancache import uncached
from accelet.accelerators.steadyhealth import BAD_FOR_S, BAD_LOOKS_TO_FAIL, UNKNOWN_LOOKS_TO_DOUBT
from accelet.agent.config import parse_config
from accelet.agent.dradrivers import DraResource
from accelet.agent.metrics import AgentMetrics
from accelet.agent.service import ListHealth, SharedParts
from accelet.dra.running.driver import DriverOptions, NodeDriver
from accelet.fakehost.gpus import FALLEN_OFF, write_gpus
from accelet.fakehost.nodes import FLEX
from accelet.kube.client import Client
from accelet.kubelet.paths import KubeletPaths
from accelet.node.inventorymemory import InventoryMemory
from accelet.node.kubeletrecords import KubeletRecords
from accelet.node.unitlocks import UnitLocks
from tests.fakes.clocks import FakeClock
from tests.integration.dra.world import GPU, NODE, World, a_node, until

CONFIG = """\
version: v1
resources:
  - name: gpu.intel.com/i915
    backend: intel-gpu
    serve: dra
    unhealthy: {unhealthy}
"""
FIRST, SECOND = (f"gpu-{gpu.pci.replace(':', '-').replace('.', '-')}" for gpu in FLEX[:2])


class Looks:
    """One resource whose cards are looked at when the test says so; `health` is what is told of each."""

    def __init__(self, world: World, unhealthy: str, client: Client) -> None:
        self.host, self.clock = world.folder / "host", FakeClock()
        self.health: Mapping[str, str | None] = {}
        (config,) = parse_config(CONFIG.format(unhealthy=unhealthy), "test").resources
        metrics, paths = AgentMetrics(), KubeletPaths(world.folder)
        shared = SharedParts(
            self.host,
            paths,
            KubeletRecords(paths),
            UnitLocks(),
            uncached,
            InventoryMemory(world.folder / "memory"),
            metrics,
            lambda: None,
            self._tell,
            Ailments(),
        )
        options = DriverOptions(GPU, NODE, self.host, paths, world.cdi, "boot")

        async def connect() -> Client:
            return client

        self.driver = NodeDriver(options, connect, _nobody, metrics.dra, clock=self.clock)
        self.driver.expect([config.name])
        self.resource = DraResource(config, shared, self.driver)
        self._looked = asyncio.Event()

    def lead_drm_to(self, target: str) -> None:
        """Has /sys/class/drm, without a moment between, lead to its folder (`.`) or something in it."""
        link = self.host / "fresh"
        link.symlink_to(f"drm.d/{target}")
        link.replace(self.host / "sys/class/drm")

    def _tell(self, _resource: str, list_health: ListHealth | None) -> None:
        self.health = {} if list_health is None else list_health()
        self._looked.set()

    async def look(self, times: int = 1, *, after_s: float = 5.0) -> None:
        """Looks so often, with so much time before each look."""
        for _ in range(times):
            self.clock.time_s += after_s
            self._looked.clear()
            self.resource.note_hardware_hint()
            await self._looked.wait()


async def _nobody(_units: Collection[UnitId]) -> frozenset[UnitId]:
    return frozenset()


@asynccontextmanager
async def looks(folder: Path, unhealthy: str) -> AsyncIterator[tuple[World, Looks]]:
    """Two healthy cards, published."""
    async with a_node(folder) as world:
        write_gpus(folder / "host", FLEX[:2])
        client = await Client.connect(folder / "kubeconfig")
        made = Looks(world, unhealthy, client)
        drm = made.host / "sys/class/drm"
        drm.rename(drm.with_name("drm.d"))
        made.lead_drm_to(".")
        running = [asyncio.create_task(run()) for run in (made.driver.run, made.resource.run)]
        try:
            await world.register()
            await until(lambda: FIRST in world.devices())
            yield world, made
        finally:
            for task in running:
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task
            client.close()


def effects(world: World) -> dict[str, list[str]]:
    return {
        name: [taint["effect"] for taint in device.get("taints", ())]
        for name, device in world.devices().items()
        if name in (FIRST, SECOND)
    }


def break_first(made: Looks) -> None:
    write_gpus(made.host, [replace(FLEX[0], config=FALLEN_OFF), FLEX[1]])


async def test_one_look_at_a_card_off_the_bus_evicts_nobody_and_leaves_no_taint(folder: Path) -> None:
    async with looks(folder, "evict") as (world, made):
        break_first(made)
        await made.look()
        await until(lambda: effects(world) == {FIRST: ["NoSchedule"], SECOND: []})
        write_gpus(made.host, FLEX[:2])
        await made.look(2)
        await until(lambda: effects(world) == {FIRST: [], SECOND: []})


@pytest.mark.parametrize(("unhealthy", "effect"), [("evict", "NoExecute"), ("keep", "NoSchedule")])
async def test_holders_are_evicted_once_a_card_stays_off_the_bus_where_the_resource_says_so(
    folder: Path, unhealthy: str, effect: str
) -> None:
    async with looks(folder, unhealthy) as (world, made):
        break_first(made)
        await made.look(10 * BAD_LOOKS_TO_FAIL, after_s=BAD_FOR_S / 100)
        await until(lambda: effects(world) == {FIRST: ["NoSchedule"], SECOND: []})
        await made.look(after_s=BAD_FOR_S)
        await until(lambda: effects(world) == {FIRST: [effect], SECOND: []})


async def test_nobody_is_evicted_while_cards_cannot_be_listed(folder: Path) -> None:
    async with looks(folder, "evict") as (world, made):
        made.lead_drm_to("version")  # a file, which cannot be listed
        await made.look(20)
        await until(lambda: effects(world) == {FIRST: ["NoSchedule"], SECOND: ["NoSchedule"]})
        assert all("cannot be scanned" in (reason or "") for reason in made.health.values())
        made.lead_drm_to(".")
        await made.look(2)
        await until(lambda: effects(world) == {FIRST: [], SECOND: []})


async def test_nobody_is_evicted_while_a_card_does_not_say_what_it_is(folder: Path) -> None:
    async with looks(folder, "evict") as (world, made):
        vendor = made.host / "sys/class/drm/card0/device/vendor"
        vendor.rename(vendor.with_name("aside"))
        await made.look(20)
        await until(lambda: effects(world) == {FIRST: ["NoSchedule"], SECOND: []})
        vendor.with_name("aside").rename(vendor)
        await made.look(2)
        await until(lambda: effects(world) == {FIRST: [], SECOND: []})


async def test_the_kubelet_is_told_unknown_and_unhealthy_apart(folder: Path) -> None:
    async with looks(folder, "evict") as (world, made):
        view = await world.kubelet.driver_registered(GPU)
        config = made.host / "sys/bus/pci/devices" / FLEX[0].pci / "config"
        content = config.read_bytes()
        config.unlink()
        config.mkdir()  # reading it fails
        await made.look(UNKNOWN_LOOKS_TO_DOUBT)
        await until(lambda: view.health[NODE, FIRST][0] == "Unknown")
        config.rmdir()
        config.write_bytes(content)
        break_first(made)
        await made.look()
        await until(lambda: view.health[NODE, FIRST][0] == "Unhealthy")
        assert view.health[NODE, SECOND][0] == "Healthy"
