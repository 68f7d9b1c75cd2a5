"""What people are told of a task: its phase, its conditions, and one sentence why."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from accelet.gputask.deciding.view import TaskRecord, TaskView
from accelet.gputask.objects.jobs import TaskJob
from accelet.kinds.gputask import TaskPhase
from accelet.kinds.move import Move

_Truth = Literal["True", "False", "Unknown"]
_IMAGE = ("ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull")
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
    """What there is to tell, once `record` is written."""
    if record.outcome:
        return _ended(record)
    job = view.job if record.attempt == view.record.attempt else None
    accepted = _accepted(view, job)
    if job is None:
        return _without_job(view, record, accepted)
    if job.is_ending or record.is_given_up:
        ending = job.failing or job.failed or job.succeeding
        why = record.last_end if record.is_given_up else ending.message if ending is not None else ""
        running = ConditionWord("Running", "False", "Ending", why[:_REPORTED])
        phase: TaskPhase = "Running" if job.succeeding and not job.failing else "Restarting"
        return Reading(phase, running.message, (accepted, running))
    admitted, placed = _admitted(view, job), _placed(view, job)
    running = _running(view, job)
    words = (accepted, admitted, placed, running)
    first = next((word for word in words[1:] if word.status != "True"), None)
    refused = accepted.message if accepted.status == "False" else ""
    if first is None:
        return Reading("Running", refused or placed.message, words)
    phase = "Queued" if first.reason == "Queued" else _PHASES[first.type]
    return Reading(phase, refused or first.message, words)


def _ended(record: TaskRecord) -> Reading:
    running = ConditionWord("Running", "False", "Ended")
    if record.outcome == "Completed":
        return Reading("Completed", "", (running, ConditionWord("Completed", "True", record.reason)))
    end = ConditionWord("Failed", "True", record.reason, record.message)
    return Reading("Failed", record.message, (running, end))


def _without_job(view: TaskView, record: TaskRecord, accepted: ConditionWord) -> Reading:
    running = ConditionWord("Running", "False", "Starting")
    if record.attempt <= 1 or accepted.status == "False":
        return Reading("Pending", accepted.message, (accepted, running))
    why = f"attempt {record.attempt} follows: {record.last_end}"[:_REPORTED]
    return Reading("Restarting", why, (ConditionWord("Running", "False", "Restarting", why),))


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
    if waiting := view.noted or (report.waiting if report is not None else ""):
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
    stuck = next((pod for pod in live if pod.waiting in _IMAGE), None)
    if stuck is not None:
        return ConditionWord("Running", "False", "ImagePull", f"rank {stuck.rank}: {stuck.waiting}")
    return ConditionWord("Running", "False", "Starting", f"{ready} of {job.parallelism} ranks are ready")


def _done(view: TaskView, job: TaskJob) -> int:
    """How many ranks are done: the Job counts them a while after their pods have ended."""
    return max(job.succeeded, sum(pod.is_done for pod in view.own_pods))
