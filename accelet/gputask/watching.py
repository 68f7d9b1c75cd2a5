"""Watches tasks and what is made for them, and keeps the state up with it."""

from collections.abc import Callable
from typing import Any, Final, TypeVar

from accelet.gputask.metrics import TaskMetrics
from accelet.gputask.objects.jobs import TaskJob, TaskService, parse_job, parse_service
from accelet.gputask.objects.names import TASK
from accelet.gputask.objects.pods import TaskPod, parse_pod
from accelet.gputask.objects.task import GpuTask, parse_kept_task
from accelet.gputask.state import TaskState
from accelet.kinds.gputask import GPU_TASKS
from accelet.kinds.move import MOVES, Move, parse_move
from accelet.kube.apiresources import JOBS, PODS, ApiResource
from accelet.kube.errors import KubeError
from accelet.kube.objects import ObjectKey, RawObject
from accelet.kube.watching.reflector import Reflector
from accelet.kube.watching.silence import describe_silence, measure_silence
from accelet.kube.watching.source import Scope, Source
from accelet.kube.watching.store import Change
from accelet.runtime.supervise import supervise
from accelet.runtime.tasks import task_group

_T = TypeVar("_T")
SERVICES: Final = ApiResource("Service", "services")


class Watching:
    """The reflectors. `see` is told of each task that must be looked at."""

    def __init__(
        self, api: Source, state: TaskState, metrics: TaskMetrics, see: Callable[[ObjectKey], None]
    ) -> None:
        self._api, self._state, self._metrics, self._see = api, state, metrics, see
        self._tasks = self._reflect(Scope(GPU_TASKS), parse_kept_task, self._see_task)
        self._jobs = self._reflect(Scope(JOBS, label_selector=TASK), parse_job, self._see_job)
        self._services = self._reflect(Scope(SERVICES, label_selector=TASK), parse_service, self._see_service)
        self._pods = self._reflect(Scope(PODS, label_selector=TASK), parse_pod, self._see_pod)
        self._moves = self._reflect(Scope(MOVES), parse_move, self._see_move)

        self._watched: dict[str, Reflector[Any]] = {
            "tasks": self._tasks,
            "jobs": self._jobs,
            "services": self._services,
            "pods": self._pods,
            "moves": self._moves,
        }

    @property
    def is_synced(self) -> bool:
        return all(one.is_synced for one in self._watched.values())

    def silence_at(self, now_s: float) -> str:
        """Of what the API server has said nothing for too long, as a sentence; empty where it speaks."""
        return describe_silence(measure_silence(self._watched, now_s))

    async def run(self) -> None:
        """Watches until it is cancelled."""
        async with task_group() as group:
            for name, reflector in self._watched.items():
                task = f"watch of {name}"
                group.create_task(supervise(task, reflector.run, self._count_fault), name=task)

    async def synced(self) -> None:
        """Waits until everything has been seen once."""
        await self._tasks.synced()
        await self._jobs.synced()
        await self._services.synced()
        await self._pods.synced()
        await self._moves.synced()

    async def refresh(self) -> None:
        """Brings the state up to date; what a former leader wrote last is in it then.

        Raises:
            KubeError: the API server did not answer.
        """
        await self._tasks.refresh()
        await self._services.refresh()
        await self._jobs.refresh()
        await self._pods.refresh()
        await self._moves.refresh()

    def _reflect(
        self,
        scope: Scope,
        parse: Callable[[RawObject], _T],
        changed: Callable[[Change[_T]], None],
    ) -> Reflector[_T]:
        return Reflector(self._api, scope, parse, changed=changed, failed=self._count)

    def _see_task(self, change: Change[GpuTask]) -> None:
        if change.after is not None:
            self._state.set_task(change.after)
        elif change.before is not None:
            self._state.remove_task(change.before)
        self._see(change.key)

    def _see_job(self, change: Change[TaskJob]) -> None:
        if change.after is not None:
            self._tell(self._state.set_job(change.after))
        elif change.before is not None:
            self._tell(self._state.remove_job(change.before, is_gone=True))

    def _see_service(self, change: Change[TaskService]) -> None:
        if change.after is not None:
            self._tell(self._state.set_service(change.after))
        elif change.before is not None:
            self._tell(self._state.remove_service(change.before))

    def _see_move(self, change: Change[Move]) -> None:
        if change.after is not None:
            self._tell(self._state.set_move(change.after))
        elif change.before is not None:
            self._tell(self._state.remove_move(change.before))

    def _see_pod(self, change: Change[TaskPod]) -> None:
        if change.after is not None:
            self._tell(self._state.set_pod(change.after))
        elif change.before is not None:
            self._tell(self._state.remove_pod(change.before))

    def _tell(self, key: ObjectKey | None) -> None:
        if key is not None:
            self._see(key)

    def _count_fault(self) -> None:
        self._metrics.faults.labels("Fault").inc()

    def _count(self, error: KubeError) -> None:
        self._metrics.faults.labels(type(error).__name__).inc()
