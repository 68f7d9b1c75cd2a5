"""Objects made at random, stored by a real API server and read back: parsers can read all that it has."""

import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from accelet.kube.errors import MalformedObjectError
from accelet.kube.nodes import parse_node
from accelet.kube.objects import RawObject, read_page
from accelet.kube.podparser import parse_pod
from accelet.scheduler.cluster.topology import Scheme
from accelet.scheduler.gangs.grouping import GATE_PREFIX
from accelet.scheduler.gangs.workload import parse_workload
from accelet.scheduler.record import parse_record
from accelet.scheduler.state import SchedulerState
from tests.e2e.cluster.control_plane import ControlPlane
from tests.e2e.cluster.https_client import Client, Json, RefusedError
from tests.e2e.tenants.corpus import jobs, nodes, plans, pods
from tests.e2e.tenants.installation import Tenant, acting_as, tile_pod, wait_until_placed
from tests.e2e.tenants.pods.processes import RunningProcess

OBJECTS = 10_000 if os.environ.get("ACCELET_HYPOTHESIS_PROFILE") == "soak" else 100
AT_ONCE = 50
Say = Callable[[str], None]
pytestmark = pytest.mark.thorough

TakeOver = Callable[[SchedulerState, RawObject], None]


def take_pod(state: SchedulerState, raw: RawObject) -> None:
    state.set_pod(parse_pod(raw))


def take_job(state: SchedulerState, raw: RawObject) -> None:
    state.set_workload(parse_workload(raw, "Job"))


def take_node(state: SchedulerState, raw: RawObject) -> None:
    state.set_node(parse_node(raw))


def take_plan(state: SchedulerState, raw: RawObject) -> None:
    # It says what is wrong with what somebody else has written.
    with suppress(MalformedObjectError):
        state.set_record(parse_record(raw))


@dataclass
class Corpus:
    """Objects of one kind that one account stores, and the parsers read; from time to time all go."""

    kind: str
    writer: Client
    reader: Client
    collection: str
    take: TakeOver
    stored: int = 0
    refusals: list[str] = field(default_factory=list)

    def store(self, body: Json) -> None:
        """What is refused harms nobody."""
        try:
            answer = self.writer.send("POST", self.collection, body)
        except RefusedError as error:
            assert error.status in (400, 403, 409, 422), error  # noqa: PT017
            self.refusals.append(str(error))
            return
        self._take_over(answer.encode())
        self.stored += 1
        if self.stored % AT_ONCE == 0:
            self.read_back()

    def read_back(self) -> None:
        """As a list has them."""
        chosen = f"{self.collection}?labelSelector=corpus"
        for item in read_page(self.reader.send("GET", chosen).encode(), self.kind).items:
            self._take_over(item)
        self.reader.send("DELETE", chosen, {"gracePeriodSeconds": 0, "propagationPolicy": "Background"})

    def _take_over(self, raw: RawObject) -> None:
        """By a scheduler that knows nothing else."""
        state = SchedulerState(Scheme(), GATE_PREFIX)
        self.take(state, raw)
        state.gangs()
        state.cluster.snapshot()


def store(corpus: Corpus, made: st.SearchStrategy[Json], count: int) -> None:
    """So many at random. An API server is asked once: to look for a smaller example would take minutes."""

    @settings(
        max_examples=count,
        phases=[Phase.generate],
        deadline=None,
        suppress_health_check=list(HealthCheck),
        database=None,
    )
    @given(made)
    def one(body: Json) -> None:
        corpus.store(body)

    one()
    corpus.read_back()


def test_whatever_is_stored_can_be_read(
    mallory: Tenant, alice: Tenant, control_plane: ControlPlane, scheduler: RunningProcess, say: Say
) -> None:
    """By the parsers, each by itself; and by the scheduler, that watches meanwhile."""
    administrator = control_plane.client
    thief = acting_as(control_plane, "kube-system", "accelet-scheduler")
    few = OBJECTS // 10
    corpora = [
        (Corpus("Pod", mallory.client, administrator, mallory.path("Pod"), take_pod), pods()),
        (Corpus("Job", mallory.client, administrator, mallory.path("Job"), take_job), jobs()),
        (Corpus("Node", administrator, administrator, "/api/v1/nodes", take_node), nodes()),
        (
            Corpus("ConfigMap", thief, administrator, mallory.path("ConfigMap"), take_plan),
            plans(mallory.namespace),
        ),
    ]
    for corpus, made in corpora:
        store(corpus, made, OBJECTS - 3 * few if corpus.kind == "Pod" else few)
        say(f"\nof {corpus.kind}s {corpus.stored} were stored, {len(corpus.refusals)} refused")
        assert corpus.stored, corpus.refusals[-1:]
    assert sum(corpus.stored for corpus, _ in corpora) > OBJECTS / 4
    alice.make("Pod", tile_pod("modest"))
    wait_until_placed(alice, "modest")
    assert scheduler.is_running
    assert scheduler.faults() == []
    assert scheduler.longest_line < 5_000
