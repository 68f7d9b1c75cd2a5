"""What every provider promises: the same steps against the three of them."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest

from accelet.control.writer import FencedWriter
from accelet.fakeapi import FakeApi
from accelet.kube.client import Client
from accelet.provisioner.providers.clusterapi.provider import ClusterApiProvider
from accelet.provisioner.providers.gke.provider import GkeProvider
from accelet.provisioner.providers.gke.transport import NoTokens, Transport
from accelet.provisioner.providers.simulated.provider import SimulatedProvider
from accelet.provisioner.settings import ClusterApiSettings, SimulatedPools
from tests.fakegke.server import FakeGke
from tests.integration.provisioner.gke_runs import SETTINGS
from tests.integration.provisioner.promises import (
    Two,
    check_that_a_pool_is_made_once_and_is_its_requests,
    check_that_two_clusters_leave_each_others_pools_alone,
    check_that_what_is_deleted_goes_and_may_be_deleted_again,
)


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


async def test_a_pool_is_made_once_and_is_its_requests(two: Two) -> None:
    await check_that_a_pool_is_made_once_and_is_its_requests(two)


async def test_what_is_deleted_goes_and_may_be_deleted_again(two: Two) -> None:
    await check_that_what_is_deleted_goes_and_may_be_deleted_again(two)


async def test_two_clusters_leave_each_others_pools_alone(two: Two) -> None:
    await check_that_two_clusters_leave_each_others_pools_alone(two)
