"""A table of kinds: each is watched by itself, and what the cluster lacks is looked for again."""

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from accelet.control.watches import OptionalWatches, WatchedKind, Watches, WatchFaults
from accelet.fakeapi import FakeApi
from accelet.kube.apiresources import CONFIG_MAPS, SERVICES
from accelet.kube.client import Client
from accelet.kube.objects import RawObject, WireObject, read_object
from accelet.kube.watching.source import Scope
from accelet.kube.watching.store import Change
from tests.integration.kube.waiting import eventually


@pytest.fixture
def api() -> Iterator[FakeApi]:
    with FakeApi() as api:
        api.state.create("api/v1/namespaces", "", {"metadata": {"name": "ml"}})
        yield api


@asynccontextmanager
async def connected(api: FakeApi, folder: Path) -> AsyncIterator[Client]:
    client = await Client.connect(api.write_kubeconfig(folder / "kubeconfig"))
    try:
        yield client
    finally:
        client.close()


@asynccontextmanager
async def running(watches: Watches | OptionalWatches) -> AsyncIterator[None]:
    task = asyncio.create_task(watches.run())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def read_name(raw: RawObject) -> str:
    return read_object(raw, "object", WireObject).metadata.name


def broken_read(_: RawObject) -> str:
    raise ZeroDivisionError


class HurriedClock:
    """A minute passes in a twentieth of a second."""

    def now_s(self) -> float:
        return time.monotonic() * 1200

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds / 1200)


class Seen:
    def __init__(self) -> None:
        self.names: list[str] = []
        self.faults = 0
        self.errors: list[str] = []

    def see(self, change: Change[str]) -> None:
        self.names.append(change.key[1])

    def count(self) -> None:
        self.faults += 1

    @property
    def told(self) -> WatchFaults:
        return WatchFaults(lambda error: self.errors.append(type(error).__name__), self.count)


async def test_an_object_that_cannot_be_read_is_told_and_others_are_seen(
    api: FakeApi, tmp_path: Path
) -> None:
    api.state.create("api/v1/services", "ml", {"metadata": {"name": "a-service"}})
    seen = Seen()
    async with connected(api, tmp_path) as client:
        kinds = (
            WatchedKind(Scope(SERVICES), broken_read, seen.see),
            WatchedKind(Scope(CONFIG_MAPS), read_name, seen.see, "plans"),
        )
        watches = Watches(client, kinds, seen.told)
        async with running(watches):
            await watches.synced()
            api.state.create("api/v1/configmaps", "ml", {"metadata": {"name": "a-map"}})
            await eventually(lambda: seen.names == ["a-map"])
            assert (seen.errors, seen.faults) == (["MalformedObjectError"], 0)


async def test_a_kind_that_the_cluster_gets_later_is_watched_from_then_on(
    api: FakeApi, tmp_path: Path
) -> None:
    api.state.unserved.add("api/v1/services")
    seen = Seen()
    async with connected(api, tmp_path) as client:
        kinds = tuple(WatchedKind(Scope(one), read_name, seen.see) for one in (SERVICES, CONFIG_MAPS))
        watches = OptionalWatches(client, kinds, seen.told, unseen="not seen", clock=HurriedClock())
        assert watches.awaited == "Service"
        async with running(watches):
            await watches.looked_for()
            assert watches.awaited is None
            api.state.unserved.clear()
            api.state.create("api/v1/services", "ml", {"metadata": {"name": "a-service"}})
            await eventually(lambda: "a-service" in seen.names)
            await watches.refresh()
            assert seen.errors == []
