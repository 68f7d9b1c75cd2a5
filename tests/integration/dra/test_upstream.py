"""Cases of Kubernetes' own tests of drivers (test/e2e_node/dra_test.go): what comes at a bad moment.

docs/dra.md lists them all, and where the others are.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc.aio
import pytest

from accelet.dra.running.places import Places
from accelet.dra.running.records import ClaimRecords
from accelet.fakekubelet import Pod, PodRecord, a_container, a_pod
from accelet.fakekubelet.claims.driverclient import ClaimRef
from accelet.fakekubelet.sample_driver import DRIVER as OTHER
from accelet.fakekubelet.sample_driver import DriverPlaces, RefusedClaimError, SampleDriver
from accelet.kube.client import Client
from accelet.kubelet.api import dra_v1_pb2 as v1
from accelet.kubelet.api import pluginregistration_pb2 as registration
from accelet.kubelet.api import pluginregistration_pb2_grpc as registration_grpc
from tests.integration.dra.world import GPU, NODE, World, a_node, an_agent, result, until

TILE, CARD = "gpu-0000-03-00-0-tile-0", "gpu-0000-04-00-0"
PACE = 20
"""Kubelets repeat a failed Prepare after a minute or more."""


def made(world: World, *names: str, results: Sequence[dict[str, Any]]) -> Pod:
    """Claims with one result each, and a pod whose one container uses them all."""
    pod = world.pod("pod-of-" + "-".join(names), {"main": [(name, None) for name in names]})
    for name, one in zip(names, results, strict=True):
        world.claim(name, one, pod=pod)
    return a_pod(
        pod["metadata"]["name"],
        "ml",
        uid=pod["metadata"]["uid"],
        generated_claims={name: name for name in names},
        containers=[a_container("main", claims=list(names))],
    )


def a_tile_for(world: World, name: str) -> Pod:
    return made(world, name, results=[result(TILE)])


async def called(world: World, call: str, pod_or_claim: str) -> None:
    """Returns once the kubelet has begun to make a call."""
    await world.kubelet.trace.until(
        lambda: any(
            event.event == call and pod_or_claim in (event.pod, *event.devices)
            for event in world.kubelet.trace
        ),
        f"{call} of {pod_or_claim}",
        timeout_s=10,
    )


async def gone(world: World, record: PodRecord) -> None:
    """Takes a pod away; nothing is left of its claims."""
    await world.kubelet.remove(record)
    await world.kubelet.released(record)
    assert list(world.cdi.glob(f"k8s.{GPU}*")) == []


async def test_a_kubelet_killed_during_prepare_has_it_done_when_it_is_back_and_what_came_meanwhile(
    folder: Path,
) -> None:
    async with a_node(folder, pace=PACE) as world, an_agent(world):
        await world.register()
        before = await world.kubelet.admit(a_tile_for(world, "before"))
        await world.kubelet.running(before)
        after = world.kubelet.bind(a_tile_for(world, "after"))
        await called(world, "prepare", str(after.pod))  # which waits for the tile
        await world.kubelet.stop()
        meanwhile = world.kubelet.bind(made(world, "meanwhile", results=[result(CARD)]))
        await world.kubelet.start()
        await world.kubelet.driver_registered(GPU)
        await world.kubelet.running(meanwhile)
        assert meanwhile["main"].injected.nodes == ("/dev/dri/card1",)
        assert not after.has_sandbox
        await world.kubelet.remove(before)
        await world.kubelet.running(after)
        assert after["main"].injected.envs["ZE_AFFINITY_MASK"] == "0"
        await world.kubelet.remove(meanwhile)
        await world.kubelet.released(meanwhile)
        await gone(world, after)


async def test_a_kubelet_killed_during_unprepare_has_it_done_when_it_is_back(folder: Path) -> None:
    async with a_node(folder, pace=PACE) as world, an_agent(world):
        await world.register()
        record = await world.kubelet.admit(a_tile_for(world, "tile"))
        await world.kubelet.running(record)
        async with ClaimRecords(Places(folder, world.cdi, GPU, "")).locked():  # as another agent has it
            await world.kubelet.remove(record)
            await called(world, "unprepare", "tile")
            await world.kubelet.restart()
        await world.kubelet.driver_registered(GPU)
        await world.kubelet.released(record)
        await until(lambda: list(world.cdi.iterdir()) == [])


async def test_a_driver_that_was_refused_says_so_and_is_registered_at_the_next_try(folder: Path) -> None:
    async with a_node(folder) as world, an_agent(world) as agent:
        sockets = folder / "plugins_registry"
        await until(lambda: any(sockets.glob(f"{GPU}-*-reg.sock")))
        (path,) = sockets.glob(f"{GPU}-*-reg.sock")
        options = [("grpc.default_authority", "localhost")]
        async with grpc.aio.insecure_channel(f"unix:{path}", options=options) as channel:
            kubelet = registration_grpc.RegistrationStub(channel)
            said = registration.RegistrationStatus(plugin_registered=False, error="not now")
            await kubelet.NotifyRegistrationStatus(said, timeout=5, wait_for_ready=True)
        await until(lambda: any("not now" in check.detail for check in agent.readiness()))
        assert not all(check.is_ok for check in agent.readiness())
        await world.register()
        await until(lambda: all(check.is_ok for check in agent.readiness()))
        assert len(world.slices()) == 2


class _RefusesOnce(SampleDriver):
    """One call of its kind is refused, then all is well."""

    refuses: str

    async def prepare(self, ref: ClaimRef) -> list[v1.Device]:
        self._may_refuse("prepare")
        return await super().prepare(ref)

    async def unprepare(self, ref: ClaimRef) -> None:
        self._may_refuse("unprepare")
        await super().unprepare(ref)

    def _may_refuse(self, call: str) -> None:
        if self.refuses == call:
            self.refuses = ""
            raise RefusedClaimError("not now")


@asynccontextmanager
async def another_driver(world: World, refuses: str) -> AsyncIterator[_RefusesOnce]:
    devices = world.folder / "hardware"
    devices.mkdir()
    (devices / "dev-0").touch()
    client = await Client.connect(world.folder / "kubeconfig")
    driver = _RefusesOnce(DriverPlaces(world.folder, devices, world.cdi, NODE), client)
    driver.refuses = refuses
    running = asyncio.create_task(driver.run())
    try:
        yield driver
    finally:
        running.cancel()
        await asyncio.wait([running])
        client.close()


@pytest.mark.parametrize("refused", ["prepare", "unprepare"])
async def test_a_pod_of_two_drivers_of_which_the_other_fails_at_first(folder: Path, refused: str) -> None:
    """Whichever of them the kubelet asks first: the whole is tried again."""
    async with (
        a_node(folder, pace=PACE) as world,
        an_agent(world),
        another_driver(world, refused) as another,
    ):
        await world.register()
        await world.kubelet.driver_registered(OTHER)
        others = {**result("dev-0"), "driver": OTHER}
        record = await world.kubelet.admit(made(world, "ours", "other", results=[result(TILE), others]))
        await world.kubelet.running(record)
        assert record["main"].injected.envs["ZE_AFFINITY_MASK"] == "0"
        await gone(world, record)
        assert list(world.cdi.iterdir()) == []
        assert another.refuses == ""
