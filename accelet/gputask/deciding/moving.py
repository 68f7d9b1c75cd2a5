"""What is done next of a task's Moves.

A Move is written only at the version that was seen, so that of the scheduler, which may withdraw it, and
the task's controller, which may begin it, the first to write decides. What is done to the Job follows from
the phase that is written down and from which pods live: after a crash, anybody finds the same next step.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Final

from accelet.gputask.deciding.view import AdvanceMove, AskToSave, DeleteMove, SetSuspended, TaskStep, TaskView
from accelet.gputask.objects.jobs import TaskJob
from accelet.gputask.objects.ranks import read_ranks
from accelet.kinds.gputask import TaskMoves
from accelet.kinds.move import Move, MovePhase

_PODS_AGAIN_S: Final = 5.0
_MOST_WAIT_S: Final = 60.0
_MOST_SAVE_S: Final = 3600.0
"""What `saveSeconds` is at most."""

_SEEN_WITHIN_S: Final = 10.0
"""So long after a Move was made its pods may be seen as they were before: the scheduler, which has a watch of
its own, may have been told sooner."""


BY_PERSON: Final = "ByPerson"
"""The reason of an approval that no policy gave."""

MOST_ENDED: Final = 16
"""So many Moves that have ended are kept of one task."""


def clear_moves(view: TaskView) -> TaskStep | None:
    """Ends Moves that came to nothing: of a task that has ended, and all that cannot be begun any more.

    Of those that have ended the newest are kept.
    """
    for move in view.live_moves:
        if view.record.outcome:
            phase: MovePhase = "Done" if move.is_under_way else "Withdrawn"
            return _advance(view, move, phase, "TaskEnded", "the task has ended")
        if not move.is_under_way and (reason := _why_not(view, move)) is not None:
            return _advance(view, move, "Withdrawn", *reason)
    ended = sorted(
        (move for move in view.moves if move.has_ended), key=lambda move: (move.created_s, move.name)
    )
    return TaskStep(view.record, DeleteMove(ended[0])) if len(ended) > MOST_ENDED else None


def go_on(view: TaskView, job: TaskJob) -> TaskStep | None:
    """The next step of the Move of a task whose Job goes on; None where there is none to be done.

    One that is to be withdrawn, which the API server refuses, is not gone on with.
    """
    move = view.move
    if move is None or not (move.is_under_way or _why_not(view, move) is None):
        return None
    if not move.is_under_way and (unseen_s := _unseen_s(view, move)) > 0:
        return TaskStep(view.record, None, unseen_s)
    return _NEXT[move.phase](view, job, move)


def _why_not(view: TaskView, move: Move) -> tuple[str, str] | None:
    """Why a Move that is not under way is withdrawn: reason and sentence; None if it is not."""
    job, spec, record = view.job, view.task.spec, view.record
    of = move.spec.task
    is_unseen = _unseen_s(view, move) > 0
    is_same = (of.uid, of.attempt) == (view.task.uid, record.attempt)
    is_same &= is_unseen or {pod.uid for pod in view.live_pods} == move.pod_uids
    goes_on = job is not None and not job.is_ending and not record.is_given_up
    is_held_up = spec.suspend or (job is not None and job.is_suspended)
    is_scaled = job is not None and job.parallelism != spec.replicas
    objections = (
        (not (is_same and goes_on), "TaskChanged", "a rank has ended or begun since it was proposed"),
        (view.now_s >= move.valid_until_s, "Expired", "it was not approved and begun in time"),
        (view.move is not move, "Overtaken", "another Move of the task goes before it"),
        (is_held_up, "Suspended", "the task is suspended"),
        (spec.queue is not None, "Queued", "the task is in a queue, which alone suspends its Job"),
        (is_scaled, "TaskChanged", "its number of ranks is being changed"),
        (not (is_unseen or _are_ready(view)), "NotReady", "not every rank is ready"),
        (bool(forbids := _why_forbidden(view, move)), "NotAllowed", forbids),
        (bool(view.forbidden_move), "Budget", view.forbidden_move),
    )
    return next(((reason, why) for is_so, reason, why in objections if is_so), None)


def _why_forbidden(view: TaskView, move: Move) -> str:
    """Why the task's policy, as it is now, does not allow a Move; empty where it does.

    A Move that a person asked for needs no policy. Under `Ask` a proposal waits until a person approves it.
    """
    policy = _terms(view).policy
    if move.spec.gain.kind == "Person" or policy == "WhenItHelps":
        return ""
    if policy == "Never":
        return "move.policy of the task is Never"
    is_approved = view.task.approves == move.name or any(
        one.type == "Approved" and one.reason == BY_PERSON for one in move.status.conditions
    )
    is_asked_for = move.phase == "Proposed" or is_approved
    return "" if is_asked_for else "move.policy of the task is Ask by now, and no person has approved it"


def _unseen_s(view: TaskView, move: Move) -> float:
    """For how long the controller may still have seen less of a Move's pods than the scheduler had.

    0 where they are seen as the Move has them, or one of them has ended, which cannot be undone.
    """
    live = {pod.uid for pod in view.live_pods}
    has_ended = any(pod.has_ended and pod.uid in move.pod_uids for pod in view.pods)
    if has_ended or (live == move.pod_uids and _are_ready(view)):
        return 0.0
    return view.left_s(move.created_s + _SEEN_WITHIN_S, _SEEN_WITHIN_S)


def _are_ready(view: TaskView) -> bool:
    return all(pod.is_ready for pod in view.live_pods)


def _approve(view: TaskView, _: TaskJob, move: Move) -> TaskStep:
    if move.spec.gain.kind == "Person" or view.task.approves == move.name:
        return _advance(view, move, "Approved", BY_PERSON)
    if _terms(view).policy == "WhenItHelps":
        return _advance(view, move, "Approved", "ByPolicy")
    return TaskStep(view.record, None, _wait(view, move.valid_until_s))


def _await_room(view: TaskView, _: TaskJob, move: Move) -> TaskStep:
    """The scheduler is to hold the new places."""
    return TaskStep(view.record, None, _wait(view, move.valid_until_s))


def _begin(view: TaskView, _: TaskJob, move: Move) -> TaskStep:
    if save_s := _terms(view).save_seconds:
        return _advance(view, move, "Saving", "Asked", save_by_s=view.now_s + save_s)
    return _advance(view, move, "Leaving", "Begun")


def _save(view: TaskView, _: TaskJob, move: Move) -> TaskStep:
    unasked = tuple(pod for pod in view.live_pods if pod.asked_by != move.uid)
    late = view.left_s(move.save_by_s, _MOST_SAVE_S) <= 0
    if unasked and not late:
        return TaskStep(view.record, AskToSave(move, unasked))
    if late or all(pod.saved_for == move.uid for pod in view.live_pods):
        return _advance(view, move, "Leaving", "Late" if late else "Saved")
    return TaskStep(view.record, None, _wait(view, move.save_by_s))


def _leave(view: TaskView, job: TaskJob, move: Move) -> TaskStep:
    """All ranks at once, by their Job: that costs no retry, and who ends with 0 does not count as done."""
    if not _left_behind(view, move):
        return _advance(view, move, "Arriving", "Left")
    if not job.is_suspended:
        return TaskStep(view.record, SetSuspended(job, suspended=True))
    return TaskStep(view.record, None, _PODS_AGAIN_S)


def _arrive(view: TaskView, job: TaskJob, move: Move) -> TaskStep | None:
    """Its Job is resumed as any that its task does not want suspended; the move ends when all have nodes."""
    if view.task.spec.suspend:
        why = "the task was suspended meanwhile: its place is given up"
        return _advance(view, move, "Done", "Suspended", why)
    nodes = {pod.rank: pod.node for pod in view.own_pods if not pod.has_ended and pod.node}
    done = read_ranks(job.completed)
    wanted = {place.rank: place.to_node for place in move.spec.places if place.rank < job.parallelism}
    if any(rank not in nodes and rank not in done for rank in wanted):
        return None
    elsewhere = [rank for rank, node in wanted.items() if nodes.get(rank, node) != node]
    if not elsewhere:
        return _advance(view, move, "Done", "Arrived")
    why = f"{len(elsewhere)} of {len(wanted)} ranks found their new place lost, and got another"
    return _advance(view, move, "Done", "ArrivedElsewhere", why)


def _left_behind(view: TaskView, move: Move) -> Iterable[str]:
    """Those of the old pods that may still be running."""
    return [pod.uid for pod in view.live_pods if pod.uid in move.pod_uids]


def _advance(
    view: TaskView, move: Move, phase: MovePhase, reason: str, why: str = "", *, save_by_s: float = 0.0
) -> TaskStep:
    return TaskStep(view.record, AdvanceMove(move, phase, reason, why, save_by_s))


def _end(*_: object) -> None:
    """Moves that have ended are not looked at."""


def _terms(view: TaskView) -> TaskMoves:
    return view.task.spec.move or TaskMoves()


def _wait(view: TaskView, until_s: float) -> float:
    return max(0.0, min(until_s - view.now_s, _MOST_WAIT_S))


_NEXT: Final[Mapping[MovePhase, Callable[[TaskView, TaskJob, Move], TaskStep | None]]] = {
    "Proposed": _approve,
    "Approved": _await_room,
    "Held": _begin,
    "Saving": _save,
    "Leaving": _leave,
    "Arriving": _arrive,
    "Done": _end,
    "Withdrawn": _end,
}
