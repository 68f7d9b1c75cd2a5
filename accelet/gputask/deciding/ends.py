"""How an attempt ended, and what follows: another one, or the end of the task."""

from dataclasses import dataclass, replace
from typing import Final, Literal

from accelet.gputask.deciding.starting import say_end, say_refusal
from accelet.gputask.deciding.view import TaskRecord, TaskView
from accelet.gputask.objects.jobs import JobCondition, TaskJob
from accelet.gputask.objects.pods import TaskPod
from accelet.gputask.objects.ranks import read_ranks, write_ranks

MOST_ATTEMPTS: Final = 999
"""Job names have room for as many, and nothing goes on for ever."""

MOST_REFUSALS: Final = 5
"""So many attempts in a row that were soon over, and one for each retry, are forgiven for a kubelet's no."""

_PASSING: Final = (
    "UnexpectedAdmissionError",
    "TopologyAffinityError",
    "NodeAffinity",
    "NodePorts",
    "TaintToleration",
    "Evicted",
    "NodeShutdown",
)
"""What the node has, is, or does at the moment; the other reasons of a kubelet are the pod's own for good."""

_PASSING_BEGINS: Final = ("OutOf", "Terminated")

MOST_TEXT: Final = 500
"""Letters of what an end comes from."""


@dataclass(frozen=True, slots=True)
class AttemptEnd:
    """How an attempt ended. `disrupted` costs no retry where disruptions are forgiven.

    `outdated`: the task was edited so that its Job cannot follow; that is no incident. `counted`: its
    incidents are written down already.
    """

    kind: Literal["completed", "failed", "disrupted", "outdated", "counted", "fatal", "late"]
    text: str = ""


def judge(view: TaskView, job: TaskJob) -> AttemptEnd | None:
    """How the attempt of this Job has ended; None while it has not, or pods of it may still be running."""
    if job.complete is not None:
        lost = lost_ranks(view, job)
        return AttemptEnd("disrupted", _lost_text(lost)) if lost else AttemptEnd("completed")
    if job.failed is None or job.terminating or any(not pod.has_ended for pod in view.own_pods):
        return None
    return _judge_failure(view, job, job.failed)


def _judge_failure(view: TaskView, job: TaskJob, condition: JobCondition) -> AttemptEnd:
    text = condition.message[:MOST_TEXT] or condition.reason
    if condition.reason == "DeadlineExceeded":
        return AttemptEnd("late", text)
    if job.is_fatal:
        return AttemptEnd("fatal", text)
    if job.is_disruption:
        return AttemptEnd("disrupted", text)
    failed = _failed_pods(view)
    if failed and all(pod.refusal for pod in failed):
        return _judge_refusals(view, failed)
    return AttemptEnd("failed", _failed_text(failed) or text)


def _judge_refusals(view: TaskView, refused: list[TaskPod]) -> AttemptEnd:
    """No program failed: that is a disruption as long as it can pass, and has not gone on for too long."""
    lasting = next((pod for pod in refused if not _can_pass(pod.refusal)), None)
    is_forgiven = view.record.quick_ends < view.task.failure.retries + MOST_REFUSALS
    named = lasting or refused[0]
    return AttemptEnd(
        "disrupted" if lasting is None and is_forgiven else "failed",
        say_refusal(named)[:MOST_TEXT],
    )


def _can_pass(refusal: str) -> bool:
    """Whether a kubelet that does not admit a pod for this reason may admit one like it at another time."""
    return refusal in _PASSING or refusal.startswith(_PASSING_BEGINS)


def is_undone(view: TaskView, job: TaskJob) -> str:
    """Why a Job that goes on can come to no good end; empty if it can."""
    if job.is_ending:
        return ""
    lost = lost_ranks(view, job)
    return _lost_text(lost) if lost else ""


def lost_ranks(view: TaskView, job: TaskJob) -> frozenset[int]:
    """Of the ranks on which the end of the task depends, those that count as done and were not seen to be.

    A rank that was evicted, saved its work and ended with exit code 0 counts as done for its Job: it is not
    run again, and its peers wait for it for ever. Its pod goes. The pod of a rank that ended by itself stays
    until somebody deletes it; until then it is seen at the latest by the next leader, and written down.
    """
    if job.failed is not None or job.failing is not None or view.record.is_given_up:
        return frozenset()
    counted = read_ranks(job.completed) - done_ranks(view)
    return counted & {0} if view.task.spec.success == "RankZero" else counted


def done_ranks(view: TaskView) -> frozenset[int]:
    """The ranks of the present Job that ended by themselves."""
    read = view.present_ends
    return read_ranks(view.record.done) | view.done | (read.done if read is not None else frozenset())


def follow(view: TaskView, ending: AttemptEnd, ran_since_s: float) -> TaskRecord:
    """The record after an attempt has ended."""
    task, now_s = view.task, view.now_s
    record = view.record.fold_restarts()
    if ending.kind == "completed":
        return record.end("Completed", "Succeeded", "", now_s)
    if ending.kind == "late":
        return record.end("Failed", "DeadlineExceeded", ending.text, now_s)
    if ending.kind == "outdated":
        # Its author waits for it, and nothing went wrong: there is no pause.
        again = _once_more(view, replace(record, last_end=ending.text), ran_since_s)
        return replace(again, quick_ends=record.quick_ends, retry_s=0.0)
    is_forgiven = ending.kind == "disrupted" and task.failure.forgive_disruptions
    record = replace(
        record,
        last_end=ending.text,
        incidents=record.incidents + (not is_forgiven and ending.kind != "counted"),
        disruptions=record.disruptions + is_forgiven,
    )
    if ending.kind == "fatal":
        return record.end("Failed", "FatalExit", ending.text, now_s)
    # Of ranks that restart one by one the Job has used up the retries itself, by those it was made with.
    restart = view.job.rules.restart if view.job is not None else task.restart
    if not is_forgiven and (restart == "Rank" or record.incidents > task.failure.retries):
        return record.end("Failed", "RetriesUsed", ending.text, now_s)
    return _once_more(view, record, ran_since_s)


def _once_more(view: TaskView, record: TaskRecord, ran_since_s: float) -> TaskRecord:
    """The record of another attempt, unless there were too many."""
    if record.attempt >= MOST_ATTEMPTS:
        text = f"after {MOST_ATTEMPTS} attempts: {record.last_end}"
        return record.end("Failed", "AttemptsUsed", text, view.now_s)
    return _again(view, record, ran_since_s)


def left_s(view: TaskView) -> int | None:
    """How long the task may still run in all; None without a deadline, 0 or less once that is over."""
    deadline = view.task.spec.deadline_seconds
    return None if deadline is None else min(int(view.record.started_s + deadline - view.now_s), deadline)


def _again(view: TaskView, record: TaskRecord, ran_since_s: float) -> TaskRecord:
    times, now_s = view.times, view.now_s
    quick = 0 if now_s - ran_since_s >= times.long_run_s else record.quick_ends + 1
    pause_s = min(times.first_pause_s * 2.0 ** min(max(quick - 1, 0), 16), times.longest_pause_s)
    return replace(
        record,
        attempt=record.attempt + 1,
        attempt_s=now_s,
        quick_ends=quick,
        retry_s=now_s + pause_s,
        job_uid="",
        done="",
        is_given_up=False,
    )


def _lost_text(lost: frozenset[int]) -> str:
    ranks = write_ranks(lost, 60)
    return f"rank {ranks} was told to end and did so with exit code 0, so that its Job takes it for done"


def _failed_pods(view: TaskView) -> list[TaskPod]:
    """Those that failed by themselves, as far as they are still there, in order of their ranks."""
    failed = [
        (pod.rank, pod)
        for pod in view.own_pods
        if pod.phase == "Failed" and pod.rank is not None and not (pod.is_deleted or pod.is_disrupted)
    ]
    return [pod for _, pod in sorted(failed, key=lambda one: one[0])]


def _failed_text(failed: list[TaskPod]) -> str:
    """Which ranks failed, by the lowest whose program ran."""
    pod = next((pod for pod in failed if not pod.refusal), None)
    return "" if pod is None else say_end(pod)[:MOST_TEXT]
