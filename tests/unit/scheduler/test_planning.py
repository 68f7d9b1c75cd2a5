"""The rounds of one leader by a clock that stands still: when the next one comes by itself, and what ends."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from fractions import Fraction
from random import Random
from typing import Any, cast

import pytest
from prometheus_client import CollectorRegistry

from accelet.assignments.ownform import ASSIGNMENT_ANNOTATION, render_own
from accelet.control.writer import FencedWriter
from accelet.kube.apiresources import ApiResource, Body, ObjectApi
from accelet.kube.objects import Owner, Page
from accelet.kube.pods import Container, Pod
from accelet.kube.selection import NodeTerm, Requirement
from accelet.kube.served import ListApi
from accelet.scheduler.cluster.topology import Scheme
from accelet.scheduler.events import GangEvents
from accelet.scheduler.gangs.grouping import GATE_PREFIX, Gang, find_gangs, gang_key
from accelet.scheduler.gangs.podgroups import POD_GROUP, PodGroupTerms
from accelet.scheduler.gangs.workload import Workload
from accelet.scheduler.metrics import SchedulerMetrics
from accelet.scheduler.placement.plan import Plan, plan_gang
from accelet.scheduler.planning import Planner
from accelet.scheduler.preemption.preempting import Preemptor
from accelet.scheduler.record import Record, parse_record
from accelet.scheduler.settings import PreemptionSettings, SchedulerSettings
from accelet.scheduler.state import SchedulerState
from accelet.scheduler.writer import PlanWriter
from tests.fakes.clocks import FakeClock, settle
from tests.fakes.nodes import node
from tests.unit.scheduler.card_values import card, card_container, card_node, card_pod
from tests.unit.scheduler.values import pod


class Threads(ThreadPoolExecutor):
    """Does at once what it is given, on the caller's thread; while it is held, not before `release`."""

    def __init__(self) -> None:
        super().__init__(1)
        self.is_held = False
        self.held: list[Callable[[], None]] = []

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_running_or_notify_cancel()

        def run() -> None:
            future.set_result(fn(*args, **kwargs))

        self.held.append(run)
        if not self.is_held:
            self.release()
        return future

    def release(self) -> None:
        while self.held:
            self.held.pop()()


@dataclass
class Plans:
    """An API server that takes plans, and has no disruption budgets."""

    written: list[Record] = field(default_factory=list)

    async def create(
        self, resource: ApiResource, namespace: str | None, body: Body, *, dry_run: bool = False
    ) -> bytes:
        metadata = cast("dict[str, object]", body["metadata"])
        raw = json.dumps({**body, "metadata": {**metadata, "uid": "u", "resourceVersion": "1"}}).encode()
        self.written.append(parse_record(raw))
        return raw

    async def list_page(
        self, resource: ApiResource, namespace: str | None = None, query: Mapping[str, str] | None = None
    ) -> Page:
        return Page(())


@dataclass
class Leader:
    """A planner and its world. Without `plans` it may write nothing; `tries` says how often it tried."""

    settings: SchedulerSettings = field(
        default_factory=lambda: SchedulerSettings(version="v1", quiet_s=0.0, reserved_for_s=3600.0)
    )
    clock: FakeClock = field(default_factory=FakeClock)
    threads: Threads = field(default_factory=Threads)
    registry: CollectorRegistry = field(default_factory=CollectorRegistry)
    state: SchedulerState = field(default_factory=lambda: SchedulerState(Scheme(), GATE_PREFIX))
    plans: Plans | None = None
    promised: Plan | None = None
    tries: int = 0
    planner: Planner | None = None

    def come(self, one: Pod) -> None:
        """A pod is made."""
        self.state.set_pod(one)
        if self.planner is not None:
            self.planner.plan_now(gang_key(one), is_new=True)

    async def _take_promised(self, _: Gang) -> Plan | None:
        promised, self.promised = self.promised, None
        return promised

    def _may_write(self) -> bool:
        self.tries += 1
        return self.plans is not None

    def sample(self, name: str) -> float:
        value = self.registry.get_sample_value(f"accelet_scheduler_{name}")
        assert value is not None
        return value

    @asynccontextmanager
    async def leads(self) -> AsyncIterator["asyncio.Task[None]"]:
        asyncio.get_running_loop().set_default_executor(self.threads)
        metrics = SchedulerMetrics(self.registry)
        preemptor = Preemptor(
            self.state,
            cast(ListApi, self.plans),
            self.settings.preemption,
            clock=self.clock,
            wall_s=self.clock.now_s,
        )
        self.planner = planner = Planner(
            self.state,
            PlanWriter(FencedWriter(cast(ObjectApi, self.plans), self._may_write), self.state, metrics),
            GangEvents(lambda _: None, self.clock),
            self.settings,
            metrics,
            preemptor=preemptor,
            moves=None,
            written=lambda _: None,
            waiting=lambda _: None,
            promised=self._take_promised,
            clock=self.clock,
            wall_s=self.clock.now_s,
        )
        running = asyncio.create_task(planner.run())
        try:
            yield running
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)


async def test_a_reservation_ends_by_itself_and_comes_again_only_after_the_same_wait() -> None:
    leader = Leader()
    for number in range(2):
        leader.state.set_node(node(f"n{number}", f"b/s/h{number}"))
        leader.state.set_pod(replace(pod(f"x{number}", on=f"n{number}", gpus=8), restart_policy="Never"))
    leader.state.set_pod(pod("large-0", labels={"job-name": "large"}, gpus=8, created_s=leader.clock.now_s()))
    async with leader.leads():
        await leader.clock.advance(599)
        assert leader.sample("reserved_nodes") == 0
        await leader.clock.advance(2)
        assert leader.sample("reserved_nodes") == 1
        await leader.clock.advance(3598)
        assert leader.sample("reserved_nodes") == 1
        await leader.clock.advance(2)
        assert leader.sample("reserved_nodes") == 0, "its time is over, and nobody else had to look"
        assert leader.sample("reservations_total") == 1
        await leader.clock.advance(597)
        assert leader.sample("reserved_nodes") == 0
        await leader.clock.advance(3)
        assert leader.sample("reserved_nodes") == 1
        assert leader.sample("reservations_total") == 2


@pytest.mark.parametrize("is_open", [True, False])
async def test_a_promised_place_is_checked_again_when_the_pods_come(is_open: bool) -> None:
    leader = Leader(plans=Plans())
    for name in ("near", "promised"):
        leader.state.set_node(node(name, "b/s/h", is_cordoned=name == "promised" and not is_open))
    leader.state.set_pod(pod("p-0", labels={"job-name": "p"}))
    (gang,) = leader.state.gangs()
    leader.promised = Plan(gang, ("promised",), (None,), distance=0)
    async with leader.leads():
        await leader.clock.advance(1)
    assert leader.plans is not None
    (record,) = leader.plans.written
    assert [one.node for one in record.placements] == ["promised" if is_open else "near"]


async def test_what_a_search_left_open_is_searched_again_by_itself_each_time_later() -> None:
    leader, random = Leader(), Random(1)
    for number in range(8):
        leader.state.set_node(node(f"n{number}", f"b/s/h{number}"))
    # Three for each node, which they all but fill: whether they fit at all takes longer than any search may.
    sizes = [Fraction(random.randrange(16_000, 26_000), 1000) for _ in range(23)]
    sizes.append(8 * 64 - sum(sizes, Fraction()))
    for rank, cpu in enumerate(sizes):
        one = pod(f"hard-{rank}", labels={"job-name": "hard"}, gpus=0, created_s=leader.clock.now_s())
        leader.state.set_pod(replace(one, containers=(Container("main", {"cpu": cpu}),)))
    async with leader.leads():
        await leader.clock.advance(1)
        assert (leader.sample("waiting_gangs"), leader.sample("plan_seconds_count")) == (1, 1)
        for wait_s in (5, 10, 20):
            rounds = leader.sample("plan_seconds_count")
            await leader.clock.advance(wait_s - 1)
            assert leader.sample("plan_seconds_count") == rounds
            await leader.clock.advance(1)
            assert leader.sample("plan_seconds_count") == rounds + 1
    assert leader.tries == 0


async def test_a_plan_that_is_made_when_its_leadership_is_over_is_not_begun() -> None:
    leader = Leader()
    leader.state.set_node(node("n0", "b/s/h0"))
    leader.state.set_pod(pod("p-0", labels={"job-name": "p"}))
    leader.state.cluster.snapshot()
    leader.threads.is_held = True
    async with leader.leads() as running:
        await leader.clock.advance(1)
        assert leader.threads.held, "a round is being planned"
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        leader.threads.release()
        await settle()
    assert leader.tries == 0


async def test_plans_are_begun_while_their_leadership_lasts() -> None:
    leader = Leader()
    leader.state.set_node(node("n0", "b/s/h0"))
    leader.state.set_pod(pod("p-0", labels={"job-name": "p"}))
    async with leader.leads():
        await leader.clock.advance(1)
    assert leader.tries > 0


async def test_a_pod_group_waits_for_the_pods_of_jobs_that_are_made_later() -> None:
    leader = Leader(SchedulerSettings(version="v1", quiet_s=2.0))
    leader.state.set_node(node("n0", "b/s/h0"))
    leader.state.set_workload(Workload(POD_GROUP, "ml", "g", 0, pod_group=PodGroupTerms(least=1)))
    for job in ("first", "second"):
        leader.state.set_workload(Workload("Job", "ml", job, 1))
    first, second = (
        pod(f"{job}-0", owner=Owner("Job", job, f"uid-{job}", is_controller=True), pod_group="g")
        for job in ("first", "second")
    )
    leader.come(first)
    async with leader.leads():
        await leader.clock.advance(1.5)
        leader.come(second)
        await leader.clock.advance(1.5)
        assert leader.tries == 0
        await leader.clock.advance(1)
    assert leader.tries > 0


async def test_cards_that_a_round_gives_are_not_promised_to_one_that_preempts_in_the_same_round() -> None:
    settings = SchedulerSettings(version="v1", quiet_s=0.0, preemption=PreemptionSettings(gangs=True))
    leader = Leader(settings, plans=Plans())
    assert leader.plans is not None
    state = leader.state
    state.set_node(card_node("n0", card(0), card(1)))
    for job in ("low", "other", "staying", "high", "first"):
        state.set_workload(Workload("Job", "ml", job, 1))
    _run_on_a_tile(state, "low", priority=0)
    other = _run_on_a_tile(state, "other", priority=99)
    _run_on_a_tile(state, "staying", priority=99)
    state.set_pod(_for_cards("high", tiles=2, priority=9))
    async with leader.leads():
        await leader.clock.advance(20.0)
        assert leader.plans.written == [], "nobody can make the room that another holds"
        state.set_pod(replace(other, phase="Succeeded"))
        state.set_pod(_for_cards("first", tiles=1, priority=20))
        await leader.clock.advance(60.0)
    assert [record.gang.name for record in leader.plans.written] == ["first"]


def _for_cards(job: str, *, tiles: int, priority: int) -> Pod:
    asking, owner = card_container(tiles=tiles), Owner("Job", job, f"u-{job}", is_controller=True)
    labels, gates = {"job-name": job}, (f"{GATE_PREFIX}{job}",)
    return replace(
        card_pod(f"{job}-0", asking, labels=labels, gates=gates), owners=(owner,), priority=priority
    )


def _run_on_a_tile(state: SchedulerState, job: str, *, priority: int) -> Pod:
    """A pod on the only node, with a tile that is free there."""
    one = _for_cards(job, tiles=1, priority=priority)
    (gang,) = find_gangs([one])
    (given,) = plan_gang(gang, state.cluster.layout, state.cluster.room()).assignments
    assert given is not None
    pin = NodeTerm((), (Requirement("metadata.name", "In", ("n0",)),))
    running = replace(
        one,
        node_name="n0",
        gates=(),
        phase="Running",
        required_terms=(pin,),
        annotations={ASSIGNMENT_ANNOTATION: render_own(given)},
    )
    state.set_pod(running)
    return running
