"""Hardware that claims hold and that leaves, moves or is divided is published and tainted all the same."""

import asyncio
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from accelet.accelerators.device import Device, UnitId
from accelet.accelerators.inventory import Inventory, Skipped
from accelet.accelerators.steadyhealth import BAD_FOR_S, BAD_LOOKS_TO_FAIL
from accelet.agent.metrics import AgentMetrics
from accelet.dra.publishing.served import ServedResource
from accelet.dra.running.driver import DriverOptions, NodeDriver
from accelet.kube.client import Client
from accelet.kubelet.paths import KubeletPaths
from tests.fakes.clocks import FakeClock
from tests.integration.dra.world import GPU, NODE, World, a_node, result, until
from tests.unit.dra.apirules import faults
from tests.unit.dra.strategies import gpu, gpus

I915, XE = "gpu.intel.com/i915", "gpu.intel.com/xe"
CARD, TILE_0, TILE_1 = "gpu-0000-03-00-0", "gpu-0000-03-00-0-tile-0", "gpu-0000-03-00-0-tile-1"
OTHER = "gpu-0000-04-00-0"
UNIT = UnitId("0000-03-00.0")
EVICTED = {"key": f"{GPU}/lost", "effect": "NoExecute"}
LOST = {"key": f"{GPU}/lost", "effect": "NoSchedule"}
STILL_HELD = {"key": f"{GPU}/still-held", "effect": "NoSchedule"}


def cards(
    name: str,
    *found: Sequence[Device],
    skipped: tuple[Skipped, ...] = (),
    failed: str = "NoExecute",
) -> ServedResource:
    """What a look at a resource's hardware found."""
    devices = tuple(replace(one, nodes=()) for card in found for one in card)
    return replace(gpus(name=name), inventory=Inventory(devices, skipped), failed=failed)  # type: ignore[arg-type]


class Driven:
    """A driver whose looks at hardware are those of the test. `elsewhere` are units of other resources."""

    def __init__(self, world: World, client: Client) -> None:
        self.clock = FakeClock()
        self._metrics = AgentMetrics().dra
        self.elsewhere: set[UnitId] = set()
        options = DriverOptions(
            GPU, NODE, world.folder / "host", KubeletPaths(world.folder), world.cdi, "boot"
        )

        async def connect() -> Client:
            return client

        self.driver = NodeDriver(
            options,
            connect,
            _nobody,
            self._metrics,
            served_units=lambda: self.elsewhere,
            clock=self.clock,
        )

    async def knows(self, claims: int) -> None:
        """Waits until the driver has looked at so many prepared claims."""
        gauge = self._metrics.prepared.labels(GPU)
        await until(lambda: gauge._value.get() == claims)

    def look(self, *resources: ServedResource, times: int = 1) -> None:
        """Looks so often, 5 s apart, at all resources there are."""
        for _ in range(times):
            self.clock.time_s += 5.0
            self.driver.expect([one.name for one in resources])
            for one in resources:
                self.driver.take(one)


async def _nobody(_units: Collection[UnitId]) -> frozenset[UnitId]:
    return frozenset()


@asynccontextmanager
async def a_driver(world: World) -> AsyncIterator[Driven]:
    """Runs a driver that is registered until the end of the block."""
    client = await Client.connect(world.folder / "kubeconfig")
    made = Driven(world, client)
    running = asyncio.create_task(made.driver.run())
    try:
        await world.register()
        yield made
    finally:
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running
        client.close()


async def hold(world: World, made: Driven, *devices: str) -> dict[str, Any]:
    """The last of claims that are prepared on these devices, once the driver has looked at them."""
    claim: dict[str, Any] = {}
    for number, device in enumerate(devices):
        claim = world.claim(f"held-{number}", result(device))
        assert (await world.prepare(claim))[f"held-{number}"].error == ""
    await made.knows(len(devices))
    return claim


def taints(world: World, device: str) -> list[dict[str, Any]]:
    return list(world.devices().get(device, {}).get("taints", ()))


def notes(world: World) -> list[str]:
    found = world.api.state.list("apis/events.k8s.io/v1/events", {}, None)["items"]
    return [event["note"] for event in sorted(found, key=lambda event: event["eventTime"])]


LASTING = BAD_LOOKS_TO_FAIL + round(BAD_FOR_S / 5)


async def test_a_held_card_that_moves_to_another_resource_is_published_once(folder: Path) -> None:
    """Whichever of the two is looked at first."""
    async with a_node(folder) as world, a_driver(world) as made:
        made.look(cards(I915, gpu(3)), cards(XE, gpu(4)))
        await until(lambda: CARD in world.devices())
        await hold(world, made, CARD)
        made.driver.take(cards(XE, gpu(3, kind="xe"), gpu(4)))  # before the other was looked at again
        await until(lambda: world.devices()[CARD]["attributes"]["kernelDriver"] == {"string": "xe"})
        made.look(cards(I915), cards(XE, gpu(3, kind="xe"), gpu(4)), times=LASTING)
        made.look(cards(I915), cards(XE, gpu(3, kind="xe"), gpu(4), gpu(5)))
        await until(lambda: "gpu-0000-05-00-0" in world.devices())
        assert faults(world.slices()) == []
        assert taints(world, CARD) == []


async def test_a_held_card_that_leaves_is_tainted_evicted_for_and_told_of(folder: Path) -> None:
    async with a_node(folder) as world, a_driver(world) as made:
        made.look(cards(I915, gpu(3), gpu(4)))
        await until(lambda: CARD in world.devices())
        await hold(world, made, CARD)
        made.look(cards(I915, gpu(4)))
        await until(lambda: taints(world, CARD) == [LOST])
        made.look(cards(I915, gpu(4)), times=LASTING)
        await until(lambda: taints(world, CARD) == [EVICTED])
        await until(lambda: notes(world) == [f"{CARD} is ill: it is not there any more"])
        made.look(cards(I915, gpu(3), gpu(4)), times=2)
        await until(lambda: taints(world, CARD) == [])
        await until(lambda: notes(world)[1:] == [f"{CARD} is well again"])


async def test_what_was_lost_is_published_and_evicted_for_after_a_restart_too(folder: Path) -> None:
    """Also what left while no agent ran."""
    async with a_node(folder) as world:
        async with a_driver(world) as made:
            made.look(cards(I915, gpu(3), gpu(4)))
            await until(lambda: CARD in world.devices())
            claim = await hold(world, made, CARD)
        async with a_driver(world) as made:
            made.look(cards(I915, gpu(4)))
            await until(lambda: taints(world, CARD) == [LOST])
            assert faults(world.slices()) == []
            assert world.devices()[CARD]["attributes"]["type"] == {"string": "gpu"}
            await until(lambda: notes(world) == [f"{CARD} is ill: it is not there any more"])
            made.look(cards(I915, gpu(4)), times=LASTING)
            await until(lambda: taints(world, CARD) == [EVICTED])
            view = await world.register()
            await until(lambda: view.health.get((NODE, CARD), ("",))[0] == "Unhealthy")
            assert await world.unprepare(claim) == {"held-0": ""}
            await until(lambda: CARD not in world.devices())


async def test_a_lost_tile_is_lost_to_its_holder_alone(folder: Path) -> None:
    async with a_node(folder) as world, a_driver(world) as made:
        made.look(cards(I915, gpu(3, tiles=2)))
        await until(lambda: TILE_1 in world.devices())
        await hold(world, made, TILE_0, TILE_1)
        made.look(cards(I915, gpu(3, tiles=1)), times=LASTING)
        await until(lambda: taints(world, TILE_1) == [EVICTED])
        await until(lambda: notes(world) == [f"{TILE_1} is ill: its tile 1 is not there any more"])
        assert taints(world, TILE_0) == taints(world, CARD) == [STILL_HELD]


async def test_a_card_of_a_device_plugin_resource_is_not_lost(folder: Path) -> None:
    async with a_node(folder) as world, a_driver(world) as made:
        made.look(cards(I915, gpu(3), gpu(4)))
        await until(lambda: CARD in world.devices())
        claim = await hold(world, made, CARD)
        made.elsewhere = {UNIT}
        made.look(cards(I915, gpu(4)), times=LASTING)
        await until(lambda: taints(world, CARD) == [STILL_HELD])
        assert (await world.prepare(claim))["held-0"].error == ""
        made.look(cards(I915, gpu(4)), times=LASTING)
        made.look()  # the driver has no resource left
        await until(lambda: list(world.devices()) == [CARD])
        assert taints(world, CARD) == [STILL_HELD]
        assert (await world.prepare(claim))["held-0"].error == ""
        assert notes(world) == []


async def test_virtual_functions_of_a_held_card_are_given_to_nobody(folder: Path) -> None:
    function = tuple(replace(one, parent=UNIT) for one in gpu(7))
    skip = Skipped("/sys/class/drm/card3", "pf-with-vfs", "it has virtual functions", UNIT)
    async with a_node(folder) as world, a_driver(world) as made:
        made.look(cards(I915, gpu(3)))
        await until(lambda: CARD in world.devices())
        claim = await hold(world, made, CARD)
        made.look(cards(I915, function, skipped=(skip,)), times=LASTING)
        await until(lambda: taints(world, "gpu-0000-07-00-0") == [STILL_HELD])
        assert taints(world, CARD) == [STILL_HELD]
        asked = asyncio.create_task(world.prepare(world.claim("new", result("gpu-0000-07-00-0"))))
        await asyncio.sleep(0)
        assert await world.unprepare(claim) == {"held-0": ""}
        assert (await asked)["new"].error == ""
        await until(lambda: taints(world, "gpu-0000-07-00-0") == [])


@pytest.mark.parametrize("failed", [("NoExecute", "NoSchedule"), ("NoSchedule", "NoSchedule")])
async def test_after_a_restart_nobody_is_evicted_where_not_all_resources_say_so(
    folder: Path, failed: tuple[str, str]
) -> None:
    """Which of them had the card is not known then."""
    async with a_node(folder) as world:
        async with a_driver(world) as made:
            made.look(cards(I915, gpu(3), failed=failed[0]), cards(XE, gpu(4), failed=failed[1]))
            await until(lambda: CARD in world.devices())
            await hold(world, made, CARD)
        async with a_driver(world) as made:
            look = cards(I915, failed=failed[0]), cards(XE, gpu(4), failed=failed[1])
            made.look(*look, times=LASTING)
            await until(lambda: taints(world, CARD) == [LOST])
            made.look(*look, times=LASTING)
            made.look(cards(I915, gpu(5), failed=failed[0]), look[1])
            await until(lambda: "gpu-0000-05-00-0" in world.devices())
            assert taints(world, CARD) == [LOST]
