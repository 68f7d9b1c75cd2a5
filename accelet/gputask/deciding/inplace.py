"""Ranks that started again in their pods, on their nodes and with their cards: `restart: InPlace`.

A kubelet starts the containers of one pod again. The programs of the other ranks lose their peer, end as well
and are started again likewise. Those that do not end would hang, so all ranks then begin anew in new pods.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from accelet.gputask.deciding.ends import MOST_TEXT
from accelet.gputask.deciding.starting import say_restart
from accelet.gputask.deciding.view import TaskRecord, TaskView
from accelet.gputask.objects.jobs import TaskJob
from accelet.gputask.objects.pods import TaskPod
from accelet.gputask.objects.ranks import write_ranks


@dataclass(frozen=True, slots=True)
class RestartsInPlace:
    """The record as restarts in place leave it, and after how many seconds to look again; None for never."""

    record: TaskRecord
    again_s: float | None = None


def follow_restarts(view: TaskView, job: TaskJob) -> RestartsInPlace:
    """Counts the incidents after which ranks of a Job started again in their pods, and ends those that hang.

    There were as many as the rank had restarts that had the most. The attempt is given up where these are
    more than the retries that are left, or where peers have not started again `in_place_s` after the last
    that did.
    """
    record = view.record
    if job.rules.restart != "InPlace" or job.is_ending or record.is_given_up:
        return RestartsInPlace(record)
    if job.is_suspended:
        # It goes on with new pods, which were never started again.
        is_empty = all(pod.has_ended for pod in view.own_pods)
        return RestartsInPlace(record.fold_restarts() if is_empty else record)
    most = max((pod.restarts for pod in view.own_pods), default=0)
    if most > record.in_place:
        return RestartsInPlace(_count(view, most))
    return _await_peers(view, most)


def _count(view: TaskView, most: int) -> TaskRecord:
    """The record with that many incidents; the attempt is given up where these are too many."""
    failed = next(pod for pod in _by_rank(view.own_pods) if pod.restarts == most)
    record = replace(view.record, in_place=most, last_end=say_restart(failed)[:MOST_TEXT])
    is_used_up = record.incidents + record.in_place > view.task.failure.retries
    return replace(record, is_given_up=is_used_up)


def _await_peers(view: TaskView, most: int) -> RestartsInPlace:
    """Gives the attempt up where some ranks have started again and others go on as if nothing had been.

    An elastic task's ranks need no restart to go on without one, or with one that comes back.
    """
    record, patience_s = view.record, view.times.in_place_s
    started_s = max((pod.running_s for pod in view.own_pods if pod.restarts), default=0.0)
    behind = [pod for pod in _by_rank(view.own_pods) if _is_behind(pod, most, started_s)]
    if not behind or view.task.is_elastic:
        return RestartsInPlace(record)
    wait_s = view.left_s((started_s or view.now_s) + patience_s, patience_s)
    if wait_s > 0:
        return RestartsInPlace(record, wait_s)
    ranks = write_ranks((pod.rank for pod in behind if pod.rank is not None), 60)
    text = f"{record.last_end}; rank {ranks} did not start again within {patience_s:g} s"
    return RestartsInPlace(replace(record, is_given_up=True, last_end=text[:MOST_TEXT]))


def _is_behind(pod: TaskPod, most: int, started_s: float) -> bool:
    """Whether a rank has not started again since another did.

    One that does not run yet comes to those that started again, and so does one that first started after.
    """
    if pod.restarts >= most or pod.rank is None:
        return False
    is_new = not pod.restarts and pod.running_s > started_s
    return pod.has_ended or (pod.running_s > 0 and not is_new)


def _by_rank(pods: Sequence[TaskPod]) -> list[TaskPod]:
    return sorted(pods, key=lambda pod: (pod.rank is None, pod.rank or 0, pod.name))
