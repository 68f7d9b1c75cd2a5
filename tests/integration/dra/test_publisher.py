"""Slices that admission changes, that others change, and servers that drop fields for a while."""

import asyncio
import copy
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

from accelet.dra.names import GPU_DRIVER
from accelet.dra.publishing.build import build_pool
from accelet.dra.running.publisher import PACE, Publisher
from accelet.fakeapi import FakeApi
from accelet.fakeapi.state import RefusedError
from accelet.kube.client import Client
from tests.fakes.clocks import FakeClock
from tests.fakes.manifests import raw_node
from tests.integration.dra.world import NODE, SLICES, until
from tests.unit.dra.strategies import gpu, gpus

POOL = build_pool(GPU_DRIVER, NODE, [gpus((*gpu(3, tiles=2), *gpu(4, tiles=2)))])
WITHOUT_TILES = len([device for device in POOL.devices if device.kind != "tile"])
OTHER = build_pool(GPU_DRIVER, NODE, [gpus(gpu(3, tiles=2))])


class Published:
    """A publisher at a fake API server, by a clock that stands still until the test moves it."""

    def __init__(self, api: FakeApi, publisher: Publisher, clock: FakeClock) -> None:
        self.api, self.publisher, self.clock = api, publisher, clock

    def slices(self) -> list[dict[str, Any]]:
        return sorted(self.api.state.list(SLICES, {}, None)["items"], key=lambda one: one["metadata"]["name"])

    def devices(self) -> list[dict[str, Any]]:
        return [device for one in self.slices() for device in one["spec"].get("devices", ())]

    def generations(self) -> set[int]:
        return {one["spec"]["pool"]["generation"] for one in self.slices()}

    def writes(self) -> int:
        """Those that were no dry run."""
        return sum(
            seen.method in ("POST", "PUT", "DELETE")
            and "resourceslices" in seen.path
            and not seen.query.get("dryRun")
            for seen in self.api.seen
        )

    def probes(self) -> int:
        return sum(seen.method == "POST" and seen.query.get("dryRun") == "All" for seen in self.api.seen)

    async def looked(self) -> None:
        """Returns after the slices were looked at once more, for news of them."""
        before = self.reads()
        self.api.state.patch(
            SLICES,
            ("", self.slices()[0]["metadata"]["name"]),
            "merge-patch",
            {"metadata": {"labels": {"n": str(before)}}},
        )
        await until(lambda: self.reads() > before)

    async def takes_s(self, condition: Callable[[], bool]) -> float:
        """How much time had to pass by the clock until this was so."""
        began_s = self.clock.now_s()
        async with asyncio.timeout(15):
            while not condition():
                await self.clock.advance(PACE.repeats.first_s)
                await asyncio.sleep(0.001)
        return self.clock.now_s() - began_s

    def reads(self) -> int:
        return sum(
            seen.method == "GET" and "resourceslices" in seen.path and not seen.is_watch
            for seen in self.api.seen
        )


@asynccontextmanager
async def publishing(folder: Path, *mutations: Any) -> AsyncIterator[Published]:
    with FakeApi() as api:
        api.state.create("api/v1/nodes", "", raw_node(NODE))
        api.mutations += mutations
        client = await Client.connect(api.write_kubeconfig(folder / "kubeconfig"))

        async def connect() -> Client:
            return client

        clock = FakeClock()
        publisher = Publisher(connect, GPU_DRIVER, NODE, clock=clock)
        publisher.publish(POOL)
        running = asyncio.create_task(publisher.run())
        try:
            yield Published(api, publisher, clock)
        finally:
            running.cancel()
            with suppress(asyncio.CancelledError):
                await running
            client.close()


def with_rack(resource: str, body: Any) -> Any:
    """A mutation that adds an attribute to each device."""
    changed = copy.deepcopy(body)
    if resource == SLICES:
        for device in changed["spec"].get("devices", ()):
            device.setdefault("attributes", {})["example.com/rack"] = {"string": "r1"}
    return changed


def without_counters(resource: str, body: Any) -> Any:
    """What a server without partitionable devices keeps."""
    changed = copy.deepcopy(body)
    if resource == SLICES:
        changed["spec"].pop("sharedCounters", None)
        for device in changed["spec"].get("devices", ()):
            device.pop("consumesCounters", None)
    return changed


async def test_what_admission_adds_is_left_and_written_once(tmp_path: Path) -> None:
    async with publishing(tmp_path, with_rack) as world:
        await until(lambda: len(world.slices()) == 2)
        for _ in range(5):
            await world.looked()
        assert world.writes() == 2
        assert world.generations() == {1}
        assert all("example.com/rack" in device["attributes"] for device in world.devices())
        assert world.publisher.problem is None


async def test_what_admission_writes_differently_each_time_is_left_too(tmp_path: Path) -> None:
    def with_count(resource: str, body: Any) -> Any:
        changed = with_rack(resource, body)
        for device in changed["spec"].get("devices", ()):
            device["attributes"]["example.com/rack"] = {"int": len(world.api.seen)}
        return changed

    async with publishing(tmp_path) as world:
        world.api.mutations.append(with_count)
        await until(lambda: len(world.slices()) == 2)
        world.publisher.publish(OTHER)
        await until(lambda: len(world.devices()) == len(OTHER.devices))
        written = world.writes()
        for _ in range(5):
            await world.looked()
        assert world.writes() == written


async def test_what_somebody_else_changes_after_each_write_is_mended_ever_more_rarely(tmp_path: Path) -> None:
    async with publishing(tmp_path) as world:
        await until(lambda: len(world.slices()) == 2)
        emptied = 0

        async def empty_whenever_it_is_written() -> None:
            nonlocal emptied
            while True:
                if len(world.devices()) == len(POOL.devices):
                    emptied += 1
                    name = world.slices()[1]["metadata"]["name"]
                    world.api.state.patch(SLICES, ("", name), "merge-patch", {"spec": {"devices": None}})
                await asyncio.sleep(0.01)

        other = asyncio.create_task(empty_whenever_it_is_written())
        rests = [PACE.repeats.first_s * 2**times for times in range(4)]
        assert await world.takes_s(lambda: emptied == 6) >= sum(rests)
        world.publisher.publish(OTHER)  # other hardware waits for no rest
        await until(lambda: len(world.devices()) == len(OTHER.devices))
        other.cancel()


async def test_fields_that_one_answer_lacked_come_back_when_the_server_is_asked_again(tmp_path: Path) -> None:
    async with publishing(tmp_path, without_counters) as world:
        await until(lambda: len(world.devices()) == WITHOUT_TILES)
        assert not world.publisher.features.counters
        assert await world.takes_s(lambda: world.probes() == 2) >= PACE.probes.first_s
        await world.looked()  # what was answered is known
        world.api.mutations.clear()
        assert await world.takes_s(lambda: world.probes() == 4) > 1.9 * PACE.probes.first_s
        await until(lambda: len(world.devices()) == len(POOL.devices))
        await world.looked()
        await world.clock.advance(PACE.probes.most_s)
        await world.looked()
        assert world.probes() == 4
        assert world.publisher.problem is None


async def test_a_server_that_cannot_be_asked_is_published_to_all_the_same(tmp_path: Path) -> None:
    def refuse_probes(resource: str, body: Any) -> Any:
        if resource == SLICES and any(one["name"] == "probe" for one in body["spec"].get("devices", ())):
            raise RefusedError(400, "BadRequest", "a webhook has side effects")
        return without_counters(resource, body)

    async with publishing(tmp_path, refuse_probes) as world:
        await until(lambda: len(world.devices()) == WITHOUT_TILES)
        await world.takes_s(lambda: world.probes() == 2)
        world.publisher.publish(OTHER)
        await until(lambda: len(world.devices()) == WITHOUT_TILES - 2)
        assert world.publisher.problem is None
