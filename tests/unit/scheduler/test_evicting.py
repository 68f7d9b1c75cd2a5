"""What an eviction that the API server does not serve makes of the plan that waits for it."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import cast

import pytest
from prometheus_client import CollectorRegistry

from accelet.control.writer import FencedWriter
from accelet.kube.apiresources import ApiResource, Body, ObjectApi
from accelet.kube.errors import ConflictError, ForbiddenError, ServerError
from accelet.kube.objects import Owner
from accelet.kube.pods import Pod
from accelet.kube.selection import NodeTerm, Requirement
from accelet.scheduler.cluster.topology import Scheme
from accelet.scheduler.errors import EvictionRefusedError
from accelet.scheduler.events import GangEvents
from accelet.scheduler.gangs.grouping import GATE_PREFIX, GangKey
from accelet.scheduler.gangs.workload import Workload
from accelet.scheduler.metrics import SchedulerMetrics
from accelet.scheduler.preemption.evicting import Evictor
from accelet.scheduler.record import Evicted, Placement, Record
from accelet.scheduler.settings import PreemptionSettings
from accelet.scheduler.state import SchedulerState
from accelet.scheduler.writer import PlanWriter
from tests.fakes.clocks import FakeClock
from tests.fakes.nodes import node
from tests.unit.scheduler import values

_SOON_S = 5.0


@dataclass
class Evictions:
    """An API server that serves evictions, but for the errors of some pods, by name."""

    errors: dict[str, Exception] = field(default_factory=dict)
    evicted: list[str] = field(default_factory=list)

    async def create(
        self, resource: ApiResource, namespace: str | None, body: Body, *, dry_run: bool = False
    ) -> bytes:
        metadata = cast("dict[str, str]", body["metadata"])
        if error := self.errors.get(metadata["name"]):
            raise error
        self.evicted.append(metadata["name"])
        return b"{}"


class World:
    """Two gangs that run, and a plan of a third for which both must go."""

    def __init__(self) -> None:
        self.api, self.state, clock = Evictions(), SchedulerState(Scheme(), GATE_PREFIX), FakeClock()
        self.low = [_running("a", on="n0"), _running("b", on="n0")]
        self.high = replace(values.pod("high-0", gpus=2, labels={"job-name": "high"}), priority=9)
        self.state.set_node(node("n0", gpus=2))
        for job in ("a", "b", "high"):
            self.state.set_workload(Workload("Job", "ml", job, 1))
        for pod in (*self.low, self.high):
            self.state.set_pod(pod)
        fenced = FencedWriter(cast(ObjectApi, self.api), lambda: True)
        writer = PlanWriter(fenced, self.state, SchedulerMetrics(CollectorRegistry()))
        events, settings = GangEvents(lambda _: None, clock), PreemptionSettings(gangs=True)
        self._evictor = Evictor(self.state, writer, events, settings, wall_s=clock.now_s)
        self._record = Record(
            GangKey("ml", "high", "Job"),
            (Placement("high-0", self.high.uid, "n0"),),
            0,
            0,
            evicted=tuple(Evicted(pod.namespace, pod.name, pod.uid) for pod in self.low),
            until_s=clock.now_s() + settings.within_s,
        )

    async def make_room(self) -> float | None:
        return await self._evictor.make_room(self._record, [self.high])


def _running(job: str, *, on: str) -> Pod:
    pin = (NodeTerm((), (Requirement("metadata.name", "In", (on,)),)),)
    owner = Owner("Job", job, f"uid-{job}", is_controller=True)
    return values.pod(f"{job}-0", on=on, labels={"job-name": job}, owner=owner, terms=pin)


_CONFLICT = ConflictError("POST", 409, "Conflict", "the budget has changed")
_REFUSALS: Sequence[Exception] = (
    ForbiddenError("POST", 403, "Forbidden", "not your pod secret-name"),
    ServerError("POST", 500, "InternalError", "this pod has more than one PodDisruptionBudget"),
)


@pytest.mark.parametrize("refusal", _REFUSALS)
async def test_that_one_pod_is_refused_keeps_no_other_from_being_asked_for(refusal: Exception) -> None:
    world = World()
    world.api.errors["a-0"] = refusal
    with pytest.raises((EvictionRefusedError, ServerError)):
        await world.make_room()
    assert world.api.evicted == ["b-0"]


async def test_what_the_api_server_says_of_pods_of_others_is_not_told_to_the_gang() -> None:
    world = World()
    world.api.errors["a-0"] = _REFUSALS[0]
    with pytest.raises(EvictionRefusedError, match="cannot be evicted") as caught:
        await world.make_room()
    assert "secret-name" not in str(caught.value)
    assert "a-0" not in str(caught.value)


async def test_after_a_conflict_a_pod_is_asked_for_again() -> None:
    world = World()
    world.api.errors["a-0"] = _CONFLICT
    assert await world.make_room() == _SOON_S
    world.api.errors.clear()
    assert await world.make_room() != _SOON_S
    assert sorted(world.api.evicted) == ["a-0", "b-0"]


async def test_pods_whose_job_is_gone_are_waited_for_and_the_others_evicted() -> None:
    """They are about to go with it."""
    world = World()
    world.state.remove_workload("Job", "ml", "a")
    assert await world.make_room() == _SOON_S
    assert world.api.evicted == ["b-0"]
    for pod in world.low:
        world.state.remove_pod(pod.key, 0.0)
    assert await world.make_room() is None
