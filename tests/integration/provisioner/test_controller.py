"""Looks that wait for each other: what is decided is of what there is when their turn comes."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

from prometheus_client import CollectorRegistry

from accelet.control.writer import FencedWriter
from accelet.kube.apiresources import ApiResource, Body, PatchOf
from accelet.kube.client import Client
from accelet.provisioner.bookings.keeper import BookingKeeper
from accelet.provisioner.controller import Controller
from accelet.provisioner.demand.owners import parse_job_set
from accelet.provisioner.demand.slices import derive_slices
from accelet.provisioner.events import SliceEvents
from accelet.provisioner.metrics import ProvisionerMetrics
from accelet.provisioner.providers.simulated.provider import SimulatedProvider
from accelet.provisioner.settings import LimitSettings, ProvisionerSettings
from accelet.provisioner.state import ProvisionerState
from accelet.provisioner.writer import SliceWriter
from tests.integration.kube.waiting import eventually
from tests.integration.provisioner.world import JOB_SETS, REQUESTS, World


class _SlowWriter(FencedWriter):
    """Its patches wait until they are let go; `written` is what they were of."""

    def __init__(self, client: Client) -> None:
        super().__init__(client, lambda: True)
        self.written: list[str] = []
        self.is_open = asyncio.Event()

    async def patch(
        self,
        resource: ApiResource,
        namespace: str | None,
        name: str,
        patch: Body | Sequence[Body],
        of: PatchOf,
        *,
        subresource: str = "",
        dry_run: bool = False,
    ) -> bytes:
        self.written.append(name)
        await self.is_open.wait()
        return await super().patch(
            resource, namespace, name, patch, of, subresource=subresource, dry_run=dry_run
        )


def _controller(client: Client, writer: FencedWriter, state: ProvisionerState) -> Controller:
    settings, slices = state.settings, SliceWriter(client, writer, state)
    return Controller(
        state,
        slices,
        SimulatedProvider(client, writer, settings.simulated, "a-cluster"),
        settings,
        ProvisionerMetrics(CollectorRegistry()),
        events=SliceEvents(lambda _: None),
        bookings=BookingKeeper(writer, slices, state),
        cluster="a-cluster",
    )


async def test_of_a_request_that_goes_while_it_waits_for_its_turn_nothing_is_written(
    world: World, tmp_path: Path
) -> None:
    client = await Client.connect(world.api.write_kubeconfig(tmp_path / "kubeconfig"))
    writer = _SlowWriter(client)
    settings = ProvisionerSettings(version="v1", poll_s=0.05, limits=LimitSettings(slices=9))
    state = ProvisionerState(settings, "a-label")
    for name in ("one", "two", "three"):
        world.ask(name, replicas=1)
    for raw in world.objects(JOB_SETS):
        for wanted in derive_slices(parse_job_set(raw)).slices:
            await SliceWriter(client, writer, state).ask(wanted)
    task = asyncio.create_task(_controller(client, writer, state).run())
    try:
        await eventually(lambda: bool(writer.written))
        gone, last = (one for one in state.requests.values() if one.name != writer.written[0])
        world.state.delete(REQUESTS, gone.key)
        state.remove_request(gone.key, gone.uid)
        writer.is_open.set()
        await eventually(lambda: last.name in writer.written)
        assert gone.name not in writer.written
        assert gone.key not in state.requests
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        client.close()


async def test_a_look_that_a_lease_just_renewed_refused_comes_again(world: World, tmp_path: Path) -> None:
    client = await Client.connect(world.api.write_kubeconfig(tmp_path / "kubeconfig"))
    answers = [False, False]
    settings = ProvisionerSettings(version="v1", poll_s=0.05)
    state = ProvisionerState(settings, "a-label")
    world.ask("one", replicas=1)
    for wanted in derive_slices(parse_job_set(world.objects(JOB_SETS)[0])).slices:
        await SliceWriter(client, FencedWriter(client, lambda: True), state).ask(wanted)
    writer = FencedWriter(client, lambda: answers.pop() if answers else True)
    task = asyncio.create_task(_controller(client, writer, state).run())
    try:
        await eventually(lambda: world.phases() == ["Creating"])
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        client.close()
    assert answers == []
