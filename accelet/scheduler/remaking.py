"""Frees released pods that cannot be on their node, and has gangs placed anew whose pods stay refused."""

from collections.abc import Iterable, Sequence
from typing import Literal

from accelet.control.workqueue import WorkQueue
from accelet.kube.pods import Pod
from accelet.runtime.clock import Clock
from accelet.runtime.logs import Log
from accelet.scheduler.errors import RemedyRefusedError
from accelet.scheduler.events import GangEvents
from accelet.scheduler.gangs.jobs import MAY_SUSPEND
from accelet.scheduler.gangs.workload import Workload
from accelet.scheduler.metrics import SchedulerMetrics
from accelet.scheduler.record import Placement, Record
from accelet.scheduler.release import Steps, is_refused
from accelet.scheduler.remedy import remedy_for
from accelet.scheduler.state import SchedulerState
from accelet.scheduler.writer import PlanWriter

_log = Log(__name__)

_JOBS = "jobs"
_TOLD_AGAIN_S = 600.0
_RESUMED_AFTER_S = 600.0
"""So long a Job's pods may take to end before it is resumed all the same."""

_REFUSED_AGAIN_S = 60.0
_NODES_TRIED = 3
"""A pod that is refused on so many nodes is refused for more than a node: its gang begins anew, if it may."""

Trouble = Literal["Stranded", "Unbound"]
_WHAT: dict[Trouble, str] = {
    "Stranded": "its node no longer has room for it",
    "Unbound": (
        "kube-scheduler does not bind it to the node that it was released to, by a rule that is not judged "
        "here (kubectl describe pod says which)"
    ),
}
_CURE = (
    "delete it to have it made and placed anew (its Job may count that as a failure: a podFailurePolicy "
    f"that ignores DisruptionTarget, or the Job's annotation {MAY_SUSPEND}, lets the scheduler do so)"
)
_NOBODY = "nobody would make it anew: delete it yourself"


class Remaker:
    """What it finds too long in its place, longer than `grace_s`, it evicts, suspends, or tells of."""

    def __init__(
        self,
        state: SchedulerState,
        writer: PlanWriter,
        events: GangEvents,
        metrics: SchedulerMetrics,
        *,
        grace_s: float,
        clock: Clock,
    ) -> None:
        self._state, self._writer, self._events, self._metrics = state, writer, events, metrics
        self._grace_s, self._clock = grace_s, clock
        self._since_s: dict[str, float] = {}
        self._told_s: dict[str, float] = {}
        self._suspended_s: dict[str, float] = {}
        self._queue: WorkQueue[str] = WorkQueue(clock)

    async def run(self) -> None:
        """Resumes what was suspended, until it is cancelled; a former leader may have left some."""
        self._queue.add(_JOBS)
        await self._queue.work(lambda _: self._resume())

    def see_workload(self) -> None:
        if self._suspended_s or self._state.suspended_jobs():
            self._queue.add(_JOBS)

    def forget(self, pods: Iterable[Pod]) -> None:
        """These pods are in no trouble, or are gone."""
        for pod in pods:
            self._since_s.pop(pod.uid, None)
            self._told_s.pop(pod.uid, None)

    async def free(self, record: Record, steps: Steps) -> float | None:
        """Frees what has stood for too long; returns after how long to look again."""
        refused = [pod for pod in steps.waiting if is_refused(pod)]
        self.forget(pod for pod in (*steps.waiting, *steps.bound) if pod not in refused)
        waits_s = [self._grace_s] if steps.waiting else []
        troubled: list[tuple[Pod, Trouble]] = [(pod, "Stranded") for pod in steps.stranded]
        troubled += [(pod, "Unbound") for pod in refused]
        for pod, trouble in troubled:
            wait_s = self._left_s(pod)
            if wait_s <= 0 and pod.nominated_node:
                wait_s = self._grace_s  # kube-scheduler makes room for it there
            if wait_s <= 0:
                wait_s = await self._remedy(record, pod, trouble)
            waits_s.append(wait_s)
        return min(waits_s, default=None)

    async def give_up(self, record: Record, pods: Sequence[Pod]) -> tuple[Placement, ...]:
        """Of gated pods that the API server does not release, those that are to be placed elsewhere now."""
        late = {pod.name: pod for pod in pods if self._left_s(pod) <= 0}
        placed = [
            (placement, late[placement.pod]) for placement in record.placements if placement.pod in late
        ]
        return tuple([placement for placement, pod in placed if await self.avoid_node(record, pod)])

    async def avoid_node(self, record: Record, pod: Pod) -> bool:
        """Whether a gated pod that is refused is to go elsewhere; its Job may begin anew instead."""
        is_tried_enough = len(self._state.excluded(record.gang)) >= _NODES_TRIED
        try:
            if is_tried_enough and await self._suspend(pod, "Refused", "the API server does not release it"):
                return False
        except RemedyRefusedError as error:
            self._tell(pod, "Refused", str(error))
        self.forget([pod])
        return self._exclude(record, pod)

    def _left_s(self, pod: Pod) -> float:
        """How long it may still stand; a first look begins its time."""
        now_s = self._clock.now_s()
        return self._since_s.setdefault(pod.uid, now_s) + self._grace_s - now_s

    async def _remedy(self, record: Record, pod: Pod, trouble: Trouble) -> float:
        terms = self._state.job_terms(pod)
        remedy = remedy_for(pod, terms, may_cost_a_retry=trouble == "Stranded")
        if trouble == "Unbound" and remedy != "tell" and not self._exclude(record, pod):
            remedy = "tell"  # it was tried on nodes enough
        try:
            if remedy == "suspend" and await self._suspend(pod, trouble, _WHAT[trouble]):
                return self._grace_s
            if remedy == "evict":
                await self._evict(pod, trouble)
                return self._grace_s
        except RemedyRefusedError as error:
            return self._tell(pod, trouble, f"{_WHAT[trouble]}; {error}")
        is_made_anew = any(owner.is_controller for owner in pod.owners)
        return self._tell(pod, trouble, f"{_WHAT[trouble]}; {_CURE if is_made_anew else _NOBODY}")

    async def _evict(self, pod: Pod, trouble: Trouble) -> None:
        why = f"{_WHAT[trouble]}; evicted to be made and placed anew"
        if await self._writer.evict(pod, why):
            self._metrics.repairs.labels("stranded" if trouble == "Stranded" else "refused").inc()
            self._events.tell(pod, "Warning", trouble, why)
            self.forget([pod])

    def _exclude(self, record: Record, pod: Pod) -> bool:
        node = next((one.node for one in record.placements if one.uid == pod.uid), "")
        return self._state.exclude(record.gang, node, self._clock.now_s())

    def _tell(self, pod: Pod, reason: str, note: str) -> float:
        now_s = self._clock.now_s()
        again_s = self._told_s.get(pod.uid, now_s)
        if again_s <= now_s:
            self._events.tell(pod, "Warning", reason, note)
            again_s = self._told_s[pod.uid] = now_s + _TOLD_AGAIN_S
        return again_s - now_s

    async def _suspend(self, pod: Pod, reason: str, what: str) -> bool:
        """Whether the pod's Job is suspended now: its pods end, and come again once it is resumed."""
        owner = next((owner for owner in pod.owners if owner.is_controller), None)
        job = self._state.job(pod.namespace, owner.name) if owner else None
        if job is None or job.job_terms is None or not job.job_terms.may_suspend:
            return False
        if not await self._writer.suspend(job):
            return False
        _log.info("suspended to be placed anew", job=f"{job.namespace}/{job.name}", pod=pod.name)
        self._metrics.repairs.labels("suspended").inc()
        self._events.tell(
            pod, "Warning", reason, f"{what}; its Job is suspended and resumed, to be placed anew"
        )
        self._queue.add(_JOBS)
        return True

    async def _resume(self) -> float | None:
        """Resumes the Jobs whose pods have ended; returns after how long others are resumed all the same."""
        now_s = self._clock.now_s()
        jobs = {job.uid: job for job in self._state.suspended_jobs()}
        self._suspended_s = {uid: self._suspended_s.get(uid, now_s) for uid in jobs}
        waits_s = [
            wait_s for uid, job in jobs.items() if (wait_s := await self._resume_one(uid, job, now_s)) > 0
        ]
        return min(waits_s, default=None)

    async def _resume_one(self, uid: str, job: Workload, now_s: float) -> float:
        left_s = self._suspended_s[uid] + _RESUMED_AFTER_S - now_s
        if left_s > 0 and job.job_terms is not None and job.job_terms.pods_left:
            return left_s
        try:
            return 0.0 if await self._writer.resume(job) else 1.0
        except RemedyRefusedError as error:
            _log.warning("cannot be resumed", job=f"{job.namespace}/{job.name}", error=str(error))
            return _REFUSED_AGAIN_S
