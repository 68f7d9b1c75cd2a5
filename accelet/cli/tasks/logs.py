"""What the ranks of a task wrote: read rank after rank, or followed while they run."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from accelet.cli.tasks.lines import LineCutter
from accelet.gputask.objects.names import ATTEMPT, MAIN, TASK_UID
from accelet.gputask.objects.pods import TaskPod, parse_pod
from accelet.gputask.objects.task import GpuTask, parse_task
from accelet.kinds.gputask import GPU_TASKS
from accelet.kube.apiresources import PODS
from accelet.kube.client import Client
from accelet.kube.errors import ApiError, MalformedObjectError, NotFoundError
from accelet.runtime.tasks import task_group

_SILENCE_S: Final = 86_400.0
_AGAIN_S: Final = 2.0
_MOST_FOLLOWED: Final = 64

Say = Callable[[str], None]
Show = Callable[[int, str], None]
"""Is given a rank, and one line of what it wrote."""


@dataclass(frozen=True, slots=True)
class LogWish:
    """`ranks` None stands for all, `attempt` None for the present one; `tail` are lines of each rank."""

    ranks: frozenset[int] | None = None
    attempt: int | None = None
    tail: int = 1000
    follow: bool = False


class LogReader:
    """Reads logs of tasks; `show` gets lines, `note` what else there is to say. Methods raise KubeError."""

    def __init__(self, client: Client, show: Show, note: Say) -> None:
        self._client, self._show, self._note = client, show, note

    async def read(self, namespace: str, name: str, wish: LogWish) -> None:
        """What every rank has written so far, the lowest first."""
        task = await self._task(namespace, name)
        pods = await self._pods(task, wish)
        if not pods:
            attempt = wish.attempt or task.status.attempt
            self._note(f"{namespace}/{name} has no such rank with a pod in attempt {attempt}")
        for pod in pods:
            await self._copy(pod, wish)

    async def follow(self, namespace: str, name: str, wish: LogWish) -> None:
        """What every rank writes, of later attempts too, until the task has ended or is gone."""
        followed: set[str] = set()
        async with task_group() as group:
            running: set[asyncio.Task[None]] = set()
            while True:
                task = await self._task(namespace, name)
                for pod in await self._pods(task, wish):
                    is_new = pod.uid not in followed and pod.phase != "Pending"
                    if is_new and len(running) < _MOST_FOLLOWED:
                        followed.add(pod.uid)
                        running.add(group.create_task(self._copy(pod, wish)))
                running = {one for one in running if not one.done()}
                if not running and task.status.phase in ("Completed", "Failed"):
                    return
                await asyncio.sleep(_AGAIN_S)

    async def _task(self, namespace: str, name: str) -> GpuTask:
        return parse_task(await self._client.get(GPU_TASKS, namespace, name))

    async def _pods(self, task: GpuTask, wish: LogWish) -> list[TaskPod]:
        attempt = wish.attempt or task.status.attempt
        query = {"labelSelector": f"{TASK_UID}={task.uid},{ATTEMPT}={attempt}"}
        found: list[TaskPod] = []
        async for page in self._client.list_pages(PODS, task.namespace, query):
            for item in page.items:
                try:
                    found.append(parse_pod(item))
                except MalformedObjectError as error:
                    self._note(f"not shown: {error}")
        chosen = [
            pod for pod in found if pod.rank is not None and (wish.ranks is None or pod.rank in wish.ranks)
        ]
        return sorted(chosen, key=lambda pod: (pod.rank or 0, pod.name))

    async def _copy(self, pod: TaskPod, wish: LogWish) -> None:
        rank, cutter = pod.rank or 0, LineCutter()
        follow = {"follow": "true"} if wish.follow else {}
        query = {"container": MAIN, "tailLines": str(wish.tail), **follow}
        try:
            async with self._client.read_log(pod.namespace, pod.name, query, _SILENCE_S) as stream:
                async for data in stream:
                    self._show_all(rank, cutter.feed(data))
        except NotFoundError:
            self._note(f"rank {rank}: its pod is gone")
        except ApiError as error:
            self._note(f"rank {rank}: {error.message or error}")
        self._show_all(rank, cutter.end())

    def _show_all(self, rank: int, lines: list[str]) -> None:
        for line in lines:
            self._show(rank, line)
