"""A task's status: the record of it, and what people are told."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from accelet.gputask.deciding.reasons import Reading, read_view
from accelet.gputask.deciding.view import Outcome, TaskRecord, TaskView
from accelet.gputask.objects.names import TASK_UID
from accelet.gputask.objects.pods import TaskPod
from accelet.gputask.objects.ranks import write_ranks
from accelet.kinds.gputask import (
    MOST_NODES,
    MOST_WHY,
    GPUTaskStatus,
    TaskConditionShape,
    TaskNode,
)

_ENDED: Final[tuple[Outcome, ...]] = ("Completed", "Failed")


def record_of(status: GPUTaskStatus) -> TaskRecord:
    """What is written down."""
    end = next((one for one in status.conditions if one.type in _ENDED and one.status == "True"), None)
    outcome: Outcome = ""
    if end is not None:
        outcome = "Completed" if end.type == "Completed" else "Failed"
    return TaskRecord(
        attempt=status.attempt,
        incidents=status.incidents,
        disruptions=status.disruptions,
        quick_ends=status.quick_ends,
        in_place=status.in_place,
        last_end=status.last_end,
        job_uid=status.job_uid,
        done=status.done,
        is_given_up=status.is_given_up,
        started_s=_seconds(status.start_time),
        attempt_s=_seconds(status.attempt_time),
        retry_s=_seconds(status.retry_at),
        outcome=outcome,
        reason=end.reason if end is not None else "",
        message=end.message if end is not None else "",
        ended_s=_seconds(status.completion_time),
    )


def status_of(view: TaskView, record: TaskRecord) -> GPUTaskStatus:
    """The status that has `record` written down and tells what is seen. Equal views have equal statuses."""
    task, job = view.task, view.job
    reading = read_view(view, record)
    # A Job is complete once its pods have ended; news of that may come later, and are no write of their own.
    is_complete = job is not None and job.complete is not None
    live = [pod for pod in view.own_pods if not (pod.has_ended or is_complete)]
    before = task.status
    return GPUTaskStatus(
        observed_generation=task.generation,
        phase=reading.phase,
        why=reading.why[:MOST_WHY],
        attempt=record.attempt,
        incidents=record.incidents,
        disruptions=record.disruptions,
        retries_left=max(0, task.failure.retries - record.incidents - record.in_place),
        quick_ends=record.quick_ends,
        in_place=record.in_place,
        last_end=record.last_end[:MOST_WHY],
        replicas=len(live),
        ready_replicas=sum(pod.is_ready for pod in live),
        succeeded=job.succeeded if job is not None else before.succeeded,
        selector=f"{TASK_UID}={task.uid}",
        job=job.name if job is not None else before.job,
        job_uid=record.job_uid,
        done=record.done,
        is_given_up=record.is_given_up,
        where=_where(live),
        nodes=_nodes(live),
        start_time=_time(record.started_s),
        attempt_time=_time(record.attempt_s),
        retry_at=_time(record.retry_s),
        completion_time=_time(record.ended_s),
        conditions=_conditions(view, reading),
    )


def is_urgent(before: GPUTaskStatus, after: GPUTaskStatus) -> bool:
    """Whether more has changed than figures and reasons that people like to see: those may wait a little."""

    def essence(status: GPUTaskStatus) -> object:
        truths = [(one.type, one.status) for one in status.conditions]
        record = replace(record_of(status), done="")
        return record, status.phase, status.observed_generation, status.job, truths

    return essence(before) != essence(after)


def to_json(status: GPUTaskStatus) -> dict[str, Any]:
    rendered: dict[str, Any] = msgspec.to_builtins(status)
    return rendered


def _conditions(view: TaskView, reading: Reading) -> tuple[TaskConditionShape, ...]:
    """Those of the reading; the time of change stays while the truth does, and other types stay."""
    held = {one.type: one for one in view.task.status.conditions}
    now = _time(view.now_s)
    assert now is not None
    for word in reading.words:
        old = held.get(word.type)
        held[word.type] = TaskConditionShape(
            type=word.type,
            status=word.status,
            reason=word.reason,
            message=word.message[:MOST_WHY],
            observed_generation=view.task.generation,
            last_transition_time=old.last_transition_time
            if old is not None and old.status == word.status
            else now,
        )
    return tuple(held.values())


def _where(live: list[TaskPod]) -> str:
    names = sorted({pod.node for pod in live if pod.node})
    return "" if not names else names[0] if len(names) == 1 else f"{len(names)} nodes"


def _nodes(live: list[TaskPod]) -> tuple[TaskNode, ...]:
    ranks: dict[str, list[int]] = {}
    for pod in live:
        if pod.node and pod.rank is not None:
            ranks.setdefault(pod.node, []).append(pod.rank)
    shown = sorted(ranks.items())[:MOST_NODES]
    return tuple(TaskNode(node=node, ranks=write_ranks(some)) for node, some in shown)


def _seconds(time: datetime | None) -> float:
    return 0.0 if time is None else time.timestamp()


def _time(seconds: float) -> datetime | None:
    return datetime.fromtimestamp(round(seconds, 6), UTC) if seconds else None
