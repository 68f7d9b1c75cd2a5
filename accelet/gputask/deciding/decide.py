"""The next step of one task."""

from dataclasses import replace
from typing import Final

from accelet.gputask.deciding.edits import follow_edit, why_outdated
from accelet.gputask.deciding.ends import (
    AttemptEnd,
    done_ranks,
    follow,
    is_undone,
    judge,
    left_s,
    lost_ranks,
)
from accelet.gputask.deciding.inplace import follow_restarts
from accelet.gputask.deciding.moving import clear_moves, go_on
from accelet.gputask.deciding.starting import silent_pod
from accelet.gputask.deciding.view import (
    AskWhy,
    CreateJob,
    CreateService,
    DeleteJob,
    DeleteTask,
    ReadEnds,
    TaskRecord,
    TaskStep,
    TaskView,
)
from accelet.gputask.objects.jobs import TaskJob
from accelet.gputask.objects.ranks import read_ranks, write_ranks
from accelet.kinds.gputask import MOST_DONE

_PODS_AGAIN_S: Final = 5.0
_FIRST_ASK_S: Final = 5.0
_LONGEST_ASK_S: Final = 60.0


def decide(view: TaskView) -> TaskStep:
    """What is done next, and why: a function of the view alone."""
    return _by_then(_decide(view), view.next_overdue_s)


def _by_then(step: TaskStep, again_s: float | None) -> TaskStep:
    """The same step, after which it is looked again in so many seconds at the latest."""
    waits_s = [wait_s for wait_s in (step.again_s, again_s) if wait_s is not None]
    return replace(step, again_s=min(waits_s, default=None))


def _decide(view: TaskView) -> TaskStep:
    if view.task.is_deleted:
        return TaskStep(view.record)  # what it owns goes with it
    if (ending := clear_moves(view)) is not None and not _refused_s(view, ending):
        return ending
    step = _rest(view) if view.record.outcome else _pursue(view)
    if step.record != view.record:
        # The first step on the way to it is to write it down; nothing is done that is not written.
        return TaskStep(step.record, None, 0.0)
    wait_s = _refused_s(view, step)
    # Something else may be next before that is tried again.
    return TaskStep(step.record, None, min(wait_s, _PODS_AGAIN_S)) if wait_s else step


def _refused_s(view: TaskView, step: TaskStep) -> float:
    """For how long a step is not tried again."""
    return view.refused_s(step.action) if step.action is not None else 0.0


def is_read_before_told(view: TaskView, step: TaskStep) -> bool:
    """Whether it is to be read first what there is to tell: until then nobody knows if the task has ended.

    So it is of a Job that is complete before its pods are seen to have ended: such news come in any order.
    """
    return isinstance(step.action, ReadEnds) and view.present_obstacle is None


def _rest(view: TaskView) -> TaskStep:
    """The task has ended, which is never taken back."""
    record, ttl_s = view.record, view.task.spec.ttl_seconds
    if ttl_s is None:
        return TaskStep(record)
    wait_s = record.ended_s + ttl_s - view.now_s
    return TaskStep(record, None, wait_s) if wait_s > 0 else TaskStep(record, DeleteTask())


def _pursue(view: TaskView) -> TaskStep:
    record, now_s = view.record, view.now_s
    newest = max((job.attempt for job in view.jobs), default=0)
    if record.attempt == 0 or newest > record.attempt:
        # A Job beyond what is written down: the status was lost, and is made up from what there is.
        started_s = record.started_s or now_s
        return TaskStep(
            replace(record, attempt=max(1, newest), job_uid="", started_s=started_s, attempt_s=now_s)
        )
    if former := [job for job in view.jobs if _is_superfluous(job, record.attempt)]:
        return TaskStep(record, DeleteJob(former[0]))
    job = view.job
    return _make(view) if job is None else _look_after(view, job)


def _is_superfluous(job: TaskJob, attempt: int) -> bool:
    """Whether a former attempt's Job goes: the last one is kept for the logs of its pods, once it is over."""
    return job.attempt < attempt and not job.is_deleted and (job.attempt < attempt - 1 or not job.is_over)


def _make(view: TaskView) -> TaskStep:
    record = view.record
    if record.job_uid:
        ending = _given_up(record) if record.is_given_up else AttemptEnd("disrupted", "its Job was deleted")
        return TaskStep(follow(view, ending, record.attempt_s))
    rest_s = left_s(view)
    if rest_s is not None and rest_s <= 0:
        return TaskStep(follow(view, AttemptEnd("late", "the deadline passed between two attempts"), 0.0))
    if view.live_pods:
        return TaskStep(record, None, _PODS_AGAIN_S)
    wait_s = max(view.left_s(record.retry_s, view.times.longest_pause_s), view.hindered_s)
    if wait_s > 0:
        return TaskStep(record, None, wait_s)
    if view.task.meets and not view.has_service:
        return TaskStep(record, CreateService())
    return TaskStep(record, CreateJob(record.attempt, rest_s))


def _look_after(view: TaskView, job: TaskJob) -> TaskStep:
    record = view.record
    if record.job_uid != job.uid:
        return TaskStep(replace(record, job_uid=job.uid, done=""))
    if job.is_deleted:
        return TaskStep(record)
    if lost_ranks(view, job) and view.present_ends is None:
        return TaskStep(record, ReadEnds(job))
    return _bring_on(view, job)


def _bring_on(view: TaskView, job: TaskJob) -> TaskStep:
    record, ending = view.record, judge(view, job)
    if ending is not None and ending.kind == "completed" and record.is_given_up:
        ending = _given_up(record)
    if ending is not None:
        return TaskStep(follow(view, ending, job.started_s or job.created_s))
    if record.is_given_up:
        return TaskStep(record, DeleteJob(job))
    if undone := is_undone(view, job):
        return TaskStep(replace(record, is_given_up=True, last_end=undone))
    restarts = follow_restarts(view, job)
    if restarts.record != record:
        return TaskStep(restarts.record)
    step = TaskStep(record, None, _PODS_AGAIN_S) if job.is_ending else _steer(view, job)
    step = _by_then(step, restarts.again_s)
    is_idle = step.action is None and step.record == record
    return replace(step, record=_note_done(view, job)) if is_idle else step


def _given_up(record: TaskRecord) -> AttemptEnd:
    """How an attempt ended whose Job was deleted so that all ranks begin anew."""
    return AttemptEnd("counted" if record.in_place else "disrupted", record.last_end)


def _note_done(view: TaskView, job: TaskJob) -> TaskRecord:
    """The record with the ranks that count as done and are: their pods may go before the Job has ended."""
    done = write_ranks(read_ranks(job.completed) & done_ranks(view), MOST_DONE)
    return replace(view.record, done=done)


def _steer(view: TaskView, job: TaskJob) -> TaskStep:
    """Makes a Job that goes on what the task says now."""
    record = view.record
    if (wait_s := view.hindered_s) > 0:
        return TaskStep(record, None, wait_s)
    if (moving := go_on(view, job)) is not None:
        return moving
    if why := why_outdated(view.task, job):
        return TaskStep(follow(view, AttemptEnd("outdated", why), job.started_s or job.created_s))
    if (change := follow_edit(view, job)) is not None:
        return TaskStep(record, change)
    return TaskStep(record) if job.is_suspended else _inquire(view, job)


def _inquire(view: TaskView, job: TaskJob) -> TaskStep:
    """Asks why ranks are missing, held or do not start, which neither their Job nor their pods say."""
    is_short = job.active + job.terminating + job.succeeded < job.parallelism
    is_held = not view.noted and any(pod.is_gated for pod in view.own_pods)
    silent = silent_pod(view.own_pods)
    if not (is_short or is_held or silent is not None):
        return TaskStep(view.record)
    report = view.present_report
    if report is None:
        since_s, patience_s, next_s = max(job.started_s, job.created_s), view.times.quiet_s, _FIRST_ASK_S
    else:
        since_s, patience_s = report.asked_s, report.again_s
        next_s = min(report.again_s * 2, _LONGEST_ASK_S)
    if silent is not None and not (is_short or is_held):
        if report is None or report.pod_uid != silent.uid:
            patience_s, next_s = view.times.quiet_s, _FIRST_ASK_S
        since_s = max(since_s, silent.accepted_s)
    if (wait_s := view.left_s(since_s + patience_s, patience_s)) > 0:
        return TaskStep(view.record, None, wait_s)
    return TaskStep(view.record, AskWhy(job, next_s, silent))
