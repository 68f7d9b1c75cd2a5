"""`decide` in a world that evicts, suspends, crashes and forgets."""

import random
from copy import deepcopy
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelet.gputask.deciding.decide import decide
from accelet.gputask.deciding.ends import MOST_REFUSALS
from accelet.gputask.deciding.status import record_of, status_of
from accelet.gputask.deciding.view import AskWhy, CreateJob, DeleteJob, JobReport, Obstacle, ReadEnds
from accelet.gputask.objects.jobs import JobCondition, TaskJob
from accelet.kinds.waiting import WaitingReason
from tests.unit.gputask.world import TaskThought, TaskWorld, failure, make_task

_SPECS = st.fixed_dictionaries(
    {
        "replicas": st.integers(1, 3),
        "on_failure": st.builds(
            failure,
            restart=st.sampled_from([None, "All", "Rank", "InPlace"]),
            retries=st.integers(0, 3),
            fatal_exit_codes=st.sampled_from([(), (42,)]),
            forgive_disruptions=st.booleans(),
        ),
    }
)


def _settle(world: TaskWorld, most: int = 3000) -> None:
    """Lets everybody work until nothing is left to do."""
    world.faulty = 0.0
    world.task = replace(world.task, spec=_with(world, suspend=False))
    world.version += 1
    for _ in range(most):
        thought = world.think()
        if record_of(world.task.status).outcome and thought.step.action is None:
            return
        world.act(thought)
        world.run_jobs()
        world.run_pod()
        world.now_s += max(1.0, min(thought.step.again_s or 0.0, 300.0))
    raise AssertionError(f"does not end: {world.task.status}, {world.jobs}, {world.pods}")


def _with(world: TaskWorld, **changes: Any) -> Any:
    return msgspec.structs.replace(world.task.spec, **changes)


def _disturb(world: TaskWorld, chance: random.Random, steps: int) -> None:
    stale: list[TaskThought] = []
    for _ in range(steps):
        match chance.randrange(12):
            case 0 | 1 | 2:
                world.act(world.think())
            case 3:
                stale.append(world.think())  # a leader that is slow, or dies now
            case 4 if stale:
                world.act(stale.pop(chance.randrange(len(stale))))
            case 5 | 6:
                world.run_jobs()
            case 7:
                world.run_pod()
            case 8:
                world.evict()
            case 9:
                world.forget()
            case _ if chance.random() < 0.3:
                _meddle(world, chance)
        world.now_s += chance.choice((0.0, 1.0, 30.0))


def _meddle(world: TaskWorld, chance: random.Random) -> None:
    """Somebody suspends or resumes the task, or deletes the pod of a rank that has ended."""
    if chance.random() < 0.5:
        world.collect()
        return
    flipped = not world.task.spec.suspend
    generation = world.task.generation + 1
    world.task = replace(world.task, spec=_with(world, suspend=flipped), generation=generation)
    world.version += 1


@given(_SPECS, st.randoms(use_true_random=False), st.integers(0, 120))
def test_every_task_ends_as_its_program_says_through_evictions_and_crashes(
    spec: dict[str, Any], chance: random.Random, steps: int
) -> None:
    world = TaskWorld(chance, make_task(spec=spec))
    world.refusing = 0.1
    _disturb(world, chance, steps)
    world.refusing = 0.0
    _settle(world)

    record = record_of(world.task.status)
    if record.outcome == "Completed":
        (last,) = (job for job in world.jobs.values() if job.attempt == record.attempt)
        assert last.complete
        assert not world.lost.get(last.uid), "a rank that was told to end counts as done"
    else:
        assert record.reason in ("RetriesUsed", "FatalExit")
    # Kubelets may start a rank again several times before the next look.
    if world.task.restart != "InPlace":
        assert record.incidents <= world.task.failure.retries + 1
    assert len(world.jobs) <= 2


@given(_SPECS, st.randoms(use_true_random=False), st.integers(0, 60))
def test_two_looks_at_an_unchanged_world_write_once(
    spec: dict[str, Any], chance: random.Random, steps: int
) -> None:
    world = TaskWorld(chance, make_task(spec=spec))
    _disturb(world, chance, steps)
    for _ in range(10):
        before = world.version, world.ends, deepcopy(world.jobs), deepcopy(world.pods)
        world.act(world.think())
        if (world.version, world.ends, world.jobs, world.pods) == before:
            break
    thought = world.think()
    after = status_of(thought.view, thought.step.record)
    assert after == world.task.status or thought.step.action is not None


def _run(world: TaskWorld, until: Any, *, code: int = 143) -> None:
    """Until it has come to that; pods that are told to end do so with `code`."""
    for _ in range(200):
        if until():
            return
        world.act(world.think())
        world.run_jobs()
        world.end_told(code)
        world.now_s += 1.0
    raise AssertionError(f"does not come to it: {world.task.status}")


def _start(**spec: Any) -> TaskWorld:
    world = TaskWorld(random.Random(1), make_task(spec=spec), faulty=0.0)
    _run(world, lambda: len(world.pods) == world.task.spec.replicas)
    for pod in world.pods:
        world.start(pod)
    world.act(world.think())
    return world


def _end(world: TaskWorld, rank: int, code: int, attempt: int = 1) -> None:
    (pod,) = (
        pod
        for pod in world.pods
        if pod.rank == rank and pod.phase == "Running" and world.jobs[pod.job].attempt == attempt
    )
    pod.done = True
    world.end(pod, code)


def test_one_failed_rank_is_one_incident_and_all_begin_anew() -> None:
    world = _start(replicas=3, on_failure=failure(retries=1))
    _end(world, 1, 7)
    _run(world, lambda: world.task.status.attempt == 2)
    status = world.task.status

    assert (status.incidents, status.disruptions, status.retries_left) == (1, 0, 0)
    assert status.last_end == "rank 1 ended with exit code 7"
    assert status.phase == "Restarting"


def test_ranks_that_fail_all_at_once_are_one_incident() -> None:
    world = _start(replicas=3, on_failure=failure(retries=1))
    for rank in range(3):
        _end(world, rank, 7)
    _run(world, lambda: world.task.status.attempt == 2 and len(world.pods) >= 3)

    assert (world.task.status.incidents, world.task.status.disruptions) == (1, 0)
    assert world.task.status.last_end == "rank 0 ended with exit code 7"


def test_a_rank_whose_pod_somebody_deletes_counts_as_in_any_job() -> None:
    world = _start(replicas=2, on_failure=failure(retries=1))
    world.pods[1].deleted = True
    _run(world, lambda: world.task.status.attempt == 2)

    assert (world.task.status.incidents, world.task.status.disruptions) == (1, 0)


def test_a_rank_zero_that_is_done_ends_the_task_once_its_peers_have_ended() -> None:
    world = _start(replicas=2, success="RankZero")
    _end(world, 0, 0)
    (job,) = world.jobs.values()
    for _ in range(5):
        world.act(world.think())
        world._count(job)
    view = world.view()
    succeeding = replace(view.jobs[0], succeeding=JobCondition("SuccessPolicy", "matched the rule"))
    ending = replace(view, jobs=(succeeding,))
    step = decide(ending)
    assert (step.action, step.record.outcome) == (None, "")
    assert status_of(ending, step.record).phase == "Running"
    complete = replace(ending, jobs=(replace(succeeding, complete=JobCondition("SuccessPolicy", "")),))
    assert decide(complete).record.outcome == "Completed"


def test_retries_end_and_say_what_was_wrong() -> None:
    world = _start(replicas=2)
    _end(world, 0, 3)
    _run(world, lambda: world.task.status.phase == "Failed")

    failed = next(one for one in world.task.status.conditions if one.type == "Failed")
    assert (failed.reason, failed.message) == ("RetriesUsed", "rank 0 ended with exit code 3")


def test_a_rank_that_no_kubelet_admits_is_a_disruption() -> None:
    world = _start(replicas=2)
    world.pods[1].phase = "Pending"
    world.refuse(world.pods[1])
    _run(world, lambda: world.task.status.attempt == 2)

    status = world.task.status
    assert (status.incidents, status.disruptions) == (0, 1)
    assert status.last_end == "a kubelet did not admit rank 1: UnexpectedAdmissionError"


@pytest.mark.parametrize(
    ("reason", "passes"),
    [
        ("OutOfcpu", True),
        ("OutOffalldio.com/gpu", True),
        ("NodeAffinity", True),
        ("NodeShutdown", True),
        ("Terminated", True),
        ("Evicted", True),
        ("SysctlForbidden", False),
        ("PodOSNotSupported", False),
        ("AnyWordOfTomorrow", False),
    ],
)
def test_only_a_refusal_that_can_pass_costs_no_retry(reason: str, passes: bool) -> None:
    world = _start(replicas=2, on_failure=failure(retries=1))
    world.pods[1].phase = "Pending"
    world.refuse(world.pods[1], reason)
    _run(world, lambda: world.task.status.attempt == 2)

    status = world.task.status
    assert (status.incidents, status.disruptions) == ((0, 1) if passes else (1, 0))
    assert status.last_end == f"a kubelet did not admit rank 1: {reason}"


@pytest.mark.parametrize("retries", [0, 2])
def test_refusals_in_a_row_come_to_an_end(retries: int) -> None:
    world = TaskWorld(
        random.Random(1), make_task(spec={"replicas": 2, "on_failure": failure(retries=retries)})
    )
    for _ in range(100_000):
        if world.task.status.phase == "Failed":
            break
        world.act(world.think())
        world.run_jobs()
        for pod in [pod for pod in world.pods if pod.phase == "Pending"]:
            world.refuse(pod)
        world.now_s += 1.0

    status = world.task.status
    failed = next(one for one in status.conditions if one.type == "Failed")
    assert (failed.reason, failed.message) == (
        "RetriesUsed",
        "a kubelet did not admit rank 0: UnexpectedAdmissionError",
    )
    assert (status.disruptions, status.incidents) == (retries + MOST_REFUSALS, retries + 1)


def test_a_rank_that_failed_beside_one_that_was_not_admitted_is_an_incident() -> None:
    world = _start(replicas=2, on_failure=failure(retries=1))
    world.pods[0].phase = "Pending"
    world.refuse(world.pods[0])
    _end(world, 1, 5)
    _run(world, lambda: world.task.status.attempt == 2)

    assert world.task.status.incidents == 1
    assert world.task.status.last_end == "rank 1 ended with exit code 5"


def test_an_evicted_rank_that_saves_and_ends_with_0_is_not_taken_for_done() -> None:
    world = _start(replicas=1)
    (pod,) = world.pods
    pod.deleted = pod.disrupted = True
    world.end(pod, 0)
    _run(world, lambda: world.task.status.attempt == 2)

    assert world.task.status.disruptions == 1
    assert "was told to end and did so with exit code 0" in world.task.status.last_end
    assert world.task.status.phase != "Completed"


@given(st.booleans(), st.booleans())
def test_a_rank_that_was_told_to_end_while_nobody_watched_is_not_taken_for_done(
    is_evicted: bool, goes_on: bool
) -> None:
    world = _start(replicas=2)
    pod, other = world.pods
    pod.deleted, pod.disrupted = True, is_evicted
    world.end(pod, 0)
    if not goes_on:
        other.done = True
        world.end(other, 0)
    world.run_jobs()
    world.run_jobs()
    world.forget()
    assert pod not in world.pods
    _run(world, lambda: world.task.status.attempt == 2)

    assert (world.task.status.incidents, world.task.status.disruptions) == (0, 1)
    assert "rank 0 was told to end" in world.task.status.last_end


def test_a_rank_that_was_seen_to_end_is_done_though_its_pod_and_the_leader_go() -> None:
    world = _start(replicas=2)
    _end(world, 0, 0)
    _run(world, lambda: world.task.status.done == "0")
    world.pods = [pod for pod in world.pods if pod.rank == 1]
    world.forget()
    _end(world, 1, 0)
    _run(world, lambda: world.task.status.phase == "Completed")

    assert world.made == 1


def test_a_leader_that_comes_late_reads_who_is_done() -> None:
    world = _start(replicas=1)
    _end(world, 0, 0)
    world.run_jobs()
    world.run_jobs()
    world.forget()
    unwatched = replace(world.view(), done=frozenset())
    step = decide(unwatched)
    assert isinstance(step.action, ReadEnds)
    world.perform(step.action)
    known = replace(unwatched, ends=world.ends)

    assert decide(known).record.outcome == "Completed"


def test_suspend_ends_the_pods_and_costs_nothing() -> None:
    world = _start(replicas=2)
    world.task = replace(world.task, spec=_with(world, suspend=True))
    _run(world, lambda: world.task.status.phase == "Suspended" and not world.pods, code=0)
    world.task = replace(world.task, spec=_with(world, suspend=False))
    _run(world, lambda: len(world.pods) == 2)

    assert world.task.status.attempt == 1
    assert not next(iter(world.jobs.values())).completed


def test_ranks_that_know_nothing_of_each_other_are_changed_while_they_run() -> None:
    world = _start(replicas=2, rendezvous="None")
    world.task = replace(world.task, spec=_with(world, replicas=4))
    _run(world, lambda: len(world.pods) == 4)

    assert world.made == 1


def test_a_task_that_has_begun_with_fewer_ranks_runs_and_says_how_many() -> None:
    world = TaskWorld(random.Random(1), make_task(spec={"replicas": 4, "min_replicas": 2}), faulty=0.0)
    _run(world, lambda: len(world.pods) == 4 and world.task.status.phase == "Waiting")
    for pod in world.pods[:2]:
        pod.phase = "Running"
    _run(world, lambda: world.task.status.phase == "Running")
    assert world.task.status.why == "2 of 4 ranks have a node, the others follow when there is room"
    for pod in world.pods[2:]:
        pod.phase = "Running"
    _run(world, lambda: world.task.status.ready_replicas == 4)

    assert (world.task.status.why, world.made) == ("", 1)


def test_a_task_of_which_ranks_are_done_before_its_job_counts_them_still_runs() -> None:
    world = _start(replicas=2)
    _end(world, 0, 0)
    world.act(world.think())

    assert world.task.status.phase == "Running"


def test_a_deadline_that_passed_between_two_attempts_ends_the_task() -> None:
    world = _start(replicas=2, deadline_seconds=60, on_failure=failure(retries=5))
    _end(world, 0, 1)
    world.run_jobs()
    world.now_s += 100
    _run(world, lambda: world.task.status.phase == "Failed")

    assert record_of(world.task.status).reason == "DeadlineExceeded"


def test_a_time_to_live_ends_with_the_task_deleted() -> None:
    world = _start(replicas=1, ttl_seconds=30)
    _end(world, 0, 0)
    _run(world, lambda: world.task.status.phase == "Completed")
    assert not world.is_gone
    world.now_s += 31
    world.act(world.think())

    assert world.is_gone


def test_a_status_that_was_lost_is_made_up_from_the_jobs() -> None:
    world = _start(replicas=2)
    world.task = make_task(spec={"replicas": 2})
    _run(world, lambda: world.task.status.phase == "Running")

    assert world.made == 1


def test_an_obstacle_waits_and_is_told_until_the_task_changes() -> None:
    view = TaskWorld(random.Random(1), make_task()).view()
    begun = replace(view, record=decide(view).record)
    refused = Obstacle("NameTaken", "a Job of this name is not ours", 1, view.now_s + 60)
    held = replace(begun, obstacle=refused)

    assert (decide(held).action, decide(held).again_s) == (None, 60)
    status = status_of(held, held.record)
    assert (status.phase, status.why) == ("Pending", "a Job of this name is not ours")
    assert decide(replace(held, task=replace(held.task, generation=2))).action is not None


@pytest.mark.parametrize("what", ["pause", "obstacle", "report"])
def test_nothing_is_put_off_for_as_long_as_a_clock_was_set_back(what: str) -> None:
    view = TaskWorld(random.Random(1), make_task()).view()
    record = replace(decide(view).record, attempt=2)
    view = replace(view, record=record, has_service=True)
    if what == "pause":
        view = replace(view, record=replace(record, retry_s=view.now_s + 10.0))
    elif what == "obstacle":
        view = replace(view, obstacle=Obstacle("JobRefused", "no", 1, view.now_s + 10.0))
    else:
        job = TaskJob("ml", "train-2", "job", "1", view.task.uid, 2, parallelism=2)
        record = replace(record, job_uid="job")
        report = JobReport("job", view.now_s, 10.0)
        view = replace(view, record=record, jobs=(job,), report=report)
    assert (decide(view).action, decide(view).again_s) == (None, 10.0)
    set_back = decide(replace(view, now_s=view.now_s - 86_400.0))
    assert isinstance(set_back.action, AskWhy if what == "report" else CreateJob)


def test_a_task_in_a_queue_is_suspended_and_resumed_by_the_queue_alone() -> None:
    world = TaskWorld(random.Random(1), make_task(spec={"replicas": 1, "queue": "team"}))
    for _ in range(10):
        world.act(world.think())
    (job,) = world.jobs.values()
    job.suspended = True
    for _ in range(10):
        world.act(world.think())

    assert job.suspended
    assert world.task.status.phase == "Queued"
    assert world.task.status.why == "waits in the queue team"


def test_peers_do_not_wait_for_ever_for_a_rank_that_counts_as_done() -> None:
    world = _start(replicas=3)
    world.pods[1].deleted = world.pods[1].disrupted = True
    world.end(world.pods[1], 0)
    _run(world, lambda: world.task.status.attempt == 2)

    assert (world.task.status.incidents, world.task.status.disruptions) == (0, 1)
    assert len([pod for pod in world.pods if not pod.deleted]) <= 3


def test_a_former_job_that_came_back_is_deleted() -> None:
    world = _start(replicas=2, on_failure=failure(retries=1))
    _end(world, 0, 1)
    _run(world, lambda: world.task.status.attempt == 2 and len(world.jobs) == 2)
    job = next(job for job in world.jobs.values() if job.attempt == 1)
    job.failed = None

    assert decide(world.view()).action == DeleteJob(world.view().jobs[0])


def test_what_the_scheduler_notes_on_a_rank_is_told_and_its_events_are_not_read() -> None:
    world = _start(replicas=2)
    gated = [replace(pod, is_gated=True, node="", phase="Pending") for pod in world.view().pods]
    view = replace(world.view(), pods=tuple(gated), now_s=world.now_s + 60)
    reason = WaitingReason(
        since=datetime(2030, 1, 1, tzinfo=UTC), text="needs 2 nodes, the cluster has 1", cause="NoRoom"
    )
    noted = replace(view, pods=(replace(gated[0], wait=reason), gated[1]))

    assert isinstance(decide(view).action, AskWhy)
    assert decide(noted).action is None
    assert status_of(noted, noted.record).why == "needs 2 nodes, the cluster has 1"
