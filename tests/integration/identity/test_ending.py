"""Calls that are under way when the agent ends, or when its resource is served anew, are answered."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import grpc

from accelet.agent.configfile import ConfigFile
from accelet.agent.process import Agent, AgentOptions
from accelet.kube.poduid import PodUid
from accelet.kubelet.api import deviceplugin_pb2 as api
from accelet.kubelet.api import deviceplugin_pb2_grpc as api_grpc
from accelet.kubelet.paths import KubeletPaths
from accelet.node.callsunderway import CallsUnderWay
from deviceplugin.search import FoundCaller, Search
from resourcemanager.matching.admissions import Admissions
from tests.integration.agent.running import GPU, cards_config, config, until
from tests.integration.identity.test_assignments import cards, mask
from tests.integration.identity.world import World, gpu_pod, node, tiles_config

STILL_S = 1.0
"""So long it is watched that an end waits for a call; a call takes longer, and an end without one less."""


class SlowSearch(Search):
    """Begins to look for a caller when it is told to."""

    begun = asyncio.Event()
    may_go_on = asyncio.Event()

    async def find(
        self,
        size: int,
        *,
        kubelet: str,
        admissions: Admissions,
        heard_before: frozenset[PodUid],
        within_s: float,
    ) -> FoundCaller:
        self.begun.set()
        await self.may_go_on.wait()
        return await super().find(
            size, kubelet=kubelet, admissions=admissions, heard_before=heard_before, within_s=10.0
        )


@asynccontextmanager
async def an_agent(
    world: World, folder: Path, text: str
) -> AsyncIterator[tuple[type[SlowSearch], asyncio.Task[None]]]:
    """How the agent that serves finds callers, and its task."""

    class OwnSearch(SlowSearch):
        begun, may_go_on = asyncio.Event(), asyncio.Event()

    (folder / "config.yaml").write_text(text)
    (folder / "dev").mkdir()
    options = AgentOptions(folder, KubeletPaths(folder), "node", None, world.kubeconfig)
    made = Agent(options, ConfigFile(folder / "config.yaml"), OwnSearch)
    running = asyncio.create_task(made.run())
    try:
        await world.kubelet.resource(GPU).devices(timeout_s=30)
        await asyncio.wait_for(made.knows_pods(), 30)
        yield OwnSearch, running
    finally:
        OwnSearch.may_go_on.set()
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running


async def assert_answered(world: World, search: type[SlowSearch], end: Callable[[], object]) -> None:
    """A pod is admitted whose call is under way when it ends."""
    record = world.kubelet.bind(world.create(gpu_pod("one", "card0", "card0:gt1")))
    await asyncio.wait_for(search.begun.wait(), 30)
    end()
    decided = asyncio.create_task(world.kubelet.decided(record))
    await asyncio.wait([decided], timeout=STILL_S)
    assert not decided.done()
    search.may_go_on.set()
    await asyncio.wait_for(decided, 30)
    assert record.admitted
    assert (cards(record), mask(record)) == (["card0"], "1")


async def test_call_under_way_is_answered_before_the_agent_ends(folder: Path) -> None:
    async with node(folder) as world, an_agent(world, folder, config(tiles_config())) as (search, running):
        await assert_answered(world, search, running.cancel)
        await asyncio.wait([running], timeout=30)
        assert running.cancelled()


async def test_call_under_way_is_answered_before_its_resource_is_served_anew(folder: Path) -> None:
    async with node(folder) as world, an_agent(world, folder, config(tiles_config())) as (search, _):

        def change() -> None:
            fresh = folder / "config.new"
            fresh.write_text(config(tiles_config(shares=11)))
            fresh.rename(folder / "config.yaml")

        await assert_answered(world, search, change)
        await world.kubelet.resource(GPU).devices(healthy=22, timeout_s=30)


async def test_two_hundred_calls_at_once_are_all_answered_before_the_agent_ends(folder: Path) -> None:
    text = config(cards_config(200))
    async with node(folder) as world, an_agent(world, folder, text) as (_, running):
        (socket,) = (one for one in (folder / "device-plugins").glob("*.sock") if one.name != "kubelet.sock")
        async with grpc.aio.insecure_channel(f"unix:{socket}") as channel:
            stub = api_grpc.DevicePluginStub(channel)
            calls = [
                stub.Allocate(
                    api.AllocateRequest(
                        container_requests=[
                            api.ContainerAllocateRequest(devices_ids=[f"0000-{3 + number:02x}-00.0"])
                        ]
                    )
                )
                for number in range(200)
            ]
            await calls[0]
            running.cancel()
            answers = await asyncio.gather(*calls)
    assert len(answers) == 200


async def test_end_waits_for_no_call_longer_than_it_may() -> None:
    calls = CallsUnderWay()
    calls.begin()
    assert not await calls.finished(most_s=0.2)
    assert calls.count == 1


async def test_calls_of_each_server_count_for_all() -> None:
    all_calls = CallsUnderWay()
    one, other = CallsUnderWay(all_calls), CallsUnderWay(all_calls)
    one.begin()
    other.begin()
    one.end()
    waiting = asyncio.create_task(all_calls.finished(most_s=60))
    await until(lambda: one.count == 0)
    assert not waiting.done()
    other.end()
    assert await waiting
