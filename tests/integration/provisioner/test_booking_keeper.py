"""Bookings that are not served: something of them is missing, a newer one follows, or there are too many."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from accelet.control.writer import FencedWriter
from accelet.kube.client import Client
from accelet.provisioner.bookings.book import MOST_SERVED
from accelet.provisioner.bookings.booking import Booking, parse_booking
from accelet.provisioner.bookings.keeper import BookingKeeper
from accelet.provisioner.demand.owners import parse_job_set
from accelet.provisioner.settings import ProvisionerSettings
from accelet.provisioner.state import ProvisionerState
from accelet.provisioner.writer import SliceWriter
from tests.integration.provisioner.test_bookings import BOOKINGS, SPOT, TEMPLATES, WORKLOADS, Queue
from tests.integration.provisioner.world import JOB_SETS, REQUESTS, World


@dataclass(frozen=True, slots=True)
class Desk:
    """A keeper whose state is that of the world when it was told last."""

    world: World
    state: ProvisionerState
    keeper: BookingKeeper

    @property
    def owner(self) -> str:
        uid: str = self.world.objects(JOB_SETS)[0]["metadata"]["uid"]
        return uid

    async def look(self, attempt: int = 1) -> None:
        for raw in self.world.objects(JOB_SETS):
            owner = parse_job_set(raw)
            self.state.owners["JobSet", owner.namespace, owner.name] = owner
        for raw in self.world.objects(BOOKINGS):
            self.state.bookings.set(parse_booking(raw))
        assert await self.keeper.look(("ml", f"train-load-slices-{attempt}")) is not None

    def reasons(self, attempt: int = 1) -> dict[str, str]:
        (raw,) = (
            one for one in self.world.objects(BOOKINGS) if one["metadata"]["name"].endswith(f"-{attempt}")
        )
        conditions = (raw.get("status") or {}).get("conditions") or ()
        return {one["type"]: one["reason"] for one in conditions}


@asynccontextmanager
async def open_desk(world: World, folder: Path, hold_s: float = 600.0) -> AsyncIterator[Desk]:
    client = await Client.connect(world.api.write_kubeconfig(folder / "kubeconfig"))
    state = ProvisionerState(ProvisionerSettings(version="v1", hold_s=hold_s), "a-label")
    state.bookings.is_known = True
    writer = FencedWriter(client, lambda: True)
    try:
        yield Desk(world, state, BookingKeeper(writer, SliceWriter(client, writer, state), state))
    finally:
        client.close()


async def test_a_booking_whose_workload_is_not_there_keeps_the_slices_of_nobody(
    world: World, tmp_path: Path
) -> None:
    Queue(world).book(1)
    world.state.delete(WORKLOADS, ("ml", "train-load"))
    async with open_desk(world, tmp_path) as desk:
        await desk.look()
        assert desk.reasons() == {}
        assert desk.state.bookings.may_be_for("ml", "another"), "it may come a moment later"
    async with open_desk(world, tmp_path, hold_s=0.0) as desk:
        await desk.look()
        assert desk.reasons() == {"Provisioned": "WorkloadMissing"}
        assert not desk.state.bookings.may_be_for("ml", "another")


async def test_slices_are_kept_no_more_while_a_pod_template_is_missing_and_again_once_it_is_there(
    world: World, tmp_path: Path
) -> None:
    Queue(world).book(1)
    (template,) = world.objects(TEMPLATES)
    world.state.delete(TEMPLATES, ("ml", template["metadata"]["name"]))
    async with open_desk(world, tmp_path, hold_s=0.0) as desk:
        for _ in range(2):
            await desk.look()
            assert desk.reasons() == {"Provisioned": "WorkloadMissing"}
            assert not desk.state.bookings.may_be_for("ml", desk.owner)
        body = {"metadata": {"name": template["metadata"]["name"]}, "template": template["template"]}
        world.state.create(TEMPLATES, "ml", body)
        await desk.look()
        assert desk.reasons() == {"Accepted": "SlicesRequested", "Provisioned": "SlicesComing"}
        assert desk.state.bookings.may_be_for("ml", desk.owner)


async def test_of_two_bookings_for_the_same_job_set_the_newer_is_served(world: World, tmp_path: Path) -> None:
    queue = Queue(world)
    queue.book(1, selector=SPOT)
    queue.book(2)
    async with open_desk(world, tmp_path) as desk:
        await desk.look(2)
        await desk.look(1)
        assert desk.reasons(1) == {"Provisioned": "Superseded"}
        assert desk.reasons(2) == {"Accepted": "SlicesRequested", "Provisioned": "SlicesComing"}
        assert [one["metadata"].get("deletionTimestamp") for one in world.objects(REQUESTS)] == [None, None]
        queue.drop(2)
        desk.state.bookings.remove(("ml", "train-load-slices-2"))
        await desk.look(1)
        assert desk.reasons(1)["Provisioned"] == "SlicesComing"


def _older(raw: dict[str, object], number: int) -> Booking:
    one = parse_booking(msgspec.Raw(msgspec.json.encode(raw)))
    return replace(one, name=f"older-{number}", uid=f"older-{number}", created_s=0.0)


async def test_a_namespace_with_too_many_is_served_one_after_another(world: World, tmp_path: Path) -> None:
    Queue(world).book(1)
    async with open_desk(world, tmp_path) as desk:
        older = [_older(world.objects(BOOKINGS)[0], number) for number in range(MOST_SERVED)]
        for one in older:
            desk.state.bookings.set(one)
        await desk.look()
        assert desk.reasons() == {"Provisioned": "TooMany"}
        assert world.objects(REQUESTS) == []
        desk.state.bookings.remove(older[0].key)
        await desk.look()
        assert desk.reasons() == {"Accepted": "SlicesRequested", "Provisioned": "SlicesComing"}
