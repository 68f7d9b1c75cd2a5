"""What every provider promises: the same steps against the three of them."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest

from accelet.control.writer import FencedWriter
from accelet.fakeapi import FakeApi
from accelet.kube.client import Client
from accelet.provisioner.pools.pool import PoolState, Trouble
from accelet.provisioner.providers.clusterapi.provider import ClusterApiProvider
from accelet.provisioner.providers.gke.provider import GkeProvider
from accelet.provisioner.providers.gke.transport import NoTokens, Transport
from accelet.provisioner.providers.protocol import Provider
from accelet.provisioner.providers.simulated.provider import SimulatedProvider
from accelet.provisioner.settings import ClusterApiSettings, SimulatedPools
from tests.fakegke.server import FakeGke
from tests.integration.provisioner.gke_runs import SETTINGS
from tests.integration.provisioner.plans import plan

Two = tuple[Provider, Provider]
"""The same provider for the cluster `a-cluster` and for another."""


@asynccontextmanager
async def _gke(_: Path) -> AsyncIterator[Two]:
    with FakeGke() as gke:
        transport = Transport(gke.url, NoTokens())
        yield (
            GkeProvider(transport, SETTINGS, "a-cluster", lambda: True),
            GkeProvider(transport, SETTINGS, "another", lambda: True),
        )


@asynccontextmanager
async def _client(folder: Path) -> AsyncIterator[Client]:
    with FakeApi() as api:
        client = await Client.connect(api.write_kubeconfig(folder / "kubeconfig"))
        yield client
        client.close()


@asynccontextmanager
async def _simulated(folder: Path) -> AsyncIterator[Two]:
    async with _client(folder) as client:
        writer, pools = FencedWriter(client, lambda: True), SimulatedPools(create_s=0.1, delete_s=0.1)
        both = tuple(SimulatedProvider(client, writer, pools, one) for one in ("a-cluster", "another"))
        running = [asyncio.create_task(one.run()) for one in both]
        yield both[0], both[1]
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)


@asynccontextmanager
async def _cluster_api(folder: Path) -> AsyncIterator[Two]:
    async with _client(folder) as client:
        writer, settings = FencedWriter(client, lambda: True), ClusterApiSettings(cluster="own")
        both = tuple(ClusterApiProvider(client, writer, settings, one) for one in ("a-cluster", "another"))
        yield both[0], both[1]


OPENERS = {"gke": _gke, "simulated": _simulated, "cluster-api": _cluster_api}


@pytest.fixture(params=OPENERS)
async def two(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Two]:
    async with AsyncExitStack() as stack:
        yield await stack.enter_async_context(OPENERS[request.param](tmp_path))


async def _state(provider: Provider) -> PoolState | None:
    """That of the one pool; None for none."""
    pools = (await provider.list_pools()).pools
    return pools[0].state if pools else None


async def _until(provider: Provider, state: PoolState | None) -> None:
    async with asyncio.timeout(60):
        while await _state(provider) != state:  # noqa: ASYNC110 - the provider is asked, it does not tell
            await asyncio.sleep(0.02)


async def test_a_pool_is_made_once_and_is_its_requests(two: Two) -> None:
    ours, _ = two
    wanted = plan()

    assert await ours.create(wanted) is None
    again = await ours.create(wanted)

    assert again is not None
    assert again.trouble is Trouble.EXISTS
    (made,) = (await ours.list_pools()).pools
    assert (made.name, made.mark, made.fingerprint) == (wanted.name, "a-uid", wanted.fingerprint)
    assert (made.tier, made.zone) == ("on-demand", "us-east5-a")
    await _until(ours, "running")


async def test_what_is_deleted_goes_and_may_be_deleted_again(two: Two) -> None:
    ours, _ = two
    await ours.create(plan())
    await _until(ours, "running")

    assert await ours.delete(plan().name) is None

    await _until(ours, None)
    assert await ours.delete(plan().name) is None


async def test_two_clusters_leave_each_others_pools_alone(two: Two) -> None:
    ours, others = two
    await others.create(plan(cluster="another"))

    listed = await ours.list_pools()

    assert listed.pools == ()
    await _until(others, "running")
    (made,) = (await others.list_pools()).pools
    assert made.name == plan().name
