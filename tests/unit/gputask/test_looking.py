"""How often a task is looked at while its ranks bring news."""

import asyncio
import time
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import msgspec
import pytest
from prometheus_client import CollectorRegistry

from accelet.control.writer import FencedWriter
from accelet.gputask.controller import Controller
from accelet.gputask.deciding.decide import decide
from accelet.gputask.deciding.moving import MOST_ENDED
from accelet.gputask.deciding.status import status_of, to_json
from accelet.gputask.deciding.view import (
    AdvanceMove,
    AskToSave,
    EndsRead,
    Obstacle,
    SetDeadline,
    SetReplicas,
    SetSuspended,
    TaskTimes,
    TaskView,
)
from accelet.gputask.events import TaskEvents
from accelet.gputask.metrics import TaskMetrics
from accelet.gputask.objects.jobs import JobCondition, TaskJob
from accelet.gputask.objects.pods import TaskPod
from accelet.gputask.objects.task import GpuTask, parse_kept_task
from accelet.gputask.state import TaskState
from accelet.gputask.writer import TaskWriter
from accelet.kinds.gputask import GPUTaskStatus, TaskConditionShape
from accelet.kinds.move import Move, MoveGain, MovePlace, MoveSpec, MoveStatus, MoveTask
from accelet.kube.apiresources import ApiResource, Body, ObjectApi
from accelet.kube.client import Client
from accelet.kube.errors import ForbiddenError
from accelet.kube.recording.eventlog import Message
from tests.unit.gputask.world import make_task

_NEWS = 300
_GATHERED_S = 0.2
"""What docs/gputask.md says of 2,000 ranks."""


class CountedState(TaskState):
    """Counts how often a task is looked at."""

    looks = 0

    def view(self, task: GpuTask, now_s: float) -> TaskView:
        self.looks += 1
        return super().view(task, now_s)


@dataclass
class Nobody:
    """An API server that nobody has anything to ask of."""

    said: list[Message] = field(default_factory=list)


class NotingWriter(TaskWriter):
    """Notes each status that it writes; all ranks that a Job counts ended by themselves, whoever asks."""

    def __init__(self, state: TaskState) -> None:
        nobody = Nobody()
        fenced = FencedWriter(cast(ObjectApi, nobody), lambda: True)
        super().__init__(cast(Client, nobody), fenced, state, "gate-")
        self.known, self.phases = state, list[str]()

    async def write(self, task: GpuTask, status: GPUTaskStatus) -> bool:
        self.phases.append(status.phase)
        version = str(int(task.resource_version) + 1)
        self.known.set_task(replace(task, status=status, resource_version=version))
        return True

    async def read_ends(self, task: GpuTask, job: TaskJob) -> EndsRead:
        return EndsRead(job.uid, job.completed, frozenset(range(job.succeeded)))


def _running(ranks: int) -> tuple[CountedState, GpuTask]:
    """A task all of whose ranks run, of which nothing is to be written."""
    state = CountedState(TaskTimes())
    task = make_task(spec={"replicas": ranks, "rendezvous": "None"})
    state.set_task(task)
    for version in range(2, 6):
        view = state.view(task, time.time())
        status = status_of(view, decide(view).record)
        task = replace(task, status=status, resource_version=str(version))
        state.set_task(task)
        job = TaskJob("ml", "train-1", "job", str(version), task.uid, 1, parallelism=ranks, active=ranks)
        state.set_job(job)
        for rank in range(ranks):
            pod = TaskPod("ml", f"train-1-{rank}", f"uid-{rank}", task.uid, "job", rank)
            state.set_pod(replace(pod, phase="Running", node=f"n{rank}", is_ready=True))
    state.looks = 0
    return state, task


@pytest.mark.parametrize("ranks", [2, 2000])
async def test_news_of_many_ranks_are_gathered_and_of_few_looked_at_at_once(ranks: int) -> None:
    state, task = _running(ranks)
    nobody = Nobody()
    fenced = FencedWriter(cast(ObjectApi, nobody), lambda: True)
    writer = TaskWriter(cast(Client, nobody), fenced, state, "gate-")
    controller = Controller(state, writer, TaskMetrics(CollectorRegistry()), TaskEvents(nobody.said.append))
    work = asyncio.create_task(controller.run())
    began_s = time.monotonic()
    for _ in range(_NEWS):
        controller.see(task.key)
        for _ in range(4):
            await asyncio.sleep(0)
    took_s = time.monotonic() - began_s
    looks = state.looks
    async with asyncio.timeout(60):
        while not state.looks:  # noqa: ASYNC110 - it is looked at when its time has come
            await asyncio.sleep(0.01)
    assert not work.done()
    work.cancel()
    if ranks < 100:
        assert looks >= _NEWS / 4
    else:
        assert looks <= 1 + took_s / _GATHERED_S


@pytest.mark.parametrize("seen", [0, 1, 2])
async def test_a_job_that_is_complete_before_its_pods_are_seen_to_have_ended_is_told_in_one_write(
    seen: int,
) -> None:
    state, task = _running(2)
    job = TaskJob("ml", "train-1", "job", "9", task.uid, 1, parallelism=2, succeeded=2, completed="0-1")
    state.set_job(replace(job, complete=JobCondition("CompletionsReached", "")))
    for rank in range(seen):
        pod = TaskPod("ml", f"train-1-{rank}", f"uid-{rank}", task.uid, "job", rank)
        state.set_pod(replace(pod, phase="Succeeded", node=f"n{rank}", exit_code=0))
    writer = NotingWriter(state)
    told = TaskEvents(list[Message]().append)
    work = asyncio.create_task(Controller(state, writer, TaskMetrics(CollectorRegistry()), told).run())
    async with asyncio.timeout(60):
        while state.tasks[task.key].status.phase != "Completed":  # noqa: ASYNC110 - it is looked at in a task
            await asyncio.sleep(0.01)
    work.cancel()
    status = state.tasks[task.key].status
    assert (writer.phases, status.replicas, status.ready_replicas) == (["Completed"], 0, 0)


class RefusedWriter(NotingWriter):
    """Notes what it is asked to do besides writing a status, all of which a policy refuses."""

    def __init__(self, state: TaskState) -> None:
        super().__init__(state)
        self.asked: list[str] = []

    async def _refuse(self, what: str) -> None:
        self.asked.append(what)
        await asyncio.sleep(0)
        raise ForbiddenError("DELETE it", 403, "Forbidden", "a policy says no")

    async def delete_job(self, job: TaskJob) -> None:
        await self._refuse(f"delete {job.name}")

    async def delete_task(self, task: GpuTask) -> None:
        await self._refuse(f"delete {task.name}")

    async def delete_move(self, move: Move) -> None:
        await self._refuse(f"delete {move.name}")

    async def advance_move(self, wanted: AdvanceMove, now_s: float) -> None:
        await self._refuse(f"{wanted.phase} {wanted.move.name}")

    async def change_job(self, wanted: SetSuspended | SetReplicas | SetDeadline) -> None:
        assert isinstance(wanted, SetSuspended)
        self.asked.append(f"suspended {wanted.suspended}")
        job = replace(wanted.job, is_suspended=wanted.suspended, resource_version="99")
        self.known.set_job(job)


def _renewed(state: TaskState, task: GpuTask, **said: Any) -> GpuTask:
    status = msgspec.structs.replace(task.status, **said)
    again = replace(task, status=status, resource_version=str(int(task.resource_version) + 1))
    state.set_task(again)
    return again


def _move(task: GpuTask, name: str, status: MoveStatus) -> Move:
    spec = MoveSpec(
        task=MoveTask(name=task.name, uid=task.uid, attempt=1),
        takes={},
        places=(MovePlace(rank=0, pod_uid="gone", from_node="n0", to_node="n9"),),
        gain=MoveGain(kind="Person"),
        valid_until=datetime.now(UTC) - timedelta(seconds=1),
    )
    return Move(task.namespace, name, f"uid-{name}", "1", 0.0, spec, status)


@pytest.mark.parametrize("what", ["former Job", "task", "Move", "old Moves"])
async def test_what_is_refused_is_not_asked_for_again_at_once_and_holds_nothing_else_up(what: str) -> None:
    """Who makes Jobs may have made one that a policy keeps; rights may be of another version."""
    state, task = _running(2)
    ended = datetime.now(UTC) - timedelta(seconds=9)
    if what == "former Job":
        state.set_job(TaskJob("ml", "train-x", "another", "3", task.uid, 0))
    elif what == "task":
        task = replace(task, spec=msgspec.structs.replace(task.spec, ttl_seconds=1))
        done = TaskConditionShape(type="Completed", status="True", last_transition_time=ended)
        _renewed(state, task, completion_time=ended, conditions=(done,))
    elif what == "Move":
        state.set_move(_move(task, "m", MoveStatus()))
    else:
        for number in range(MOST_ENDED + 1):
            state.set_move(_move(task, f"m{number:02}", MoveStatus(phase="Done")))
    writer = RefusedWriter(state)
    events = TaskEvents(list[Message]().append)
    controller = Controller(state, writer, TaskMetrics(CollectorRegistry()), events)
    work = asyncio.create_task(controller.run())
    for _ in range(500):
        await asyncio.sleep(0)
    assert len(writer.asked) == 1
    is_moved = "Move" in what
    if is_moved:
        spec = msgspec.structs.replace(task.spec, suspend=True)
        state.set_task(replace(state.tasks[task.key], spec=spec, resource_version="50"))
        controller.see(task.key)
        async with asyncio.timeout(60):
            while "suspended True" not in writer.asked:  # noqa: ASYNC110 - it is looked at in a task
                await asyncio.sleep(0.01)
    assert not work.done()
    work.cancel()
    accepted = next((one for one in state.tasks[task.key].status.conditions if one.type == "Accepted"), None)
    assert what == "task" or (accepted is not None and (accepted.status == "True") == is_moved)


class OldKind:
    """An API server whose kind has no `jobUid` in its status yet."""

    def __init__(self, task: GpuTask) -> None:
        self.task, self.writes = task, 0

    async def patch(
        self, resource: ApiResource, namespace: str, name: str, body: Body, *_: object, **__: object
    ) -> bytes:
        self.writes += 1
        said = {**cast("dict[str, Any]", body["status"])}
        said.pop("jobUid", None)
        status = {**to_json(self.task.status), **said}
        version = str(int(self.task.resource_version) + bool(said))
        metadata = {"name": name, "namespace": namespace, "uid": self.task.uid, "resourceVersion": version}
        raw = msgspec.json.encode(
            {
                "metadata": {**metadata, "generation": self.task.generation},
                "spec": msgspec.to_builtins(self.task.spec),
                "status": {key: value for key, value in status.items() if value is not None},
            }
        )
        self.task = parse_kept_task(raw)
        return raw


async def test_a_status_of_which_the_kind_keeps_only_a_part_is_not_written_without_end() -> None:
    """The controller was brought up to date, and its kind was not."""
    state, task = CountedState(TaskTimes()), make_task(spec={"replicas": 1, "rendezvous": "None"})
    state.set_task(task)
    state.set_job(TaskJob("ml", "train-1", "job", "3", task.uid, 1, active=1))
    api, said = OldKind(task), list[Message]()
    fenced = FencedWriter(cast(ObjectApi, api), lambda: True)
    writer = TaskWriter(cast(Client, api), fenced, state, "gate-")
    controller = Controller(state, writer, TaskMetrics(CollectorRegistry()), TaskEvents(said.append))
    work = asyncio.create_task(controller.run())
    for _ in range(500):
        await asyncio.sleep(0)
    assert not work.done()
    work.cancel()
    assert api.writes == 2, "the attempt, and the Job's UID once"
    assert [(one.reason, "keeps no jobUid" in one.note) for one in said] == [("StatusRefused", True)]


def test_a_pod_that_cannot_be_asked_to_save_keeps_its_task_from_leaving_no_longer_than_others() -> None:
    """Whoever makes a task may leave no room for another annotation on its pods."""
    state, task = _running(1)
    now_s = time.time()
    spec = MoveSpec(
        task=MoveTask(name=task.name, uid=task.uid, attempt=1),
        takes={},
        places=(MovePlace(rank=0, pod_uid="uid-0", from_node="n0", to_node="n9"),),
        gain=MoveGain(kind="Person"),
        valid_until=datetime.fromtimestamp(now_s + 9999.0, UTC),
    )
    saving = MoveStatus(phase="Saving", save_by=datetime.fromtimestamp(now_s + 30.0, UTC))
    state.set_move(Move(task.namespace, "m", "uid-m", "1", now_s, spec, saving))
    assert isinstance(decide(state.view(task, now_s)).action, AskToSave)
    state.refused[task.uid] = {AskToSave: Obstacle("JobRefused", "too long", task.generation, now_s + 3600.0)}
    step = decide(state.view(task, now_s))
    assert step.action is None
    assert step.again_s is not None
    assert step.again_s <= 30.0
    left = decide(state.view(task, now_s + 31.0)).action
    assert isinstance(left, AdvanceMove)
    assert left.phase == "Leaving"
