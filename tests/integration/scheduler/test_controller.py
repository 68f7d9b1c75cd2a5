"""Plans as they are made and written down, where something is wrong that no cluster shows on demand."""

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest
from prometheus_client import CollectorRegistry

from accelet.control.writer import FencedWriter
from accelet.fakeapi import Drop, Fault
from accelet.kube.client import Client
from accelet.kube.errors import UnavailableError
from accelet.kube.nodes import parse_node
from accelet.kube.podparser import parse_pod
from accelet.kube.recording.eventlog import Message
from accelet.kube.served import ListApi
from accelet.scheduler.cluster.topology import Scheme
from accelet.scheduler.controller import Controller
from accelet.scheduler.gangs.grouping import GATE_PREFIX, Gang, GangKey
from accelet.scheduler.gangs.workload import parse_workload
from accelet.scheduler.metrics import SchedulerMetrics
from accelet.scheduler.record import Placement, Record
from accelet.scheduler.settings import SchedulerSettings
from accelet.scheduler.state import SchedulerState
from accelet.scheduler.writer import PlanWriter
from tests.integration.kube.waiting import eventually
from tests.integration.scheduler.world import JOBS, NODES, PLANS, PODS, World


def plan(node: str) -> Record:
    return Record(GangKey("ml", "train", "Job"), (Placement("p", "u", node),), 0, 0)


class FaultyState(SchedulerState):
    """Makes something of a gang named `broken` that no gang should be."""

    def gangs(self) -> list[Gang]:
        return [replace(gang, shapes=()) if gang.key.name == "broken" else gang for gang in super().gangs()]


@pytest.fixture
def state() -> SchedulerState:
    return FaultyState(Scheme(), GATE_PREFIX)


@pytest.fixture
def registry() -> CollectorRegistry:
    return CollectorRegistry()


@pytest.fixture
def metrics(registry: CollectorRegistry) -> SchedulerMetrics:
    return SchedulerMetrics(registry)


@pytest.fixture
async def writer(
    world: World, state: SchedulerState, metrics: SchedulerMetrics, tmp_path: Path
) -> AsyncIterator[PlanWriter]:
    client = await Client.connect(world.api.write_kubeconfig(tmp_path / "kubeconfig", "a-token"))
    yield PlanWriter(FencedWriter(client, lambda: True), state, metrics)
    client.close()


async def test_a_plan_that_is_there_already_is_taken_over(writer: PlanWriter, state: SchedulerState) -> None:
    assert await writer.write(plan("n1"))
    assert not await writer.write(plan("n0"))
    assert [one.placements for one in state.records.values()] == [plan("n1").placements]


async def test_a_late_end_of_a_plan_does_not_end_its_successor(
    world: World, writer: PlanWriter, state: SchedulerState
) -> None:
    await writer.write(plan("n1"))
    (first,) = state.records.values()
    world.state.delete(PLANS, first.key)
    state.remove_record(first)
    await writer.write(plan("n0"))
    await writer.erase(first)
    assert len(world.plans()) == 1
    assert [one.placements for one in state.records.values()] == [plan("n0").placements]
    (second,) = state.records.values()
    await writer.erase(second)
    assert (world.plans(), state.records) == ([], {})


async def test_a_plan_whose_answer_was_lost_is_the_own_one(
    world: World, writer: PlanWriter, state: SchedulerState
) -> None:
    world.api.faults.append(Fault(Drop(after=True), method="POST", path="/configmaps"))
    with pytest.raises(UnavailableError):
        await writer.write(plan("n0"))
    assert await writer.write(plan("n0"))
    assert [one.placements for one in state.records.values()] == [plan("n0").placements]


async def test_a_fault_of_ours_with_one_gang_is_told_and_stops_no_other(
    world: World,
    writer: PlanWriter,
    state: SchedulerState,
    metrics: SchedulerMetrics,
    registry: CollectorRegistry,
) -> None:
    world.is_binding = False
    world.add_nodes(1, 1, 2)
    world.add_job("broken", 1)
    world.add_job("good", 1)
    await eventually(lambda: len(world.gated()) == 2)
    for node in world.state.list(NODES, {}, None)["items"]:
        state.set_node(parse_node(json.dumps(node).encode()))
    for job in world.state.list(JOBS, {}, None)["items"]:
        state.set_workload(parse_workload(json.dumps(job).encode(), kind="Job"))
    for pod in world.state.list(PODS, {}, None)["items"]:
        state.set_pod(parse_pod(json.dumps(pod).encode()))
    said: list[Message] = []
    controller = Controller(
        state, writer, SchedulerSettings(version="v1"), metrics, said.append, api=cast(ListApi, None)
    )
    running = asyncio.create_task(controller.run())
    await eventually(lambda: world.gated() == ["broken-0"])
    running.cancel()
    told = {message.note for message in said if message.reason == "Refused"}
    assert told == {"cannot be planned by a fault of the scheduler; see its log"}
    assert registry.get_sample_value("accelet_scheduler_planning_faults_total") == 1
