"""Workloads of Kueue that are planned before they are admitted, against an API server."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from accelet.control.process import Surface
from accelet.control.writer import FencedWriter
from accelet.fakeapi import Answer, Fault, Json
from accelet.kube.client import Client
from accelet.kube.recording.events import EventRecorder
from accelet.scheduler.cluster.topology import Scheme
from accelet.scheduler.gangs.grouping import GATE_PREFIX
from accelet.scheduler.gangs.levels import REQUIRED_LEVEL
from accelet.scheduler.gangs.placeholders import is_placeholder
from accelet.scheduler.metrics import SchedulerMetrics
from accelet.scheduler.process import SchedulerWork
from accelet.scheduler.settings import AdmissionSettings, SchedulerSettings
from accelet.scheduler.state import SchedulerState
from tests.integration.kube.waiting import eventually
from tests.integration.scheduler.conftest import Start
from tests.integration.scheduler.queues import FLAVORS, TOPOLOGIES, Queue, pod_set
from tests.integration.scheduler.world import PLANS, World

until = partial(eventually, within_s=60.0)
ON: dict[str, Any] = {"admission": AdmissionSettings(kueue=True, within_s=86_400.0)}


@pytest.fixture
def queue(world: World) -> Queue:
    world.add_nodes(1, 2, 2)
    return Queue(world)


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _reserve(queue: Queue, name: str, **counts: Any) -> None:
    queue.reserve(name, since=_now(), **counts)


def _promised(world: World) -> list[str]:
    """The nodes of the only plan there is, by rank."""
    (plan,) = world.plans()
    placements = json.loads(plan["data"]["plan.json"])["placements"]
    return [node for _, _, node in sorted(placements, key=lambda one: int(one[0].split("/")[1]))]


def _let_time_pass(world: World) -> None:
    """The time is over for which the only plan keeps its room."""
    (plan,) = world.plans()
    text = json.dumps(json.loads(plan["data"]["plan.json"]) | {"untilS": 1.0})
    key = plan["metadata"]["namespace"], plan["metadata"]["name"]
    world.state.patch(PLANS, key, "merge-patch", {"data": {"plan.json": text}})


async def test_a_workload_has_its_place_before_its_pods_are_there_and_they_go_there(
    world: World, queue: Queue, start: Start
) -> None:
    async with start(**ON):
        await until(queue.is_active)
        queue.add("train", pod_set(3))
        _reserve(queue, "train")
        await until(lambda: queue.says("train", "Ready"))
        assert queue.check("train")["message"] == "there is a place for 3 pods on 3 nodes, distance 10,100"
        promised = _promised(world)
        world.add_job("other", 2, gpus=8)
        await until(lambda: any("needs 2 nodes" in note for note in world.notes()))
        queue.admit("train")
        world.add_job("train", 3, gpus=8)
        await until(lambda: world.is_bound("train", 3) and not world.plans())
        where = world.where("train")
        assert [where[f"train-{rank}"] for rank in range(3)] == promised
    assert len(world.gated("other")) == 2


async def test_nothing_is_looked_at_unless_that_is_switched_on(
    world: World, queue: Queue, start: Start
) -> None:
    queue.add("train", pod_set(1))
    _reserve(queue, "train")
    async with start():
        world.add_job("other", 1)
        await until(lambda: world.is_bound("other", 1))
    assert queue.says("train", "Pending")
    assert not queue.is_active()
    assert not any("kueue" in seen.path for seen in world.api.seen)


async def test_without_room_the_quota_goes_back_with_the_reason_and_kueue_asks_again_ever_later(
    world: World, queue: Queue, start: Start
) -> None:
    async with start(**ON):
        queue.add("train", pod_set(5))
        for after_s in (5, 10, 20, 40, 60, 60):
            _reserve(queue, "train")
            await until(lambda: queue.says("train", "Retry"))
            assert queue.check("train")["requeueAfterSeconds"] == after_s
            assert "needs 5 nodes" in queue.check("train")["message"]
            queue.evict("train")
        world.add_node("n9", "b9/s9/h9")
        _reserve(queue, "train")
        await until(lambda: queue.says("train", "Ready"))
    assert len(_promised(world)) == 5


async def test_room_is_given_back_when_the_quota_is(world: World, queue: Queue, start: Start) -> None:
    async with start(**ON):
        queue.add("train", pod_set(4))
        _reserve(queue, "train")
        await until(lambda: queue.says("train", "Ready"))
        world.add_job("other", 1, gpus=8)
        await until(lambda: any("needs 1 node" in note for note in world.notes()))
        queue.evict("train")
        await until(lambda: world.is_bound("other", 1) and not world.plans())
        queue.add("gone", pod_set(3))
        _reserve(queue, "gone")
        await until(lambda: queue.says("gone", "Ready"))
        queue.delete("gone")
        await until(lambda: not world.plans())


async def test_room_for_pods_that_never_come_is_given_back(world: World, queue: Queue, start: Start) -> None:
    async with start(**ON):
        queue.add("train", pod_set(4))
        _reserve(queue, "train")
        await until(lambda: queue.says("train", "Ready"))
        queue.admit("train")
        world.add_job("other", 4, gpus=8)
        await until(lambda: any("needs 4 nodes" in note for note in world.notes()))
        _let_time_pass(world)
        await until(lambda: world.is_bound("other", 4) and not world.plans())
        assert queue.says("train", "Ready"), "its job runs as far as Kueue knows"


async def test_who_is_not_admitted_in_time_gives_room_and_quota_back(
    world: World, queue: Queue, start: Start
) -> None:
    async with start(**ON):
        queue.add("train", pod_set(4))
        _reserve(queue, "train")
        await until(lambda: queue.says("train", "Ready"))
        _let_time_pass(world)
        await until(lambda: queue.says("train", "Retry"))
        await until(lambda: not world.plans())
    assert queue.check("train")["message"] == "it was not admitted within 86400 s of its plan"


async def test_a_workload_whose_plan_cannot_be_written_gives_its_quota_back(
    world: World, queue: Queue, start: Start
) -> None:
    refusal = Answer(403, "Forbidden", "exceeded quota")
    world.api.faults.append(Fault(refusal, method="POST", path="/configmaps", times=10**6))
    async with start(**ON):
        queue.add("train", pod_set(4))
        queue.reserve("train")  # long ago
        await until(lambda: queue.says("train", "Retry"))
    assert queue.check("train")["message"] == "no plan was made for it in time; its Events may say why"


@pytest.mark.parametrize("came", [2, 4])
async def test_pods_of_another_number_than_were_planned_are_planned_anew(
    world: World, queue: Queue, start: Start, came: int
) -> None:
    async with start(**ON):
        queue.add("train", pod_set(3))
        _reserve(queue, "train")
        await until(lambda: queue.says("train", "Ready"))
        queue.admit("train")
        world.add_job("train", came, gpus=8)
        await until(lambda: world.is_bound("train", came) and not world.plans())
        world.add_job("rest", 4 - came or 1, gpus=8 if came < 4 else 1)
        if came < 4:
            await until(lambda: world.is_bound("rest", 4 - came))


async def test_quota_for_fewer_pods_makes_a_plan_for_as_many(
    world: World, queue: Queue, start: Start
) -> None:
    async with start(**ON):
        queue.add("train", pod_set(6))
        _reserve(queue, "train", main=2)
        await until(lambda: queue.says("train", "Ready"))
    assert len(_promised(world)) == 2


async def test_a_promise_is_kept_though_its_leader_dies_before_it_says_so(
    world: World, queue: Queue, start: Start
) -> None:
    unwell = Fault(Answer(500, "InternalError", "no"), method="PATCH", path="/workloads/", times=10**6)
    world.api.faults.append(unwell)
    async with start("first", **ON):
        queue.add("train", pod_set(4))
        _reserve(queue, "train")
        await until(lambda: bool(world.plans()))
        await until(
            lambda: any("/workloads/" in one.path and one.method == "PATCH" for one in world.api.seen)
        )
    (before,) = world.plans()
    assert queue.says("train", "Pending")
    world.add_job("other", 4, gpus=8, spec={"priority": 9})
    world.api.faults.remove(unwell)
    async with start("second", **ON):
        await until(lambda: queue.says("train", "Ready"))
        (after,) = world.plans()
        assert after["data"] == before["data"]
        queue.admit("train")
        world.add_job("train", 4, gpus=8)
        await until(lambda: world.is_bound("train", 4) and not world.plans())
    assert len(world.gated("other")) == 4


async def test_a_promise_that_outlives_the_plan_of_the_pods_takes_their_room_from_nobody(
    world: World, queue: Queue, start: Start
) -> None:
    async with start("first", **ON):
        queue.add("train", pod_set(4))
        _reserve(queue, "train")
        await until(lambda: queue.says("train", "Ready"))
        promised = _promised(world)
        no = Answer(500, "InternalError", "no")
        unwell = [Fault(no, method="PATCH", path="/pods/", times=10**6)]
        unwell.append(Fault(no, method="DELETE", path="/configmaps/", times=10**6))
        world.api.faults += unwell
        queue.admit("train")
        world.add_job("train", 4, gpus=8)
        await until(lambda: len(world.plans()) == 2)
    world.add_job("other", 4, gpus=8)
    for fault in unwell:
        world.api.faults.remove(fault)
    async with start("second", **ON):
        await until(lambda: world.is_bound("train", 4) and not world.plans())
    where = world.where("train")
    assert [where[f"train-{rank}"] for rank in range(4)] == promised
    assert len(world.gated("other")) == 4


async def test_a_leadership_that_ends_before_it_has_begun_leaves_no_room_taken(
    world: World, queue: Queue, start: Start, tmp_path: Path
) -> None:
    async with start(**ON):
        for name in ("one", "two"):
            queue.add(name, pod_set(2))
            _reserve(queue, name)
        await until(lambda: queue.says("one", "Ready") and queue.says("two", "Ready"))
    last = json.loads(world.plans()[1]["data"]["plan.json"])["gang"]["name"]
    unwell = Answer(500, "InternalError", "no")
    world.api.faults.append(Fault(unwell, method="GET", path=f"/workloads/{last}", times=10**6))
    state = SchedulerState(Scheme(), GATE_PREFIX)
    async with _process(world, state, tmp_path) as work:
        leading = asyncio.create_task(work.lead())
        await until(lambda: any(is_placeholder(pod) for pod in state.pods.values()))
        leading.cancel()
        await asyncio.gather(leading, return_exceptions=True)
        assert not state.pods


async def test_a_leader_that_cannot_read_kueue_places_others_but_nobody_where_room_is_promised(
    world: World, queue: Queue, start: Start
) -> None:
    async with start("first", **ON):
        queue.add("train", pod_set(2))
        _reserve(queue, "train")
        await until(lambda: queue.says("train", "Ready"))
        promised = _promised(world)
    unwell = Fault(Answer(500, "InternalError", "no webhook"), method="GET", path="/workloads", times=10**6)
    world.api.faults.append(unwell)
    world.add_job("other", 4, gpus=4)
    world.add_job("large", 3, gpus=8)
    async with start("second", kueue_within_s=0.2, **ON):
        await until(lambda: world.is_bound("other", 4))
        await until(lambda: any("2 promised to Workloads of Kueue" in note for note in world.notes()))
        assert not set(world.where("other").values()) & set(promised)
        await until(lambda: len(world.plans()) == 1)
        assert _promised(world) == promised
        queue.admit("train")
        world.api.faults.remove(unwell)
        world.add_job("train", 2, gpus=8)
        await until(lambda: world.is_bound("train", 2) and not world.plans())
        where = world.where("train")
        assert [where[f"train-{rank}"] for rank in range(2)] == promised
    assert len(world.gated("large")) == 3


@asynccontextmanager
async def _process(world: World, state: SchedulerState, folder: Path) -> AsyncIterator[SchedulerWork]:
    """What a replica watches, without an election."""
    client = await Client.connect(world.api.write_kubeconfig(folder / "kubeconfig"))
    surface = Surface(client, FencedWriter(client, lambda: True), EventRecorder(client, "test", "test"))
    metrics = SchedulerMetrics(CollectorRegistry())
    work = SchedulerWork(surface, state, SchedulerSettings(version="v1", **ON), metrics)
    watching = asyncio.create_task(work.watch())
    try:
        yield work
    finally:
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
        client.close()


async def test_a_place_on_a_node_that_went_is_looked_for_anew(
    world: World, queue: Queue, start: Start
) -> None:
    async with start(**ON):
        queue.add("train", pod_set(2))
        _reserve(queue, "train")
        await until(lambda: queue.says("train", "Ready"))
        lost = _promised(world)[0]
        world.set_node(lost, unschedulable=True)
        await until(lambda: bool(world.plans()) and lost not in _promised(world))
        queue.admit("train")
        world.add_job("train", 2, gpus=8)
        await until(lambda: world.is_bound("train", 2))


async def test_pods_go_to_nodes_of_their_flavor(world: World, queue: Queue, start: Start) -> None:
    flavor = {"metadata": {"name": "far"}, "spec": {"nodeLabels": {"example.com/where": "far"}}}
    labels = {"metadata": {"labels": {"example.com/where": "far"}}}
    async with start(**ON):
        queue.add("train", pod_set(1))
        _reserve(queue, "train", flavor="far")
        await until(lambda: queue.says("train", "Retry"))
        assert "ResourceFlavor" in queue.check("train")["message"]
        queue.evict("train")
        world.state.create(FLAVORS, "", flavor)
        world.state.patch("api/v1/nodes", ("", "n011"), "merge-patch", labels)
        await until(lambda: _is_ready_after(queue))
    assert _promised(world) == ["n011"]


def _is_ready_after(queue: Queue) -> bool:
    """Kueue gives the quota again after each Retry."""
    if queue.says("train", "Retry"):
        queue.evict("train")
    if queue.workload("train")["status"].get("admission") is None:
        _reserve(queue, "train", flavor="far")
    return queue.says("train", "Ready")


async def test_the_levels_are_those_of_kueues_topology_once_it_is_there(world: World, start: Start) -> None:
    for name, rack in (("n0", "r0"), ("n1", "r1"), ("n2", "r1")):
        world.add_node(name, "")
        labels = {"example.com/zone": "z", "example.com/rack": rack}
        world.state.patch("api/v1/nodes", ("", name), "merge-patch", {"metadata": {"labels": labels}})
    levels = [{"nodeLabel": "example.com/zone"}, {"nodeLabel": "example.com/rack"}]
    async with start(admission=AdmissionSettings(kueue=True, topology="racks")):
        world.add_job("train", 2, gpus=8, annotations={REQUIRED_LEVEL: "example.com/rack"})
        await until(lambda: any(seen.path.endswith("/topologies/racks") for seen in world.api.seen))
        topology = {"metadata": {"name": "racks"}, "spec": {"levels": levels}}
        world.state.create(TOPOLOGIES, "", topology)
        await until(lambda: world.is_bound("train", 2))
    assert set(world.where("train").values()) == {"n1", "n2"}


async def test_what_is_not_planned_before_is_let_run(world: World, queue: Queue, start: Start) -> None:
    async with start(**ON):
        queue.add("plain", pod_set(1, gate=""))
        _reserve(queue, "plain")
        await until(lambda: queue.says("plain", "Ready"))
    assert "not every pod of it has a gate" in queue.check("plain")["message"]
    assert not world.plans()


_WRONG = {"containers": [{"name": "c", "resources": {"requests": {"cpu": "9" * 5000 + "many"}}}]}
HOSTILE: dict[str, Json] = {
    "many": pod_set(2**31 - 1),
    "negative": pod_set(-1),
    "quantity": pod_set(1) | {"template": {"spec": _WRONG}},
    "shape": pod_set(1) | {"template": {"spec": {"containers": "none"}}},
    "priority": pod_set(1, priority=10**30),
}


async def test_hostile_pod_sets_harm_no_other_workload(world: World, queue: Queue, start: Start) -> None:
    async with start(**ON):
        for name, sets in HOSTILE.items():
            queue.add(name, sets)
            _reserve(queue, name)
        queue.add("sets", *(pod_set(1, name=f"s{number}") for number in range(100)))
        _reserve(queue, "sets")
        queue.add("good", pod_set(3))
        _reserve(queue, "good")
        await until(lambda: queue.says("good", "Ready"))
        for name in (*(set(HOSTILE) - {"priority"}), "sets"):
            await until(partial(queue.says, name, "Retry"))
            assert len(queue.check(name)["message"]) <= 1024
        assert queue.check("good")["message"].startswith("there is a place for 3 pods")
