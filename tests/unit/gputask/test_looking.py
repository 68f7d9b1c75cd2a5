"""How often a task is looked at while its ranks bring news."""

import asyncio
import time
from dataclasses import dataclass, field, replace
from typing import cast

import pytest
from prometheus_client import CollectorRegistry

from accelet.control.writer import FencedWriter
from accelet.gputask.controller import Controller
from accelet.gputask.deciding.decide import decide
from accelet.gputask.deciding.status import status_of
from accelet.gputask.deciding.view import EndsRead, TaskTimes, TaskView
from accelet.gputask.events import TaskEvents
from accelet.gputask.metrics import TaskMetrics
from accelet.gputask.objects.jobs import JobCondition, TaskJob
from accelet.gputask.objects.pods import TaskPod
from accelet.gputask.objects.task import GpuTask
from accelet.gputask.state import TaskState
from accelet.gputask.writer import TaskWriter
from accelet.kinds.gputask import GPUTaskStatus
from accelet.kube.apiresources import ObjectApi
from accelet.kube.client import Client
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
