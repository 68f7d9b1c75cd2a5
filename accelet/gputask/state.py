"""What there is, as the watches tell it, and the view of it that one decision takes."""

from collections import defaultdict
from typing import TypeVar

from accelet.gputask.deciding.status import record_of
from accelet.gputask.deciding.view import EndsRead, JobReport, Obstacle, TaskAction, TaskTimes, TaskView
from accelet.gputask.objects.jobs import TaskJob, TaskService
from accelet.gputask.objects.pods import TaskPod
from accelet.gputask.objects.task import GpuTask
from accelet.kinds.move import Move
from accelet.kube.objects import ObjectKey
from accelet.kube.watching.store import precedes

_V = TypeVar("_V", GpuTask, TaskJob, TaskService, TaskPod, Move)
OwnerKey = tuple[str, str]
"""A namespace, and the UID of a task in it."""


class TaskState:
    """Tasks, and their Jobs, Services, pods and Moves by whose they are; plain and synchronous.

    `forbidden` has what a disruption budget said, by the UID of the task, when its pods were to end last,
    `refused` what the API server refuses to do for it.
    """

    def __init__(self, times: TaskTimes) -> None:
        self._times = times
        self.tasks: dict[ObjectKey, GpuTask] = {}
        self.obstacles: dict[str, Obstacle] = {}
        self.reports: dict[str, JobReport] = {}
        self.ends: dict[str, EndsRead] = {}
        self._jobs: dict[ObjectKey, TaskJob] = {}
        self._services: dict[ObjectKey, TaskService] = {}
        self._pods: dict[ObjectKey, TaskPod] = {}
        self._jobs_of: dict[OwnerKey, set[ObjectKey]] = defaultdict(set)
        self._pods_of: dict[OwnerKey, set[ObjectKey]] = defaultdict(set)
        self._done: dict[OwnerKey, set[int]] = {}
        """Ranks by the namespace and UID of a Job, as long as it or a pod that says it is of it is there."""

        self._keys: dict[OwnerKey, ObjectKey] = {}
        self.forbidden: dict[str, str] = {}
        self.refused: dict[str, dict[type[TaskAction], Obstacle]] = {}
        self._moves: dict[ObjectKey, Move] = {}
        self._moves_of: dict[OwnerKey, set[ObjectKey]] = defaultdict(set)

    def set_task(self, task: GpuTask) -> None:
        """Takes a task over, unless a newer version is known: watches lag behind our own writes."""
        known = self.tasks.get(task.key)
        if _is_news(task, known):
            if known is not None and known.uid != task.uid:
                self.remove_task(known)
            self.tasks[task.key] = task
            self._keys[task.namespace, task.uid] = task.key

    def renew_task(self, task: GpuTask) -> None:
        """A task as an answer to a request has it, which may come after the watch's news of its end."""
        if _is_known(task, self.tasks.get(task.key)):
            self.set_task(task)

    def remove_task(self, task: GpuTask) -> None:
        known = self.tasks.get(task.key)
        if known is not None and known.uid == task.uid:
            del self.tasks[task.key]
            self._keys.pop((task.namespace, task.uid), None)
        self.obstacles.pop(task.uid, None)
        self.reports.pop(task.uid, None)
        self.forbidden.pop(task.uid, None)
        self.refused.pop(task.uid, None)
        self.ends.pop(task.uid, None)

    def set_move(self, move: Move) -> ObjectKey | None:
        """Takes a Move over; returns the task that it is of."""
        known = self._moves.get(move.key)
        if _is_news(move, known):
            if known is not None:
                self.remove_move(known)
            self._moves[move.key] = move
            self._moves_of[move.namespace, move.spec.task.uid].add(move.key)
        return self._keys.get((move.namespace, move.spec.task.uid))

    def renew_move(self, move: Move) -> None:
        """As `renew_task`."""
        if _is_known(move, self._moves.get(move.key)):
            self.set_move(move)

    def remove_move(self, move: Move) -> ObjectKey | None:
        known = self._moves.get(move.key)
        if known is not None and known.uid == move.uid:
            del self._moves[move.key]
            _drop(self._moves_of, (move.namespace, known.spec.task.uid), move.key)
        return self._keys.get((move.namespace, move.spec.task.uid))

    def set_job(self, job: TaskJob) -> ObjectKey | None:
        """Takes a Job over; returns the task that it belongs to."""
        known = self._jobs.get(job.key)
        if _is_news(job, known):
            if known is not None:
                self.remove_job(known)
            self._jobs[job.key] = job
            self._jobs_of[job.namespace, job.owner_uid].add(job.key)
        return self._keys.get((job.namespace, job.owner_uid))

    def job_of(self, task: GpuTask, attempt: int) -> TaskJob | None:
        """The Job of an attempt, as it was seen last."""
        jobs = (self._jobs[key] for key in self._jobs_of.get((task.namespace, task.uid), ()))
        return next((job for job in jobs if job.attempt == attempt), None)

    def renew_job(self, job: TaskJob) -> None:
        """As `renew_task`."""
        if _is_known(job, self._jobs.get(job.key)):
            self.set_job(job)

    def remove_job(self, job: TaskJob, *, is_gone: bool = False) -> ObjectKey | None:
        known = self._jobs.get(job.key)
        if known is not None and known.uid == job.uid:
            del self._jobs[job.key]
            _drop(self._jobs_of, (job.namespace, known.owner_uid), job.key)
        if is_gone:
            self._done.pop((job.namespace, job.uid), None)
        return self._keys.get((job.namespace, job.owner_uid))

    def set_service(self, service: TaskService) -> ObjectKey | None:
        if _is_news(service, self._services.get(service.key)):
            self._services[service.key] = service
        return self._keys.get((service.namespace, service.owner_uid))

    def remove_service(self, service: TaskService) -> ObjectKey | None:
        known = self._services.get(service.key)
        if known is not None and known.uid == service.uid:
            del self._services[service.key]
        return self._keys.get((service.namespace, service.owner_uid))

    def set_pod(self, pod: TaskPod) -> ObjectKey | None:
        """Takes a pod over, and remembers for its Job if its program came to its own end."""
        known = self._pods.get(pod.key)
        if not _is_news(pod, known):
            return self._keys.get((pod.namespace, pod.task_uid))
        if known is not None:
            self._drop_pod(known)
        self._pods[pod.key] = pod
        self._pods_of[pod.namespace, pod.task_uid].add(pod.key)
        if pod.job_uid and pod.is_done and pod.rank is not None:
            self._done.setdefault((pod.namespace, pod.job_uid), set()).add(pod.rank)
        if known is not None:
            self._forget_done(known)
        return self._keys.get((pod.namespace, pod.task_uid))

    def renew_pod(self, pod: TaskPod) -> None:
        """As `renew_task`."""
        if _is_known(pod, self._pods.get(pod.key)):
            self.set_pod(pod)

    def remove_pod(self, pod: TaskPod) -> ObjectKey | None:
        known = self._pods.get(pod.key)
        if known is not None and known.uid == pod.uid:
            self._drop_pod(known)
            self._forget_done(known)
        return self._keys.get((pod.namespace, pod.task_uid))

    def view(self, task: GpuTask, now_s: float) -> TaskView:
        """Everything that the next decision about `task` depends on."""
        record = record_of(task.status)
        owner = task.namespace, task.uid
        jobs = sorted(
            (self._jobs[key] for key in self._jobs_of.get(owner, ())), key=lambda job: (job.attempt, job.name)
        )
        present = next((job for job in jobs if job.attempt == record.attempt), None)
        service = self._services.get(task.key)
        return TaskView(
            task=task,
            record=record,
            jobs=tuple(jobs),
            pods=tuple(self._pods[key] for key in sorted(self._pods_of.get(owner, ()))),
            now_s=now_s,
            has_service=service is not None and service.owner_uid == task.uid,
            done=frozenset(self._done.get((present.namespace, present.uid), ())) if present else frozenset(),
            ends=self.ends.get(task.uid),
            obstacle=self.obstacles.get(task.uid),
            report=self.reports.get(task.uid),
            times=self._times,
            moves=tuple(self._moves[key] for key in sorted(self._moves_of.get(owner, ()))),
            forbidden_move=self.forbidden.get(task.uid, ""),
            refused=dict(self.refused.get(task.uid, {})),
        )

    def _forget_done(self, gone: TaskPod) -> None:
        """Nothing is kept of Jobs that there are not: whoever makes pods may name any."""
        owner = gone.namespace, gone.task_uid
        is_known = any(self._jobs[key].uid == gone.job_uid for key in self._jobs_of.get(owner, ()))
        has_more = any(self._pods[key].job_uid == gone.job_uid for key in self._pods_of.get(owner, ()))
        if not is_known and not has_more:
            self._done.pop((gone.namespace, gone.job_uid), None)

    def _drop_pod(self, pod: TaskPod) -> None:
        del self._pods[pod.key]
        _drop(self._pods_of, (pod.namespace, pod.task_uid), pod.key)


def _drop(index: dict[OwnerKey, set[ObjectKey]], owner: OwnerKey, key: ObjectKey) -> None:
    if (some := index.get(owner)) is not None:
        some.discard(key)
        if not some:
            del index[owner]


def _is_known(one: _V, known: _V | None) -> bool:
    return known is not None and known.uid == one.uid


def _is_news(one: _V, known: _V | None) -> bool:
    return known is None or known.uid != one.uid or not precedes(one.resource_version, known.resource_version)
