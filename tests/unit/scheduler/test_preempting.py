"""When victims are looked for, for whom, and which pods are counted on to be gone."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import pytest

from accelet.kube.apiresources import ApiResource
from accelet.kube.objects import Owner, Page
from accelet.kube.pods import Pod
from accelet.kube.selection import NodeTerm, Requirement
from accelet.scheduler.cluster.topology import Scheme
from accelet.scheduler.gangs.grouping import GATE_PREFIX, GangKey
from accelet.scheduler.gangs.workload import Workload
from accelet.scheduler.placement.plan import Plan, plan_gangs
from accelet.scheduler.preemption.preempting import Preemptor, suppose
from accelet.scheduler.preemption.search import Preemption
from accelet.scheduler.settings import PreemptionSettings
from accelet.scheduler.state import SchedulerState
from tests.fakes.clocks import FakeClock
from tests.fakes.nodes import node
from tests.unit.scheduler import values


class Budgets:
    """An API server that lists disruption budgets."""

    def __init__(self, clock: FakeClock) -> None:
        self.clock = clock
        self.listed_s: list[float] = []
        self.page = Page((), "1")
        self.takes_s = 0.0

    async def list_page(
        self, resource: ApiResource, namespace: str | None = None, query: Mapping[str, str] | None = None
    ) -> Page:
        self.listed_s.append(self.clock.now_s())
        await self.clock.advance(self.takes_s)
        return self.page


@dataclass
class World:
    """A cluster in which gangs run and wait, and who looks for victims there."""

    clock: FakeClock
    state: SchedulerState
    api: Budgets
    preemptor: Preemptor

    @classmethod
    def of(cls, nodes: Sequence[Any], pods: Sequence[Pod], within_s: float = 600.0) -> "World":
        clock, state = FakeClock(), SchedulerState(Scheme(), GATE_PREFIX)
        for one in nodes:
            state.set_node(one)
        for pod in pods:
            state.set_workload(Workload("Job", pod.namespace, pod.labels["job-name"], 1))
            state.set_pod(pod)
        api, settings = Budgets(clock), PreemptionSettings(gangs=True, within_s=within_s)
        return cls(clock, state, api, Preemptor(state, api, settings, clock=clock, wall_s=clock.now_s))

    def waiting(self) -> list[Plan]:
        cluster = self.state.cluster
        plans = plan_gangs(self.state.gangs(), cluster.layout, cluster.room())
        return [plan for plan in plans if plan.nodes is None]

    async def round(self) -> Preemption | None:
        """What one round finds; those who wait are noted after it."""
        waiting, found = self.waiting(), None
        prospect = await self.preemptor.look(waiting)
        if prospect is not None:
            supposed = suppose(self.state, self.state.cluster.snapshot(), prospect)
            found = await self.preemptor.search(prospect, supposed, waiting, None)
        self.preemptor.note(waiting)
        return found

    async def victims(self, rounds: int = 2) -> list[str]:
        """The gangs that are found in so many rounds, of which the first one only notes who waits."""
        names: list[str] = []
        for _ in range(rounds):
            found = await self.round()
            names += [victim.key.name for victim in found.victims] if found else []
            await self.clock.advance(2.5)
        return names


def _key(job: str) -> GangKey:
    return GangKey("ml", job, "Job")


def _owner(job: str) -> Owner:
    return Owner("Job", job, f"uid-{job}", is_controller=True)


def _running(job: str, *, on: str, gpus: int = 1, **fields: Any) -> Pod:
    pin = (NodeTerm((), (Requirement("metadata.name", "In", (on,)),)),)
    return values.pod(
        f"{job}-0", on=on, gpus=gpus, labels={"job-name": job}, owner=_owner(job), terms=pin, **fields
    )


def _waiting(job: str, *, gpus: int = 1, priority: int = 9, **fields: Any) -> Pod:
    pod = values.pod(f"{job}-0", gpus=gpus, labels={"job-name": job}, owner=_owner(job), priority=priority)
    return replace(pod, **fields)


async def test_a_pod_that_is_given_long_to_end_is_not_counted_as_gone() -> None:
    """It ends after the plan would have been given up: somebody else is evicted, who goes in time."""
    nodes = [node("n0", gpus=1), node("n1", gpus=1)]
    for after_s, victims in ((-30.0, []), (500.0, []), (700.0, ["staying"]), (-90.0, ["staying"])):
        going, staying = _running("going", on="n0"), _running("staying", on="n1")
        world = World.of(nodes, [going, staying, _waiting("high")])
        world.state.set_pod(replace(going, deleted_s=world.clock.now_s() + after_s))
        assert await world.victims() == victims, after_s


async def test_a_gang_that_is_given_longer_to_end_than_is_waited_for_is_no_victim() -> None:
    nodes = [node("n0", gpus=1), node("n1", gpus=1)]
    slow, quick = _running("slow", on="n0"), _running("quick", on="n1", priority=5)
    for ending_s, victim in ((600, "slow"), (601, "quick")):
        world = World.of(nodes, [replace(slow, ending_s=ending_s), quick, _waiting("high")])
        assert await world.victims() == [victim]


async def test_a_gang_for_which_others_were_evicted_in_vain_rests_though_it_did_not_wait_meanwhile() -> None:
    """It is absent from those who wait while its pods are refused; that is not the end of its rest."""
    world = World.of([node("n0", gpus=1)], [_running("low", on="n0"), _waiting("high")])
    world.preemptor.note(world.waiting())
    world.preemptor.rest(_key("high"), 300.0)
    world.preemptor.note([])
    await world.clock.advance(61.0)
    assert await world.victims() == []
    await world.clock.advance(180.0)
    assert await world.victims() == []
    await world.clock.advance(60.0)
    assert await world.victims(rounds=1) == ["low"]


async def test_gangs_that_nothing_helps_do_not_keep_others_from_being_helped() -> None:
    """However many of them go before it, and are looked at again and again."""
    hopeless = [_waiting(f"vast{number}", gpus=99, priority=50) for number in range(20)]
    low = _running("low", on="n0")
    world = World.of([node("n0", gpus=1)], [low, *hopeless, _waiting("high")])
    assert await world.victims(rounds=22) == ["low"]


async def test_budgets_are_not_read_all_the_time_where_reading_them_takes_long() -> None:
    hopeless = [_waiting(f"vast{number}", gpus=99) for number in range(50)]
    world = World.of([node("n0", gpus=1)], [_running("low", on="n0"), *hopeless])
    world.api.takes_s = 5.0
    await world.victims(rounds=60)
    between_s = [after - before for before, after in pairwise(world.api.listed_s)]
    assert len(between_s) > 1
    assert min(between_s) >= 55.0


async def test_budgets_are_not_read_for_whoever_was_placed_meanwhile() -> None:
    world = World.of([node("n0", gpus=1)], [_running("low", on="n0"), _waiting("high")])
    await world.round()
    assert await world.preemptor.look([]) is None
    assert world.api.listed_s == []


async def test_that_there_are_too_many_budgets_is_said(caplog: pytest.LogCaptureFixture) -> None:
    """Nobody is evicted then: one that was not read might forbid it."""
    world = World.of([node("n0", gpus=1)], [_running("low", on="n0"), _waiting("high")])
    world.api.page = Page((), "1", "more")
    assert await world.victims() == []
    assert len(world.api.listed_s) == 40
    (said,) = (record for record in caplog.records if record.getMessage() == "cannot preempt")
    assert "more than 20,000 disruption budgets" in str(vars(said))
