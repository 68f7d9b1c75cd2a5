"""What is said of pods that were told to end and do not: those of lost nodes, most often."""

import random
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelet.gputask.deciding.decide import decide
from accelet.gputask.deciding.reasons import read_view
from accelet.gputask.deciding.status import record_of, status_of
from accelet.gputask.deciding.view import OVERDUE_S, TaskView
from accelet.gputask.objects.jobs import JobCondition
from accelet.gputask.objects.pods import TaskPod, parse_pod
from accelet.kinds.gputask import MOST_WHY
from tests.unit.gputask.world import TaskWorld, make_task

ADVICE = "if its node is lost, delete the Node or give it the taint node.kubernetes.io/out-of-service"


def _running(**spec: Any) -> TaskView:
    world = TaskWorld(random.Random(1), make_task(spec={"replicas": 2, **spec}), faulty=0.0)
    while world.task.status.phase != "Running":
        world.act(world.think())
        world.run_jobs()
        for pod in world.pods:
            pod.phase = "Running"
    return world.view()


def _told_to_end(view: TaskView, *ranks: int, ago_s: float) -> TaskView:
    pods = [
        replace(pod, is_deleted=True, ends_by_s=view.now_s - ago_s) if pod.rank in ranks else pod
        for pod in view.pods
    ]
    return replace(view, pods=tuple(pods))


def _why(view: TaskView) -> str:
    return status_of(view, decide(view).record).why


def _failing(view: TaskView) -> TaskView:
    failing = JobCondition("BackoffLimitExceeded", "Job has reached the specified backoff limit")
    return replace(view, jobs=tuple(replace(job, failing=failing) for job in view.jobs))


def _suspended(view: TaskView) -> TaskView:
    spec = make_task(spec={"replicas": 2, "suspend": True}).spec
    jobs = tuple(replace(job, is_suspended=True) for job in view.jobs)
    return replace(view, task=replace(view.task, spec=spec), jobs=jobs)


def _between(view: TaskView) -> TaskView:
    """The Job is gone, and attempt 2 waits for the pods that it has left."""
    record = replace(view.record, attempt=2, job_uid="", last_end="its Job was deleted")
    return replace(view, jobs=(), record=record)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda view: view, "1 of 2 ranks are ready"),
        (_failing, "Job has reached the specified backoff limit"),
        (_suspended, "spec.suspend is true"),
        (_between, "attempt 2 follows: its Job was deleted"),
    ],
    ids=["running", "restarting", "suspended", "between attempts"],
)
def test_a_pod_that_does_not_end_is_named_with_its_node(change: Any, said: str) -> None:
    view = change(_told_to_end(_running(), 1, ago_s=OVERDUE_S))
    view = replace(view, pods=tuple(replace(pod, is_ready=pod.rank == 0) for pod in view.pods))
    pod = next(pod for pod in view.pods if pod.rank == 1)
    since = datetime.fromtimestamp(int(pod.ends_by_s), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")

    assert (
        _why(view)
        == f"{said}; pod {pod.name} on node a-node should have ended at {since} and has not: {ADVICE}"
    )


def test_a_pod_within_its_time_is_not_named_and_is_looked_at_when_that_is_over() -> None:
    view = _failing(_told_to_end(_running(), 1, ago_s=-20.0))
    step = decide(view)

    assert _why(view) == "Job has reached the specified backoff limit"
    assert step.again_s is not None
    assert step.again_s <= 20.0 + OVERDUE_S


def test_a_running_task_is_looked_at_again_when_a_pod_is_overdue() -> None:
    step = decide(_told_to_end(_running(), 1, ago_s=-20.0))

    assert (step.action, step.again_s) == (None, 20.0 + OVERDUE_S)


def test_of_many_pods_the_lowest_rank_is_named_and_the_others_are_counted() -> None:
    view = _failing(_told_to_end(_running(replicas=6), 5, 3, 4, ago_s=OVERDUE_S + 1))
    third = next(pod.name for pod in view.pods if pod.rank == 3)

    assert f"pod {third} on node a-node" in _why(view)
    assert "and has not, nor have 2 more pods: " in _why(view)


def test_the_time_of_a_deletion_is_read_as_the_one_by_which_the_pod_ends() -> None:
    metadata = {"name": "x", "deletionTimestamp": "2030-01-01T00:00:30Z"}

    assert parse_pod({"metadata": metadata, "spec": {}}).ends_by_s == 1893456030.0
    assert parse_pod({"metadata": {"name": "x"}, "spec": {}}).ends_by_s == 0.0


@given(st.text(max_size=2000), st.integers(0, 4000), st.floats(0, 1e6))
def test_a_status_has_room_for_it_whatever_is_said_before(said: str, more: int, ago_s: float) -> None:
    view = _RUNNING
    pods = tuple(
        TaskPod("ml", "p" * 253, f"uid-{rank}", "task-uid", "job-1", rank, node="n" * 253, is_deleted=True)
        for rank in range(2 + more % 8)
    )
    late = tuple(replace(pod, ends_by_s=view.now_s - OVERDUE_S - ago_s) for pod in pods)
    failing = JobCondition("BackoffLimitExceeded", said)
    jobs = tuple(replace(job, failing=failing) for job in view.jobs)
    status = status_of(replace(view, pods=late, jobs=jobs), view.record)

    assert len(status.why) <= MOST_WHY
    assert ADVICE in status.why
    assert all(len(one.message) <= MOST_WHY for one in status.conditions)


_RUNNING = _running()


@pytest.mark.parametrize("outcome", ["Completed", "Failed"])
def test_a_task_that_has_ended_is_placed_nowhere(outcome: Any) -> None:
    view = _RUNNING
    held = {one.type: one.status for one in view.task.status.conditions}
    assert (held["Placed"], held["Running"]) == ("True", "True")
    record = view.record.end(outcome, "Why", "because", view.now_s)
    after = {one.type: one.status for one in status_of(view, record).conditions}

    assert after == {
        "Accepted": "True",
        "Admitted": "False",
        "Placed": "False",
        "Running": "False",
        outcome: "True",
    }


@pytest.mark.parametrize("change", [_failing, _between], ids=["restarting", "between attempts"])
def test_a_task_that_begins_anew_is_not_placed(change: Any) -> None:
    view = change(_RUNNING)
    after = {one.type: one.status for one in status_of(view, view.record).conditions}

    assert (after["Placed"], after["Running"]) == ("False", "False")


@given(
    st.sampled_from([lambda view: view, _failing, _suspended, _between]),
    st.booleans(),
    st.sampled_from(["", "Completed", "Failed"]),
)
def test_no_condition_is_left_as_it_was_before(change: Any, begins: bool, outcome: Any) -> None:
    view = change(_RUNNING)
    record = view.record.end(outcome, "Why", "", view.now_s) if outcome else view.record
    record = replace(record, attempt=record.attempt + begins)
    told = {word.type for word in read_view(view, record).words}

    assert {"Admitted", "Placed", "Running"} <= told
    assert record_of(status_of(view, record)).outcome == outcome
