"""Gangs that are evicted for one of a higher priority, against an API server."""

import json
import time
from functools import partial
from typing import Any

from accelet.fakeapi import Answer, Fault
from accelet.scheduler.gangs.grouping import GangKey
from accelet.scheduler.record import Evicted, Placement, Record
from accelet.scheduler.settings import PreemptionSettings
from tests.integration.kube.waiting import eventually
from tests.integration.scheduler.conftest import Start
from tests.integration.scheduler.test_crashes import Severed
from tests.integration.scheduler.world import PLANS, PODS, World
from tests.integration.terms import QUICK

BUDGETS = "apis/policy/v1/poddisruptionbudgets"
until = partial(eventually, within_s=60.0)
ON: dict[str, Any] = {"preemption": PreemptionSettings(gangs=True)}


def _evictions(world: World) -> list[str]:
    return [seen.path.split("/")[-2] for seen in world.api.seen if seen.path.endswith("/eviction")]


def _uids(world: World, job: str) -> set[str]:
    return {pod["metadata"]["uid"] for pod in world.pods(job)}


def _is_told(world: World, pod: str) -> bool:
    events = world.state.list("apis/events.k8s.io/v1/events", {}, None)["items"]
    return any(event["regarding"]["name"] == pod for event in events)


def _let_nobody_of(world: World, job: str, *, allowed: int = 0) -> None:
    body = {
        "metadata": {"name": f"keep-{job}"},
        "spec": {"selector": {"matchLabels": {"job-name": job}}},
        "status": {"disruptionsAllowed": allowed},
    }
    world.state.create(BUDGETS, "ml", body)


async def _two_run(world: World, *, ending_s: int = 30) -> None:
    """`low` on two nodes, `lower` on one; there is no more room."""
    world.add_nodes(1, 1, 3)
    ending = {"terminationGracePeriodSeconds": ending_s}
    world.add_job("low", 2, gpus=8, spec={"priority": 5, **ending})
    await until(lambda: world.is_bound("low", 2))
    world.add_job("lower", 1, gpus=8, spec={"priority": 1, **ending})
    await until(lambda: world.is_bound("lower", 1) and not world.plans())


async def test_nobody_is_evicted_unless_that_is_switched_on(world: World, start: Start) -> None:
    async with start():
        await _two_run(world)
        world.add_job("high", 1, gpus=8, spec={"priority": 9})
        await until(lambda: any(note.startswith("waiting: ") for note in world.notes()))
        world.add_node("n9", "b9/s9/h9")
        await until(lambda: world.is_bound("high", 1))
    assert _evictions(world) == []
    assert world.is_bound("low", 2)


async def test_the_lowest_gang_is_evicted_whole_and_its_room_kept_for_the_one_of_higher_priority(
    world: World, start: Start
) -> None:
    async with start(**ON):
        await _two_run(world)
        (before,) = world.where("lower").values()
        world.add_job("high", 1, gpus=8, spec={"priority": 9})
        await until(lambda: world.is_bound("high", 1) and not world.plans())
        assert set(world.where("high").values()) == {before}
        assert _evictions(world) == ["lower-0"]
        assert world.is_bound("low", 2)
        world.add_job("higher", 2, gpus=8, spec={"priority": 99})
        await until(lambda: world.is_bound("higher", 2) and not world.plans())
        await until(lambda: "1 gang of lower priority with 2 pods must end for it" in world.notes())
        await until(lambda: "evicted for a gang of a higher priority" in world.notes())
    assert sorted(_evictions(world)[1:]) == ["low-0", "low-1"]
    assert world.is_bound("high", 1)
    assert sorted(world.gated()) == ["low-0", "low-1", "lower-0"]


async def test_who_never_preempts_waits_and_whom_kueue_admits_stays(world: World, start: Start) -> None:
    async with start(**ON):
        world.add_nodes(1, 1, 2)
        world.add_job("queued", 1, gpus=8)
        world.state.patch(
            "apis/batch/v1/jobs",
            ("ml", "queued"),
            "merge-patch",
            {"metadata": {"labels": {"kueue.x-k8s.io/queue-name": "q"}}},
        )
        await until(lambda: world.is_bound("queued", 1))
        world.add_job("low", 1, gpus=8)
        await until(lambda: world.is_bound("low", 1) and not world.plans())
        world.add_job("never", 1, gpus=8, spec={"priority": 9, "preemptionPolicy": "Never"})
        await until(lambda: any(note.startswith("waiting: ") for note in world.notes()))
        world.add_job("high", 1, gpus=8, spec={"priority": 7})
        await until(lambda: world.is_bound("high", 1) and not world.plans())
        world.add_job("higher", 2, gpus=8, spec={"priority": 8})
        await until(lambda: len(world.gated("higher")) == 2)
        world.add_job("highest", 1, gpus=8, spec={"priority": 10})
        await until(lambda: world.is_bound("highest", 1) and not world.plans())
    assert _evictions(world) == ["low-0", "high-0"]
    assert world.gated("never") == ["never-0"]


async def test_disruption_budgets_are_asked_before_anybody_is_evicted(world: World, start: Start) -> None:
    async with start(**ON):
        await _two_run(world)
        _let_nobody_of(world, "lower")
        world.add_job("high", 1, gpus=8, spec={"priority": 9})
        await until(lambda: world.is_bound("high", 1) and not world.plans())
    assert sorted(_evictions(world)) == ["low-0", "low-1"]
    assert world.is_bound("lower", 1)


async def test_an_attempt_whose_victims_stay_is_given_up_and_nothing_is_kept(
    world: World, start: Start
) -> None:
    refusal = Answer(429, "TooManyRequests", "Cannot evict pod as it would violate its disruption budget")
    world.api.faults.append(Fault(refusal, method="POST", path="/eviction", times=10**6))
    async with start(preemption=PreemptionSettings(gangs=True, within_s=1.0)):
        await _two_run(world, ending_s=1)
        world.add_job("high", 1, gpus=8, spec={"priority": 9})
        await until(lambda: any("have not ended in time" in note for note in world.notes()))
        await until(lambda: not world.plans())
    assert world.is_bound("low", 2)
    assert world.gated("high") == ["high-0"]


async def test_where_evictions_are_not_allowed_that_is_told(world: World, start: Start) -> None:
    refusal = Answer(403, "Forbidden", "no right to evict")
    world.api.faults.append(Fault(refusal, method="POST", path="/eviction", times=10**6))
    async with start(**ON):
        await _two_run(world)
        world.add_job("high", 1, gpus=8, spec={"priority": 9})
        await until(lambda: any("cannot be evicted" in note for note in world.notes()))
        await until(lambda: not world.plans())
    assert world.is_bound("lower", 1)


async def test_a_leader_that_dies_between_eviction_and_binding_is_carried_on(
    world: World, start: Start
) -> None:
    world.api.token = "first"
    async with start("first", terms=QUICK, **ON):
        await _two_run(world)
        world.api.seen = Severed(2, lambda: setattr(world.api, "token", "second"), "/eviction")
        world.add_job("high", 2, gpus=8, spec={"priority": 9})
        await until(lambda: world.api.token == "second")
        await until(lambda: bool(world.plans()))
    assert len(world.gated("high")) == 2
    async with start("second", **ON):
        await until(lambda: world.is_bound("high", 2) and not world.plans())
    assert sorted(set(_evictions(world))) == ["low-0", "low-1"]
    assert world.is_bound("lower", 1)


async def test_a_plan_of_somebody_else_evicts_nobody_that_may_not_be_evicted(
    world: World, start: Start
) -> None:
    async with start(**ON):
        await _two_run(world)
        world.is_binding = False
        world.add_job("mean", 1, gpus=8, spec={"priority": 0})
        # Of a pod that it has not seen yet, the scheduler takes a plan for over.
        await until(lambda: _is_told(world, "mean-0"))
        (uid,) = _uids(world, "mean")
        (victim,) = (pod for pod in world.pods("lower"))
        record = Record(
            GangKey("ml", "mean", "Job"),
            (Placement("mean-0", uid, victim["spec"]["nodeName"]),),
            0,
            0,
            evicted=(Evicted("ml", "lower-0", victim["metadata"]["uid"]),),
            until_s=time.time() + 600,
        )
        world.state.create(PLANS, "ml", json.loads(json.dumps(record.to_body())))
        await until(lambda: any("may not be evicted any more" in note for note in world.notes()))
        await until(lambda: not world.plans())
    assert _evictions(world) == []
    assert world.state.collection(PODS).objects["ml", "lower-0"]["spec"]["nodeName"]


async def test_a_gang_whose_room_was_made_and_taken_by_others_has_nobody_evicted_again_soon(
    world: World, start: Start
) -> None:
    async with start():
        await _two_run(world)
        world.add_job("high", 1, gpus=8, spec={"priority": 9})
        await until(lambda: _is_told(world, "high-0"))
    (uid,) = _uids(world, "high")
    record = Record(
        GangKey("ml", "high", "Job"),
        (Placement("high-0", uid, *world.where("lower").values()),),
        0,
        0,
        evicted=(Evicted("ml", "gone-0", "uid-gone"),),
        until_s=time.time() + 600,
    )
    world.state.create(PLANS, "ml", json.loads(json.dumps(record.to_body())))
    async with start(**ON):
        await until(lambda: not world.plans())
        world.add_job("next", 2, gpus=8, spec={"priority": 8})
        await until(lambda: world.is_bound("next", 2) and not world.plans())
    assert sorted(_evictions(world)) == ["low-0", "low-1"]
    assert world.is_bound("lower", 1)
    assert world.gated("high") == ["high-0"]
