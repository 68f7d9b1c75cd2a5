"""What a leader keeps for Workloads, beside an API server that has nothing but them."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from random import Random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from accelet.control.writer import FencedWriter
from accelet.fakeapi.direct import DirectClient
from accelet.fakeapi.state import State
from accelet.kube.apiresources import ApiResource, Body, PatchOf
from accelet.runtime.clock import SYSTEM_CLOCK
from accelet.scheduler.admission.book import AdmissionBook
from accelet.scheduler.admission.keeping import AdmissionKeeper
from accelet.scheduler.admission.kueue import (
    ADMISSION_CHECKS,
    CONTROLLER,
    WORKLOADS,
    parse_admission_check,
    parse_kueue_workload,
)
from accelet.scheduler.admission.placeholders import placeholder_gang
from accelet.scheduler.admission.telling import AdmissionWriter
from accelet.scheduler.cluster.topology import Scheme
from accelet.scheduler.gangs.grouping import GATE_PREFIX, Gang, GangKey, find_gangs, gang_of_owner
from accelet.scheduler.gangs.placeholders import PLACEHOLDERS
from accelet.scheduler.metrics import SchedulerMetrics
from accelet.scheduler.placement.plan import Plan
from accelet.scheduler.preemption.victims import may_preempt
from accelet.scheduler.record import Placement, Record
from accelet.scheduler.settings import AdmissionSettings
from accelet.scheduler.state import SchedulerState
from accelet.scheduler.writer import PlanWriter
from tests.fakes.clocks import FakeClock, settle
from tests.fakes.nodes import GPU, node
from tests.integration.kube.waiting import eventually
from tests.unit.scheduler import values

_BEGAN_S = 1_000.0
_WITHIN_S = 60.0
_MOST = 50


class Requests(DirectClient):
    """Counts them; while `is_changing`, somebody else writes each object just before."""

    def __init__(self, state: State) -> None:
        super().__init__(state, SYSTEM_CLOCK, Random(0))
        self._objects = state
        self.read: list[str] = []
        self.written = 0
        self.is_changing = False

    async def get(self, resource: ApiResource, namespace: str | None, name: str) -> bytes:
        self.read.append(name)
        return await super().get(resource, namespace, name)

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
        self.written += 1
        if self.is_changing:
            change = {"metadata": {"annotations": {"written": str(self.written)}}}
            self._objects.patch(stored_as(resource), (namespace or "", name), "merge-patch", change)
        return await super().patch(
            resource, namespace, name, patch, of, subresource=subresource, dry_run=dry_run
        )


def stored_as(resource: ApiResource) -> str:
    return resource.path().removeprefix("/")


class World:
    def __init__(self, most: int = _MOST) -> None:
        self.objects, self.book, self.clock = State(), AdmissionBook(), FakeClock()
        self.api = Requests(self.objects)
        self.state = SchedulerState(Scheme(), GATE_PREFIX)
        self.state.set_node(node("n0", gpus=8))
        writer = FencedWriter(self.api, lambda: True)
        plans = PlanWriter(writer, self.state, SchedulerMetrics(CollectorRegistry()))
        self.planned: list[str] = []
        self._wall_s = _BEGAN_S
        self.keeper = AdmissionKeeper(
            self.book,
            self.state,
            AdmissionWriter(writer, self.book),
            plans,
            AdmissionSettings(kueue=True, within_s=_WITHIN_S),
            clock=self.clock,
            wall_s=lambda: self._wall_s,
            most=most,
        )
        self.add_check("places")

    def add_check(self, name: str, **spec: Any) -> None:
        raw = {"metadata": {"name": name}, "spec": {"controllerName": CONTROLLER, **spec}}
        made = self.objects.create(stored_as(ADMISSION_CHECKS), "", raw)
        self.book.checks[name] = parse_admission_check(made)

    def reserve(self, name: str, pods: int, **template: Any) -> None:
        spec = {
            "schedulingGates": [{"name": f"{GATE_PREFIX}j"}],
            "containers": [{"name": "main", "resources": {"requests": {GPU: "1"}}}],
            **template,
        }
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": name, "uid": "u", "controller": True}
        raw = {
            "metadata": {"name": name, "ownerReferences": [owner]},
            "spec": {"podSets": [{"name": "main", "count": pods, "template": {"spec": spec}}]},
            "status": {
                "conditions": [
                    {"type": "QuotaReserved", "status": "True", "lastTransitionTime": "1970-01-01T00:16:40Z"}
                ],
                "admissionChecks": [{"name": "places", "state": "Pending", "message": ""}],
            },
        }
        self.objects.create(stored_as(WORKLOADS), "ml", raw)
        self.hear(name)

    def assign(self, name: str, **assigned: Any) -> None:
        """What Kueue says of its one pod set."""
        said = {"status": {"admission": {"podSetAssignments": [{"name": "main", **assigned}]}}}
        self.objects.patch(stored_as(WORKLOADS), ("ml", name), "merge-patch", said)
        self.hear(name)

    def hear(self, name: str) -> None:
        """The watch brings the Workload as it is now."""
        self.book.put(parse_kueue_workload(self.objects.get(stored_as(WORKLOADS), ("ml", name))))
        self.keeper.see_workload(("ml", name))

    def promise(self, name: str, pods: int) -> None:
        assert self.gang(name)
        self.keeper.see_record(self.remember(name, pods))

    def remember(self, name: str, pods: int) -> Record:
        """A plan for its placeholders, as it is written down."""
        workload = self.book.workloads["ml", name]
        placements = tuple(Placement(f"{name}/{rank}", workload.uid, "n0") for rank in range(pods))
        gang = placeholder_gang(workload)
        record = Record(gang, placements, 0, 0, "1", "u", until_s=_BEGAN_S + _WITHIN_S)
        self.state.set_record(record)
        return record

    def pass_time(self, by_s: float) -> None:
        self._wall_s += by_s
        for _, name in self.book.workloads:
            self.keeper.see_workload(("ml", name))

    def gang(self, name: str) -> Gang:
        return next(gang for gang in self.state.gangs() if gang.key.name == name)

    def placeholders(self) -> int:
        return sum("/" in name for _, name in self.state.pods)

    def said(self, name: str) -> tuple[str, str]:
        (check,) = self.objects.get(stored_as(WORKLOADS), ("ml", name))["status"]["admissionChecks"]
        return check["state"], check["message"]

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        work = asyncio.create_task(self.keeper.run(lambda gang: self.planned.append(gang.name)))
        yield
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)


async def test_placeholders_of_all_workloads_are_bounded_and_the_next_one_gets_its_turn() -> None:
    world, each = World(), 12
    most = _MOST // each
    async with world.running():
        for number in range(most + 1):
            world.reserve(f"w{number}", each)
        await eventually(lambda: len(world.planned) == most)
        assert world.placeholders() == most * each
        world.book.remove(("ml", "w0"))
        world.keeper.see_workload(("ml", "w0"))
        await eventually(lambda: world.placeholders() == (most - 1) * each)
        world.pass_time(0.0)
        await eventually(lambda: len(world.planned) == most + 1)
    assert world.planned == [f"w{number}" for number in range(most + 1)]


async def test_room_is_taken_while_it_is_promised_and_given_back_when_its_time_is_over() -> None:
    world = World()
    async with world.running():
        world.reserve("train", 8)
        await eventually(lambda: world.planned == ["train"])
        world.promise("train", 8)
        await eventually(lambda: world.said("train")[0] == "Ready")
        assert world.state.gangs() == []
        world.pass_time(_WITHIN_S - 1)
        await eventually(lambda: world.placeholders() == 8)
        world.pass_time(2)
        await eventually(lambda: world.said("train")[0] == "Retry")
        assert (world.placeholders(), world.state.records) == (0, {})


async def test_quota_of_the_same_second_for_fewer_pods_is_another_quota() -> None:
    world = World()
    async with world.running():
        world.reserve("train", 8)
        await eventually(lambda: world.placeholders() == 8)
        world.assign("train", count=2)
        await world.clock.advance(1.0)
        assert world.placeholders() == 2


async def test_without_a_plan_in_time_the_quota_goes_back() -> None:
    world = World()
    async with world.running():
        world.reserve("train", 8)
        await eventually(lambda: world.planned == ["train"])
        world.pass_time(_WITHIN_S + 1)
        await eventually(lambda: world.said("train")[0] == "Retry")
    assert world.said("train")[1] == "no plan was made for it in time; its Events may say why"
    assert world.placeholders() == 0


async def test_why_a_gang_of_placeholders_waits_is_told_and_nobody_is_evicted_for_it() -> None:
    world = World()
    async with world.running():
        world.reserve("train", 9, priority=9)
        await eventually(lambda: world.planned == ["train"])
        gang = world.gang("train")
        assert not may_preempt(gang, world.state.owners)
        world.keeper.take_waiting([Plan(gang, reason="needs 9 nodes")])
        await eventually(lambda: world.said("train") == ("Retry", "needs 9 nodes"))
    assert world.placeholders() == 0


async def test_a_promise_whose_flavor_is_gone_is_given_up_once() -> None:
    world = World()
    world.reserve("train", 2)
    world.assign("train", flavors={"cpu": "gone"})
    world.remember("train", 1)
    async with world.running():
        await eventually(lambda: world.said("train")[0] == "Retry")
    assert "ResourceFlavor" in world.said("train")[1]
    assert world.state.records == {}


async def test_a_check_with_parameters_says_that_it_takes_none() -> None:
    world = World()
    world.add_check("wrong", parameters={"kind": "X", "name": "x", "apiGroup": "y"})
    async with world.running():
        await eventually(lambda: "status" in world.objects.get(stored_as(ADMISSION_CHECKS), ("", "wrong")))
    (condition,) = world.objects.get(stored_as(ADMISSION_CHECKS), ("", "wrong"))["status"]["conditions"]
    assert (condition["type"], condition["status"]) == ("Active", "False")


async def test_a_workload_that_is_not_planned_before_keeps_its_quota_however_long_other_checks_take() -> None:
    world = World()
    async with world.running():
        world.reserve("cpu", 2, schedulingGates=[])
        await eventually(lambda: world.said("cpu")[0] == "Ready")
        world.pass_time(_WITHIN_S + 1)
        await settle()
        assert world.said("cpu")[0] == "Ready"
        world.reserve("late", 2, schedulingGates=[])
        await eventually(lambda: world.said("late")[0] == "Ready")


async def test_room_of_pods_that_have_a_plan_is_not_taken_again_by_the_next_leader() -> None:
    world = World()
    world.reserve("train", 8)
    world.remember("train", 8)
    pods = [values.pod(f"train-{rank}", labels={"job-name": "train"}) for rank in range(8)]
    for pod in pods:
        world.state.set_pod(pod)
    gang = gang_of_owner("ml", "Job", "train")
    assert gang is not None
    plan = Record(gang, tuple(Placement(pod.name, pod.uid, "n0") for pod in pods), 0, 0, "1", "u")
    world.state.set_record(plan)
    await world.keeper.restore()
    assert not world.state.steps(plan).lost
    async with world.running():
        await eventually(lambda: list(world.state.records.values()) == [plan])


async def test_placeholders_that_come_while_their_promise_is_kept_leave_none_behind() -> None:
    world = World(most=1_000)
    world.reserve("train", 600)
    world.remember("train", 600)
    async with world.running():
        for _ in range(100):
            if world.placeholders():
                break
            await asyncio.sleep(0)
        assert 0 < world.placeholders() < 600
        pods = [values.pod(f"train-{rank}", labels={"job-name": "train"}) for rank in range(600)]
        (gang,) = find_gangs(pods)
        assert await world.keeper.take_promised(gang) is not None
        await settle()
        assert world.placeholders() == 0


async def test_who_waits_for_its_turn_is_read_once() -> None:
    world = World()
    async with world.running():
        for number in range(5):
            world.reserve(f"w{number}", 20)
        await eventually(lambda: len(world.api.read) == 5)
        for _ in range(3):
            world.pass_time(0.0)
            await settle()
        assert len(world.api.read) == 5
        world.book.remove(("ml", "w0"))
        world.keeper.see_workload(("ml", "w0"))
        await settle()
        world.pass_time(0.0)
        await eventually(lambda: world.planned == ["w0", "w1", "w2"])
        assert len(world.api.read) == 6


async def test_what_cannot_be_written_is_not_tried_many_times_a_second() -> None:
    world = World()
    world.api.is_changing = True
    world.reserve("cpu", 2, schedulingGates=[])
    async with world.running():
        await world.clock.advance(10.0)
        assert 2 < world.api.written < 10
        world.api.is_changing = False
        world.hear("cpu")
        await eventually(lambda: world.said("cpu")[0] == "Ready")


@given(st.lists(st.tuples(st.sampled_from((PLACEHOLDERS, "Job")), st.integers(900, 1_100)), max_size=5))
def test_while_kueue_cannot_be_read_nodes_are_closed_by_promises_that_are_not_over_and_by_nothing_else(
    plans: list[tuple[str, int]],
) -> None:
    world = World()
    for at, (kind, until_s) in enumerate(plans):
        placement = Placement("p", "u", f"n{at}")
        world.state.set_record(Record(GangKey("ml", f"j{at}", kind), (placement,), 0, 0, until_s=until_s))
    assert not world.keeper.closed_nodes(), "it knows all that Kueue has"
    world.keeper.wait_for(asyncio.Event().wait)
    open_promises = (
        at for at, (kind, until_s) in enumerate(plans) if kind == PLACEHOLDERS and until_s > _BEGAN_S
    )
    assert world.keeper.closed_nodes() == {f"n{at}" for at in open_promises}
