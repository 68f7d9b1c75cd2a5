"""What people are told of a task: its phase, its conditions, and one sentence why."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final, Literal

from accelet.gputask.deciding.starting import why_unscheduled, why_unstarted
from accelet.gputask.deciding.view import TaskRecord, TaskView
from accelet.gputask.objects.jobs import TaskJob
from accelet.gputask.objects.pods import TaskPod
from accelet.kinds.gputask import TaskPhase
from accelet.kinds.move import Move

_Truth = Literal["True", "False", "Unknown"]
_REPORTED = 900
_PHASES: Final[Mapping[str, TaskPhase]] = {
    "Admitted": "Suspended",
    "Placed": "Waiting",
    "Running": "Starting",
}


@dataclass(frozen=True, slots=True)
class ConditionWord:
    """One condition, but for its times."""

    type: str
    status: _Truth
    reason: str
    message: str = ""


@dataclass(frozen=True, slots=True)
class Reading:
    phase: TaskPhase
    why: str
    words: tuple[ConditionWord, ...]


def read_view(view: TaskView, record: TaskRecord) -> Reading:
    """What there is to tell, once `record` is written. Every condition but those of the end is in it."""
    if record.outcome:
        return _ended(record)
    return _add_overdue(_go_on(view, record), say_overdue(view.overdue_pods))


def say_overdue(pods: Sequence[TaskPod]) -> str:
    """Which pods do not end though they were told to, in a sentence; empty for none."""
    if not pods:
        return ""
    first = pods[0]
    since = datetime.fromtimestamp(int(first.ends_by_s), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    more = f", nor have {len(pods) - 1} more pods" if len(pods) > 1 else ""
    where = f" on node {first.node}" if first.node else ""
    return (
        f"pod {first.name}{where} should have ended at {since} and has not{more}: if its node is lost,"
        " delete the Node or give it the taint node.kubernetes.io/out-of-service"
    )


def _add_overdue(reading: Reading, overdue: str) -> Reading:
    """The same with the pods that are waited for, in the sentence and in the first condition that waits."""
    if not overdue:
        return reading
    words = list(reading.words)
    index = next((at for at, word in enumerate(words) if word.status != "True"), None)
    if index is not None:
        words[index] = replace(words[index], message=_join(words[index].message, overdue))
    return Reading(reading.phase, _join(reading.why, overdue), tuple(words))


def _join(said: str, more: str) -> str:
    return f"{said[: _REPORTED - len(more)]}; {more}" if said else more


def _go_on(view: TaskView, record: TaskRecord) -> Reading:
    job = view.job if record.attempt == view.record.attempt else None
    accepted = _accepted(view, job)
    if job is None:
        return _without_job(view, record, accepted)
    if job.is_ending or record.is_given_up:
        ending = job.failing or job.failed or job.succeeding
        why = record.last_end if record.is_given_up else ending.message if ending is not None else ""
        phase: TaskPhase = "Running" if job.succeeding and not job.failing else "Restarting"
        words = accepted, _admitted(view, job), *_not(("Placed", "Running"), "Ending", why[:_REPORTED])
        return Reading(phase, why[:_REPORTED], words)
    admitted, placed = _admitted(view, job), _placed(view, job)
    running = _running(view, job)
    words = (accepted, admitted, placed, running)
    first = next((word for word in words[1:] if word.status != "True"), None)
    refused = accepted.message if accepted.status == "False" else ""
    if first is None:
        return Reading("Running", refused or placed.message, words)
    phase = "Queued" if first.reason == "Queued" else _PHASES[first.type]
    return Reading(phase, refused or first.message, words)


def _not(types: Sequence[str], reason: str, message: str = "") -> tuple[ConditionWord, ...]:
    """These conditions as ones that do not hold."""
    return tuple(ConditionWord(one, "False", reason, message) for one in types)


def _ended(record: TaskRecord) -> Reading:
    over = _not(("Admitted", "Placed", "Running"), "Ended")
    if record.outcome == "Completed":
        return Reading("Completed", "", (*over, ConditionWord("Completed", "True", record.reason)))
    end = ConditionWord("Failed", "True", record.reason, record.message)
    return Reading("Failed", record.message, (*over, end))


def _without_job(view: TaskView, record: TaskRecord, accepted: ConditionWord) -> Reading:
    if record.attempt <= 1 or accepted.status == "False":
        none_yet = _not(("Admitted", "Placed", "Running"), "Starting")
        return Reading("Pending", accepted.message, (accepted, *none_yet))
    why = f"attempt {record.attempt} follows: {record.last_end}"[:_REPORTED]
    # The Job before was accepted, and so will this one be, as far as is known.
    return Reading("Restarting", why, _not(("Admitted", "Placed", "Running"), "Restarting", why))


def _accepted(view: TaskView, job: TaskJob | None) -> ConditionWord:
    obstacle = view.present_obstacle
    if obstacle is not None:
        return ConditionWord("Accepted", "False", obstacle.reason, obstacle.message[:_REPORTED])
    if job is not None:
        return ConditionWord("Accepted", "True", "JobMade")
    return ConditionWord("Accepted", "Unknown", "Pending", "its Job is not made yet")


def _admitted(view: TaskView, job: TaskJob) -> ConditionWord:
    spec = view.task.spec
    if not job.is_suspended or _moving(view) is not None:
        return ConditionWord("Admitted", "True", "Admitted")
    if spec.queue is not None:
        return ConditionWord("Admitted", "False", "Queued", f"waits in the queue {spec.queue}")
    return ConditionWord("Admitted", "False", "Suspended", "spec.suspend is true")


def _moving(view: TaskView) -> Move | None:
    """The Move that ends a task's pods now, or whose successors are to come; who suspends a task ends it."""
    move = view.move
    return move if move is not None and move.is_under_way and not view.task.spec.suspend else None


def _placed(view: TaskView, job: TaskJob) -> ConditionWord:
    placed = sum(bool(pod.node) and not pod.has_ended for pod in view.own_pods) + _done(view, job)
    if job.is_suspended:
        if (move := _moving(view)) is not None:
            return _left(move)
        return ConditionWord("Placed", "False", "NotAdmitted", "has no pods while it is suspended")
    if placed >= job.parallelism:
        return ConditionWord("Placed", "True", "Placed")
    if view.task.is_elastic and placed >= view.task.least:
        text = f"{placed} of {job.parallelism} ranks have a node, the others follow when there is room"
        return ConditionWord("Placed", "True", "PlacedInPart", text)
    return _not_placed(view, job, placed)


def _not_placed(view: TaskView, job: TaskJob, placed: int) -> ConditionWord:
    report = view.present_report
    is_short = job.active + job.terminating + job.succeeded < job.parallelism
    if is_short and report is not None and report.refused:
        return ConditionWord("Placed", "False", "PodsRefused", report.refused[:_REPORTED])
    unscheduled = "" if view.noted else why_unscheduled(view.own_pods)
    if waiting := view.noted or unscheduled or (report.waiting if report is not None else ""):
        return ConditionWord("Placed", "False", "Waiting", waiting[:_REPORTED])
    if (move := _moving(view)) is not None:
        return _left(move)
    if placed:
        text = f"{placed} of {job.parallelism} ranks have a node"
        return ConditionWord("Placed", "False", "Partial", text)
    return ConditionWord("Placed", "False", "Waiting", "its ranks wait for nodes with room")


def _left(move: Move) -> ConditionWord:
    return ConditionWord("Placed", "False", "Moving", f"its ranks go to other places by the Move {move.name}")


def _running(view: TaskView, job: TaskJob) -> ConditionWord:
    live = [pod for pod in view.own_pods if not pod.has_ended]
    ready = sum(pod.is_ready for pod in live)
    least = min(view.task.least, job.parallelism) if view.task.is_elastic else job.parallelism
    if ready + _done(view, job) >= least:
        return ConditionWord("Running", "True", "Running")
    report = view.present_report
    pod_uid, said = (report.pod_uid, report.starting) if report is not None else ("", "")
    if (unstarted := why_unstarted(live, pod_uid, said)) is not None:
        return ConditionWord("Running", "False", unstarted.reason, unstarted.text[:_REPORTED])
    return ConditionWord("Running", "False", "Starting", f"{ready} of {job.parallelism} ranks are ready")


def _done(view: TaskView, job: TaskJob) -> int:
    """How many ranks are done: the Job counts them a while after their pods have ended."""
    return max(job.succeeded, sum(pod.is_done for pod in view.own_pods))
