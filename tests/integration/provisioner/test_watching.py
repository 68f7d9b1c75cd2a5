"""What a replica knows of owners and bookings when it begins to lead, and what it looks at anew."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from accelet.fakeapi import Answer, Fault
from accelet.kube.apiresources import NODES, ApiResource
from accelet.kube.client import Client
from accelet.kube.errors import KubeError
from accelet.kube.objects import Page
from accelet.kube.watching.source import Batches
from accelet.provisioner.demand.owners import parse_job_set
from accelet.provisioner.demand.requests import request_body
from accelet.provisioner.demand.slices import derive_slices
from accelet.provisioner.metrics import ProvisionerMetrics
from accelet.provisioner.settings import ProvisionerSettings
from accelet.provisioner.state import Key, OwnerKey, ProvisionerState, Wish
from accelet.provisioner.watching import JOB_SETS as JOB_SET_KIND
from accelet.provisioner.watching import Watching
from tests.integration.kube.waiting import eventually
from tests.integration.provisioner.test_bookings import BOOKINGS
from tests.integration.provisioner.world import JOB_SETS, PODS, REQUESTS, World


class _Lagging:
    """An API server whose watch of JobSets has brought nothing yet."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.largest_page: dict[str, int] = {}

    async def list_page(
        self, resource: ApiResource, namespace: str | None = None, query: Mapping[str, str] | None = None
    ) -> Page:
        return await self._client.list_page(resource, namespace, query)

    async def list_pages(
        self,
        resource: ApiResource,
        namespace: str | None,
        query: Mapping[str, str] | None,
        page_size: int | None,
        *,
        only_metadata: bool = False,
    ) -> AsyncIterator[Page]:
        async for page in self._client.list_pages(
            resource, namespace, query, page_size, only_metadata=only_metadata
        ):
            largest = self.largest_page.get(resource.kind, 0)
            self.largest_page[resource.kind] = max(largest, len(page.items))
            yield page

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


@dataclass(frozen=True, slots=True)
class Standby:
    """A replica that does not lead yet, and how it sees the API server."""

    watching: Watching
    state: ProvisionerState
    api: _Lagging
    told: list[Key]


@asynccontextmanager
async def _standby(world: World, folder: Path) -> AsyncIterator["Standby"]:
    """A replica that does not lead yet, and knows that there are JobSets."""
    client = await Client.connect(world.api.write_kubeconfig(folder / "kubeconfig"))
    api = _Lagging(client)
    state = ProvisionerState(ProvisionerSettings(version="v1"), "a-label")
    told: list[Key] = []
    watching = Watching(
        api,
        state,
        ProvisionerMetrics(CollectorRegistry()),
        see_request=told.append,
        see_owner=lambda _: None,
        see_pool=lambda _: None,
        see_booking=lambda _: None,
    )
    task = asyncio.create_task(watching.run())
    try:
        await watching.synced()
        await eventually(lambda: "JobSet" in state.known_kinds)
        yield Standby(watching, state, api, told)
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
    async with _standby(world, tmp_path) as standby:
        _ask(world, **changes)

        await standby.watching.refresh()

        (request,) = standby.state.requests.values()
        assert standby.state.wish_for(request) == Wish()


async def test_the_slices_of_an_owner_are_looked_at_when_what_it_asks_for_changes_and_not_its_status(
    world: World, tmp_path: Path
) -> None:
    """JobSet writes a status for each of its Jobs: a thousand times a thousand slices would be looked at."""
    async with _standby(world, tmp_path) as standby:
        _ask(world)
        await standby.watching.refresh()
        (request,) = standby.state.requests.values()

        standby.told.clear()
        world.state.patch(JOB_SETS, ("ml", "train"), "merge-patch", {"status": {"restarts": 1}})
        await standby.watching.refresh()
        assert standby.told == []

        world.state.patch(JOB_SETS, ("ml", "train"), "merge-patch", {"spec": {"suspend": True}})
        await standby.watching.refresh()
        assert standby.told == [request.key]
        assert standby.state.wish_for(request).unwanted == "it is suspended"


async def test_a_new_leader_knows_of_owners_that_went_meanwhile(world: World, tmp_path: Path) -> None:
    async with _standby(world, tmp_path) as standby:
        _ask(world)
        await standby.watching.refresh()
        world.state.delete(JOB_SETS, ("ml", "train"))

        await standby.watching.refresh()

        (request,) = standby.state.requests.values()
        assert standby.state.wish_for(request) == Wish("the JobSet train is gone", is_ended=True)


async def test_owners_of_a_kind_that_is_not_served_now_are_not_taken_for_gone(
    world: World, tmp_path: Path
) -> None:
    async with _standby(world, tmp_path) as standby:
        _ask(world)
        world.api.faults.append(Fault(Answer(404, "NotFound"), method="GET", path="jobsets", times=1))

        await standby.watching.refresh()

        (request,) = standby.state.requests.values()
        assert standby.state.wish_for(request) == Wish()


async def test_nobody_begins_to_lead_while_owners_cannot_be_read(world: World, tmp_path: Path) -> None:
    async with _standby(world, tmp_path) as standby:
        world.api.faults.append(Fault(Answer(500, "InternalError"), method="GET", path="jobsets", times=9))

        with pytest.raises(KubeError):
            await standby.watching.refresh()


async def test_pods_come_in_pages_that_a_replica_can_hold(world: World, tmp_path: Path) -> None:
    for number in range(150):
        body = {"metadata": {"name": f"pod-{number}"}, "spec": {"nodeName": "a-node", "containers": []}}
        world.state.create(PODS, "ml", body)

    async with _standby(world, tmp_path) as standby:
        assert standby.api.largest_page["Pod"] == 100


async def test_where_bookings_may_not_be_read_nobody_is_taken_to_have_booked(
    world: World, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    world.api.faults.append(Fault(Answer(403, "Forbidden"), path="provisioningrequests", times=1000))
    async with _standby(world, tmp_path) as standby:
        await eventually(lambda: standby.state.bookings.is_known)
        assert not standby.state.bookings.may_be_for("ml", "an-owner")
        await standby.watching.refresh()
    assert "bookings cannot be read; nobody is taken to have booked" in caplog.text


async def test_bookings_that_cannot_be_read_for_now_may_be_for_anybody(world: World, tmp_path: Path) -> None:
    fault = Fault(Answer(500, "InternalError"), path="provisioningrequests", times=1000)
    world.api.faults.append(fault)
    async with _standby(world, tmp_path) as standby:
        await eventually(lambda: fault.hits > 0)
        assert standby.state.bookings.may_be_for("ml", "an-owner")


async def test_bookings_lost_while_a_replica_stands_by_do_not_keep_it_from_leading(
    world: World, tmp_path: Path
) -> None:
    async with _standby(world, tmp_path) as standby:
        await eventually(lambda: standby.state.bookings.is_known)
        world.api.faults.append(Fault(Answer(403, "Forbidden"), path="provisioningrequests", times=1000))
        await standby.watching.refresh()


def _booking(class_name: str, **status: Any) -> dict[str, Any]:
    spec = {"provisioningClassName": class_name, "podSets": []}
    return {"metadata": {"name": "one"}, "spec": spec, **status}


FAILED: dict[str, Any] = {
    "type": "Failed",
    "status": "True",
    "reason": "Mine",
    "message": "",
    "lastTransitionTime": "2026-01-01T00:00:00Z",
}


async def test_requests_are_looked_at_for_a_booking_that_ends_and_for_no_other(
    world: World, tmp_path: Path
) -> None:
    _ask(world)
    async with _standby(world, tmp_path) as standby:
        state, bookings = standby.state, standby.state.bookings
        await eventually(
            lambda: (
                bookings.is_known
                and state.knows_services
                and state.known_kinds == {"Job", "JobSet", "LeaderWorkerSet", "RayCluster"}
            )
        )
        (key,) = state.requests
        standby.told.clear()
        world.state.create(BOOKINGS, "ml", _booking("check-capacity.autoscaling.x-k8s.io"))
        world.state.delete(BOOKINGS, ("ml", "one"))
        world.state.create(BOOKINGS, "ml", _booking("slice.accelet.dev"))
        await eventually(lambda: bookings["ml", "one"] is not None)
        assert key not in standby.told
        ours = bookings["ml", "one"]
        assert ours is not None
        bookings.remove(ours.key)  # as the keeper does, once it has written that it is over
        world.state.patch(BOOKINGS, ("ml", "one"), "merge-patch", {"status": {"conditions": [FAILED]}})
        await eventually(lambda: key in standby.told)
        standby.told.clear()
        world.state.patch(BOOKINGS, ("ml", "one"), "merge-patch", {"metadata": {"labels": {"a": "b"}}})
        world.state.create(BOOKINGS, "ml", _booking("slice.accelet.dev") | {"metadata": {"name": "two"}})
        await eventually(lambda: bookings["ml", "two"] is not None)
        assert key not in standby.told


class _FaultyOnce(_Lagging):
    """An API server whose first list of Nodes meets an error of ours."""

    faults = 0

    async def list_pages(
        self,
        resource: ApiResource,
        namespace: str | None,
        query: Mapping[str, str] | None,
        page_size: int | None,
        *,
        only_metadata: bool = False,
    ) -> AsyncIterator[Page]:
        if resource == NODES and not self.faults:
            self.faults += 1
            raise ZeroDivisionError
        async for page in super().list_pages(
            resource, namespace, query, page_size, only_metadata=only_metadata
        ):
            yield page


async def test_a_fault_with_one_owner_or_kind_is_counted_and_the_others_go_on(
    world: World, tmp_path: Path
) -> None:
    registry, told = CollectorRegistry(), list[str]()

    def see(owner: OwnerKey) -> None:
        if owner[2] == "bad":
            raise KeyError(owner)
        told.append(owner[2])

    for name in ("bad", "good"):
        world.ask(name, replicas=1)
    client = await Client.connect(world.api.write_kubeconfig(tmp_path / "kubeconfig"))
    state = ProvisionerState(ProvisionerSettings(version="v1"), "a-label")
    watching = Watching(
        _FaultyOnce(client),
        state,
        ProvisionerMetrics(registry),
        see_request=lambda _: None,
        see_owner=see,
        see_pool=lambda _: None,
        see_booking=lambda _: None,
    )
    task = asyncio.create_task(watching.run())
    try:
        await asyncio.wait({task, asyncio.ensure_future(watching.synced())}, return_when="FIRST_COMPLETED")
        await eventually(lambda: "good" in told and "JobSet" in state.known_kinds)
        assert not task.done()
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        client.close()
    faults = {
        kind: registry.get_sample_value("accelet_provisioner_api_faults_total", {"kind": kind})
        for kind in ("ObjectFaultError", "Fault")
    }
    assert faults == {"ObjectFaultError": 1, "Fault": 1}
