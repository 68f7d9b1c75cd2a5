"""A pod that has no room for the note why it waits."""

import asyncio
from dataclasses import dataclass, replace
from typing import cast

from prometheus_client import CollectorRegistry

from accelet.control.writer import FencedWriter
from accelet.kube.apiresources import ApiResource, Body, ObjectApi
from accelet.kube.errors import InvalidError
from accelet.scheduler.cluster.topology import Scheme
from accelet.scheduler.gangs.grouping import GATE_PREFIX, find_gangs
from accelet.scheduler.metrics import SchedulerMetrics
from accelet.scheduler.notes import WaitingNotes
from accelet.scheduler.placement.plan import Plan
from accelet.scheduler.state import SchedulerState
from accelet.scheduler.writer import PlanWriter
from tests.fakes.clocks import FakeClock
from tests.unit.scheduler.values import pod


@dataclass
class TooLarge:
    """An API server that has no room for what is to be added."""

    asked: int = 0

    async def patch(
        self, resource: ApiResource, namespace: str | None, name: str, patch: Body, of: str, **_: object
    ) -> bytes:
        self.asked += 1
        raise InvalidError(f"PATCH {resource.plural} {name}", 500, "", "etcdserver: request is too large")


async def test_it_is_asked_for_no_more_often_than_any_other_whose_reason_changes() -> None:
    api, clock, state = TooLarge(), FakeClock(), SchedulerState(Scheme(), GATE_PREFIX)
    one = replace(pod("huge", labels={"job-name": "huge"}), gates=(f"{GATE_PREFIX}huge",))
    state.set_pod(one)
    (gang,) = find_gangs([one])
    fenced = FencedWriter(cast(ObjectApi, api), lambda: True)
    notes = WaitingNotes(state, PlanWriter(fenced, state, SchedulerMetrics(CollectorRegistry())), clock)
    work = asyncio.create_task(notes.run())
    for second in range(120):
        notes.take([Plan(gang, reason=f"needs 1 node, the cluster has {second}")])
        await clock.advance(1.0)
    work.cancel()
    assert 4 <= api.asked <= 5
