"""Looks at tasks one at a time, and does the next step of each."""

import time
from collections import Counter
from typing import Final

from accelet.control.errors import NotLeadingError, UnkeptStatusError
from accelet.control.refusedstatuses import RefusedStatuses
from accelet.control.workqueue import WorkQueue
from accelet.gputask.deciding.decide import decide, is_read_before_told
from accelet.gputask.deciding.refusals import obstacle_after
from accelet.gputask.deciding.status import is_urgent, status_of
from accelet.gputask.deciding.view import (
    AdvanceMove,
    AskToSave,
    AskWhy,
    CreateJob,
    CreateService,
    DeleteJob,
    DeleteMove,
    DeleteTask,
    Obstacle,
    ReadEnds,
    SetDeadline,
    SetReplicas,
    SetSuspended,
    TaskAction,
    TaskView,
)
from accelet.gputask.events import TaskEvents
from accelet.gputask.metrics import TaskMetrics
from accelet.gputask.objects.task import GpuTask
from accelet.gputask.state import TaskState
from accelet.gputask.writer import TaskWriter, Unmade
from accelet.kinds.gputask import GPUTaskStatus
from accelet.kube.errors import ApiError, ForbiddenError, InvalidError, NotFoundError
from accelet.kube.objects import ObjectKey
from accelet.runtime.excerpts import excerpt
from accelet.runtime.logs import Log

_log = Log(__name__)

_PARALLEL: Final = 8
_FIGURES_S: Final = 3.0
"""How often figures and reasons are written of which nothing follows."""

_MANY_RANKS: Final = 100
_GATHERED_S: Final = 1e-4
"""For how long news of many ranks are gathered, for each rank: some fifty times what a look takes."""

_PODS_AGAIN_S: Final = 2.0
_TAKEN_S: Final = 60.0
_NOT_LEADING_S: Final = 1.0
_TURN_S: Final = 0.05
_LONGEST_LOGGED: Final = 300


class Controller:
    """What one leader does. Made anew for each leadership."""

    def __init__(
        self, state: TaskState, writer: TaskWriter, metrics: TaskMetrics, events: TaskEvents
    ) -> None:
        self._state, self._writer, self._metrics, self._events = state, writer, metrics, events
        self._queue: WorkQueue[ObjectKey] = WorkQueue()
        self._written_s: dict[ObjectKey, float] = {}
        self._refusals = RefusedStatuses()

    async def run(self) -> None:
        """Works until it is cancelled."""
        for key in list(self._state.tasks):
            self.see(key)
        await self._queue.work(self._look, parallel=_PARALLEL)

    def see(self, key: ObjectKey) -> None:
        """A task, or something that is made for it, came, changed or went.

        To look at a task costs the more the more ranks it has, and each of them brings news of its own.
        """
        task = self._state.tasks.get(key)
        ranks = task.spec.replicas if task is not None else 0
        if ranks < _MANY_RANKS:
            self._queue.add(key)
        else:
            self._queue.add_after(key, ranks * _GATHERED_S)

    async def _look(self, key: ObjectKey) -> float | None:
        task = self._state.tasks.get(key)
        if task is None:
            self._written_s.pop(key, None)
            self._refusals.forget(key)
            return None
        try:
            return await self._do_next(task)
        except NotLeadingError:  # a renewal that was under way may keep the lease: then nobody else looks
            return _NOT_LEADING_S

    async def _do_next(self, task: GpuTask) -> float | None:
        view = self._state.view(task, time.time())
        step = decide(view)
        status = status_of(view, step.record)
        if task.is_deleted:
            return None
        if status != task.status and not is_read_before_told(view, step):
            refused_s = self._refusals.left_s(task.key, task.resource_version, view.now_s)
            wait_s = max(self._figures_wait_s(task, status), refused_s)
            if wait_s > 0 and step.action is None:
                return min(wait_s, step.again_s or wait_s)
            if wait_s <= 0:
                return await self._write(task, status)
        if step.action is None:
            return step.again_s
        return await self._act(view, step.action)

    def _figures_wait_s(self, task: GpuTask, status: GPUTaskStatus) -> float:
        """For how long a status need not be written yet."""
        if is_urgent(task.status, status):
            return 0.0
        return self._written_s.get(task.key, 0.0) + _FIGURES_S - time.time()

    async def _write(self, task: GpuTask, status: GPUTaskStatus) -> float:
        """Writes a status, and returns after how long the task is looked at again.

        One that is refused will be refused again: whoever makes a task may leave no room for a status.
        Nothing is done then that would have to be written down, and nobody else waits for it.
        """
        self._written_s[task.key] = time.time()
        self._metrics.writes.inc()
        try:
            is_written = await self._writer.write(task, status)
        except InvalidError as error:
            return self._note_refused(task, error.message or str(error))
        except UnkeptStatusError as error:
            return self._note_refused(task, str(error))
        if is_written:
            self._refusals.forget(task.key)
            self._tell(task, status)
        return 0.0

    def _note_refused(self, task: GpuTask, text: str) -> float:
        now_s = time.time()
        self._metrics.refused.inc()
        self._events.tell_refused_status(task, text)
        if self._refusals.note(task.key, task.resource_version, now_s):
            _log.warning("status is refused", task="/".join(task.key), error=excerpt(text, _LONGEST_LOGGED))
        return self._refusals.left_s(task.key, task.resource_version, now_s)

    async def _act(self, view: TaskView, action: TaskAction) -> float | None:
        task = view.task
        try:
            done = await self._perform(view, action)
        except NotFoundError:
            return _PODS_AGAIN_S  # its namespace, or what was to be changed, is gone
        except ApiError as error:
            if not (isinstance(error, InvalidError | ForbiddenError) or error.retry_after_s):
                raise
            self._hinder(view, action, error)
            return 0.0
        self._clear(task, action)
        if isinstance(done, Unmade):
            self._note(view, done.reason, done.sentence, _TAKEN_S)
            return 0.0
        if isinstance(action, CreateJob | SetReplicas | SetSuspended | SetDeadline):
            self._state.obstacles.pop(task.uid, None)
        return done

    async def _perform(self, view: TaskView, action: TaskAction) -> Unmade | float | None:
        task = view.task
        match action:
            case CreateService():
                return await self._writer.create_service(task) or _TURN_S
            case CreateJob():
                return await self._create_job(view, action)
            case DeleteJob(job):
                await self._writer.delete_job(job)
            case SetSuspended() | SetReplicas() | SetDeadline():
                await self._writer.change_job(action)
            case AskWhy():
                self._state.reports[task.uid] = await self._writer.ask_why(action, view.now_s)
            case AskToSave() | AdvanceMove() | DeleteMove():
                await self._move(view, action)
            case ReadEnds(job):
                self._state.ends[task.uid] = await self._writer.read_ends(task, job)
            case DeleteTask():
                await self._writer.delete_task(task)
                return _PODS_AGAIN_S
        return _TURN_S

    async def _create_job(self, view: TaskView, action: CreateJob) -> Unmade | float:
        task = view.task
        if action.attempt > 1 and await self._writer.has_live_pods(task):
            return _PODS_AGAIN_S  # the watch lags: pods of the last attempt still run
        taken = await self._writer.create_job(task, action)
        if taken is not None:
            return taken
        self._metrics.attempts.inc()
        _log.info("job is made", task="/".join(task.key), attempt=action.attempt)
        job = self._state.job_of(task, action.attempt)
        if task.restart == "InPlace" and job is not None and job.rules.restart == "All":
            self._events.tell_restarts_with_all(task)
        return _TURN_S

    async def _move(self, view: TaskView, action: AskToSave | AdvanceMove | DeleteMove) -> None:
        """Before the program is disturbed, its owner's word and the budgets are asked once more.

        What they say is decided upon at the next look.
        """
        if isinstance(action, DeleteMove):
            await self._writer.delete_move(action.move)
            return
        if isinstance(action, AskToSave):
            await self._writer.ask_to_save(action)
            return
        task, is_begun = view.task, action.phase in ("Saving", "Leaving")
        if is_begun and not await self._writer.is_current(task):
            return
        if is_begun and (forbidden := await self._writer.ask_budgets(task)):
            self._state.forbidden[task.uid] = forbidden
            return
        await self._writer.advance_move(action, view.now_s)
        self._state.forbidden.pop(task.uid, None)
        _log.info("move", task="/".join(task.key), move=action.move.name, phase=action.phase, why=action.why)

    def _clear(self, task: GpuTask, action: TaskAction) -> None:
        """What was in the way of such an action is not any more."""
        former = self._state.refused.get(task.uid, {}).pop(type(action), None)
        if former is not None and self._state.obstacles.get(task.uid) == former:
            del self._state.obstacles[task.uid]

    def _hinder(self, view: TaskView, action: TaskAction, error: ApiError) -> None:
        """What is refused is not tried again at once. Of a Move that cannot be written the log tells."""
        before = view.refused.get(type(action))
        obstacle = obstacle_after(error, view.task, before, time.time())
        self._state.refused.setdefault(view.task.uid, {})[type(action)] = obstacle
        self._metrics.faults.labels(type(error).__name__).inc()
        makes = isinstance(action, CreateService | CreateJob | SetReplicas | SetSuspended | SetDeadline)
        of_move = isinstance(action, AskToSave | AdvanceMove | DeleteMove)
        is_busy = obstacle.reason == "ApiBusy"
        if makes or not (of_move or is_busy):
            self._state.obstacles[view.task.uid] = obstacle
        elif of_move and not is_busy and obstacle.tries == 1:
            task, text = "/".join(view.task.key), error.message or str(error)
            _log.warning("move is refused", task=task, error=excerpt(text, _LONGEST_LOGGED))

    def _note(self, view: TaskView, reason: str, sentence: str, wait_s: float) -> None:
        """Remembers what is in the way, for this generation of the task."""
        text = " ".join(sentence.split())
        until_s = time.time() + wait_s
        self._state.obstacles[view.task.uid] = Obstacle(reason, text, view.task.generation, until_s)

    def _tell(self, task: GpuTask, status: GPUTaskStatus) -> None:
        self._events.tell(task, status)
        if task.status.phase == status.phase:
            return
        _log.info("task", task="/".join(task.key), phase=status.phase, why=status.why[:200])
        if status.phase in ("Completed", "Failed"):
            self._metrics.ended.labels(status.phase).inc()
        phases = Counter(one.status.phase for one in self._state.tasks.values())
        self._metrics.tasks.clear()
        for phase, count in phases.items():
            self._metrics.tasks.labels(phase).set(count)
