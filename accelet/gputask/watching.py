"""Watches tasks and what is made for them, and keeps the state up with it."""

from collections.abc import Callable

from accelet.control.watches import WatchedKind, Watches, WatchFaults
from accelet.gputask.metrics import TaskMetrics
from accelet.gputask.objects.jobs import TaskJob, TaskService, parse_job, parse_service
from accelet.gputask.objects.names import TASK
from accelet.gputask.objects.pods import TaskPod, parse_pod
from accelet.gputask.objects.task import GpuTask, parse_kept_task
from accelet.gputask.state import TaskState
from accelet.kinds.gputask import GPU_TASKS
from accelet.kinds.move import MOVES, Move, parse_move
from accelet.kube.apiresources import JOBS, PODS, SERVICES
from accelet.kube.objects import ObjectKey
from accelet.kube.watching.source import Scope, Source
from accelet.kube.watching.store import Change


class Watching:
    """The table of kinds. `see` is told of each task that must be looked at."""

    def __init__(
        self, api: Source, state: TaskState, metrics: TaskMetrics, see: Callable[[ObjectKey], None]
    ) -> None:
        self._state, self._see = state, see
        self._watches = Watches(
            api,
            (
                WatchedKind(Scope(GPU_TASKS), parse_kept_task, self._see_task, "tasks"),
                WatchedKind(Scope(SERVICES, label_selector=TASK), parse_service, self._see_service),
                WatchedKind(Scope(JOBS, label_selector=TASK), parse_job, self._see_job),
                WatchedKind(Scope(PODS, label_selector=TASK), parse_pod, self._see_pod),
                WatchedKind(Scope(MOVES), parse_move, self._see_move),
            ),
            WatchFaults.counted(metrics.faults),
        )

    @property
    def is_synced(self) -> bool:
        return self._watches.is_synced

    def silence_at(self, now_s: float) -> str:
        """Of what the API server has said nothing for too long, as a sentence; empty where it speaks."""
        return self._watches.silence_at(now_s)

    async def run(self) -> None:
        """Watches until it is cancelled."""
        await self._watches.run()

    async def synced(self) -> None:
        """Waits until everything has been seen once."""
        await self._watches.synced()

    async def refresh(self) -> None:
        """Brings the state up to date; what a former leader wrote last is in it then.

        Raises:
            KubeError: the API server did not answer.
        """
        await self._watches.refresh()

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
