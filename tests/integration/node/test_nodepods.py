"""This node's pods, asked for before there is a connection to the API server."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from accelet.fakeapi import FakeApi
from accelet.kube.errors import UnavailableError
from accelet.kube.poduid import PodUid
from accelet.kube.watching.watchrecord import WatchRecordFile
from accelet.node.apiconnection import ApiConnection
from accelet.node.pods.nodepods import NodePods
from tests.fakes.manifests import raw_pod


@asynccontextmanager
async def just_started(kubeconfig: Path) -> AsyncIterator[NodePods]:
    connection = ApiConnection(kubeconfig)
    record = WatchRecordFile(kubeconfig.with_name("watched"))
    pods = NodePods("node", connection, lambda: None, record)
    running = asyncio.create_task(pods.run())
    try:
        yield pods
    finally:
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running
        connection.close()


async def test_read_of_an_agent_that_has_just_started_waits_for_the_connection(tmp_path: Path) -> None:
    with FakeApi() as api:
        api.state.create("api/v1/pods", "ml", raw_pod("one", on="node"))
        async with just_started(api.write_kubeconfig(tmp_path / "kubeconfig")) as pods:
            assert not pods.can_read
            assert await _names_read(pods) == ["one"]


async def _names_read(pods: NodePods) -> list[str]:
    """Where the machine stalls for longer than a read may take it is repeated; it is never refused so."""
    for _ in range(10):
        try:
            return [pod.name for pod in (await pods.read_pods()).values()]
        except UnavailableError as error:
            assert "did not answer within" in str(error)  # noqa: PT017 - else it is repeated
    raise AssertionError("no read was answered in time")


async def test_read_where_there_is_no_way_to_connect_fails_at_once(tmp_path: Path) -> None:
    async with just_started(tmp_path / "no-kubeconfig") as pods:
        with pytest.raises(UnavailableError, match="no connection"):
            await pods.read_pods()


async def test_end_of_a_pod_that_a_list_overtook_is_waited_for(tmp_path: Path) -> None:
    with FakeApi() as api:
        api.state.create("api/v1/pods", "ml", raw_pod("one", on="node"))
        async with just_started(api.write_kubeconfig(tmp_path / "kubeconfig")) as pods:
            assert await pods.synced(5.0)
            (one,) = pods.pods().values()
            api.lag_s = 60.0
            api.state.delete("api/v1/pods", ("ml", "one"))
            assert await pods.read_pods() == {}
            assert not await pods.follow_end(PodUid(one.uid), 0.01)
            assert not pods.can_follow
            api.lag_s = 0.0
            assert await pods.follow_end(PodUid(one.uid), 10.0)
            assert pods.can_follow
