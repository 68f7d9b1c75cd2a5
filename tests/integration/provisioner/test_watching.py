"""What a replica knows of owners when it begins to lead."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from accelet.fakeapi import Answer, Fault
from accelet.kube.apiresources import ApiResource
from accelet.kube.client import Client
from accelet.kube.errors import KubeError
from accelet.kube.objects import Page
from accelet.kube.watching.source import Batches
from accelet.provisioner.demand.owners import parse_job_set
from accelet.provisioner.demand.requests import request_body
from accelet.provisioner.demand.slices import derive_slices
from accelet.provisioner.metrics import ProvisionerMetrics
from accelet.provisioner.settings import ProvisionerSettings
from accelet.provisioner.state import ProvisionerState, Wish
from accelet.provisioner.watching import JOB_SETS as JOB_SET_KIND
from accelet.provisioner.watching import Watching
from tests.integration.kube.waiting import eventually
from tests.integration.provisioner.world import JOB_SETS, REQUESTS, World


class _Lagging:
    """An API server whose watch of JobSets has brought nothing yet."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def list_page(
        self, resource: ApiResource, namespace: str | None = None, query: dict[str, str] | None = None
    ) -> Page:
        return await self._client.list_page(resource, namespace, query)

    def list_pages(
        self,
        resource: ApiResource,
        namespace: str | None,
        query: Mapping[str, str] | None,
        page_size: int | None,
    ) -> AsyncIterator[Page]:
        return self._client.list_pages(resource, namespace, query, page_size)

    def watch(
        self, resource: ApiResource, namespace: str | None, query: Mapping[str, str] | None
    ) -> AbstractAsyncContextManager[Batches]:
        return _silence() if resource == JOB_SET_KIND else self._client.watch(resource, namespace, query)


@asynccontextmanager
async def _silence() -> AsyncIterator[Batches]:
    async def nothing() -> AsyncIterator[list[bytes]]:
        await asyncio.Event().wait()
        yield []

    yield nothing()


@asynccontextmanager
async def _standby(world: World, folder: Path) -> AsyncIterator[tuple[Watching, ProvisionerState]]:
    """A replica that does not lead yet, and knows that there are JobSets."""
    client = await Client.connect(world.api.write_kubeconfig(folder / "kubeconfig"))
    state = ProvisionerState(ProvisionerSettings(version="v1"), "a-label")
    watching = Watching(
        _Lagging(client),
        state,
        ProvisionerMetrics(CollectorRegistry()),
        see_request=lambda _: None,
        see_owner=lambda _: None,
        see_pool=lambda _: None,
    )
    task = asyncio.create_task(watching.run())
    try:
        await watching.synced()
        await eventually(lambda: "JobSet" in state.known_kinds)
        yield watching, state
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        client.close()


def _ask(world: World, **changes: Any) -> None:
    """A JobSet, and the request that the former leader has made for it."""
    world.ask("train", replicas=1)
    (raw,) = world.objects(JOB_SETS)
    (wanted,) = derive_slices(parse_job_set(raw)).slices
    world.state.create(REQUESTS, "ml", request_body(wanted))
    if changes:
        world.state.patch(JOB_SETS, ("ml", "train"), "merge-patch", changes)


@pytest.mark.parametrize("changes", [{}, {"spec": {"replicatedJobs": "none"}}])
async def test_a_new_leader_takes_no_owner_for_gone_that_its_watch_has_not_brought_yet(
    world: World, tmp_path: Path, changes: dict[str, Any]
) -> None:
    async with _standby(world, tmp_path) as (watching, state):
        _ask(world, **changes)

        await watching.refresh()

        (request,) = state.requests.values()
        assert state.wish_for(request) == Wish()


async def test_a_new_leader_knows_of_owners_that_went_meanwhile(world: World, tmp_path: Path) -> None:
    async with _standby(world, tmp_path) as (watching, state):
        _ask(world)
        await watching.refresh()
        world.state.delete(JOB_SETS, ("ml", "train"))

        await watching.refresh()

        (request,) = state.requests.values()
        assert state.wish_for(request) == Wish("the JobSet train is gone", is_ended=True)


async def test_owners_of_a_kind_that_is_not_served_now_are_not_taken_for_gone(
    world: World, tmp_path: Path
) -> None:
    async with _standby(world, tmp_path) as (watching, state):
        _ask(world)
        world.api.faults.append(Fault(Answer(404, "NotFound"), method="GET", path="jobsets", times=1))

        await watching.refresh()

        (request,) = state.requests.values()
        assert state.wish_for(request) == Wish()


async def test_nobody_begins_to_lead_while_owners_cannot_be_read(world: World, tmp_path: Path) -> None:
    async with _standby(world, tmp_path) as (watching, _):
        world.api.faults.append(Fault(Answer(500, "InternalError"), method="GET", path="jobsets", times=9))

        with pytest.raises(KubeError):
            await watching.refresh()
