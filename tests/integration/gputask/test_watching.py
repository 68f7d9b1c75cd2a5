"""A fault of ours with one object, or with one kind of objects, ends no watch of others."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from accelet.fakeapi import FakeApi
from accelet.gputask.metrics import TaskMetrics
from accelet.gputask.settings import TaskSettings
from accelet.gputask.state import TaskState
from accelet.gputask.watching import Watching
from accelet.kube.apiresources import SERVICES, ApiResource
from accelet.kube.client import Client
from accelet.kube.objects import ObjectKey, Page
from accelet.kube.watching.source import Batches
from tests.integration.gputask.stored import ask
from tests.integration.kube.waiting import eventually


class FaultyOnce:
    """The API server's answers; the first list of Services meets an error of ours."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.faults = 0

    async def list_pages(
        self,
        resource: ApiResource,
        namespace: str | None,
        query: Mapping[str, str] | None,
        page_size: int | None,
        *,
        only_metadata: bool = False,
    ) -> AsyncIterator[Page]:
        if resource == SERVICES and not self.faults:
            self.faults += 1
            raise ZeroDivisionError
        async for page in self._client.list_pages(
            resource, namespace, query, page_size, only_metadata=only_metadata
        ):
            yield page

    def watch(
        self, resource: ApiResource, namespace: str | None, query: Mapping[str, str] | None
    ) -> AbstractAsyncContextManager[Batches]:
        return self._client.watch(resource, namespace, query)


@pytest.fixture
def api() -> Iterator[FakeApi]:
    with FakeApi() as api:
        api.state.create("api/v1/namespaces", "", {"metadata": {"name": "kube-system"}})
        yield api


@asynccontextmanager
async def _watching(api: FakeApi, tmp_path: Path, seen: list[str]) -> AsyncIterator[CollectorRegistry]:
    def see(key: ObjectKey) -> None:
        if key[1] == "bad":
            raise KeyError(key)
        seen.append(key[1])

    registry = CollectorRegistry()
    client = await Client.connect(api.write_kubeconfig(tmp_path / "kubeconfig"))
    state = TaskState(TaskSettings(version="v1").times)
    watching = Watching(FaultyOnce(client), state, TaskMetrics(registry), see)
    task = asyncio.create_task(watching.run())
    try:
        await watching.synced()
        yield registry
        assert not task.done()
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        client.close()


async def test_a_fault_with_one_task_or_kind_is_counted_and_the_others_go_on(
    api: FakeApi, tmp_path: Path
) -> None:
    seen: list[str] = []
    ask(api, "bad")
    ask(api, "good")
    async with _watching(api, tmp_path, seen) as registry:
        ask(api, "later")
        await eventually(lambda: {"good", "later"} <= set(seen))
        assert registry.get_sample_value("accelet_tasks_api_faults_total", {"kind": "ObjectFaultError"}) == 1
        assert registry.get_sample_value("accelet_tasks_api_faults_total", {"kind": "Fault"}) == 1
