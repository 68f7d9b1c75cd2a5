"""What is asked of a cluster for `accelet task`."""

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

from accelet.cli.options import NO_KUBECONFIG
from accelet.cli.tasks.logs import LogReader, LogWish, Say, Show
from accelet.cli.tasks.queueing import JOB_UID, UNREADABLE, UNSERVED, say_queued, say_unanswered
from accelet.gputask.objects.names import APPROVE
from accelet.gputask.objects.task import GpuTask, parse_task
from accelet.kinds.gputask import GPU_TASKS
from accelet.kinds.move import MOVES, Move, parse_move
from accelet.kinds.wish import MOVE_TO, render_wish
from accelet.kube.apiresources import Body
from accelet.kube.client import Client
from accelet.kube.errors import (
    ApiError,
    ConfigurationError,
    ForbiddenError,
    KubeError,
    MalformedObjectError,
    NotFoundError,
)
from accelet.kube.kubeconfig import Kubeconfig
from accelet.scheduler.admission.kueue import WORKLOADS

API_S = 60.0
LOGS_S = 600.0

_MOST_WORKLOADS = "8"
"""Of one Job, which has one; whoever makes Workloads may give others its label."""


class TaskCalls:
    """Requests about tasks. Every method raises KubeError."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def read_logs(self, namespace: str, name: str, wish: LogWish, show: Show, note: Say) -> None:
        """Shows what a task's ranks wrote; while they run, where that is wished for."""
        reader = LogReader(self._client, show, note)
        await (reader.follow if wish.follow else reader.read)(namespace, name, wish)

    async def list(self, namespace: str | None) -> tuple[Sequence[GpuTask], Sequence[str]]:
        """All tasks by namespace and name, and a note on each that cannot be read."""
        found: list[GpuTask] = []
        notes: list[str] = []
        async for page in self._client.list_pages(GPU_TASKS, namespace):
            for item in page.items:
                try:
                    found.append(parse_task(item))
                except MalformedObjectError as error:
                    notes.append(f"not shown: {error}")
        return sorted(found, key=lambda one: one.key), notes

    async def get(self, namespace: str, name: str) -> GpuTask:
        return parse_task(await self._client.get(GPU_TASKS, namespace, name))

    async def create(self, namespace: str, body: dict[str, Any]) -> GpuTask:
        """Makes a task, in its own namespace where it names one."""
        place = str(body.get("metadata", {}).get("namespace") or namespace)
        return parse_task(await self._client.create(GPU_TASKS, place, body))

    async def suspend(self, namespace: str, name: str, *, suspended: bool) -> GpuTask:
        patch: Body = {"spec": {"suspend": suspended}}
        return parse_task(await self._client.patch(GPU_TASKS, namespace, name, patch, "merge"))

    async def approve(self, namespace: str, name: str, move: str) -> None:
        """Says on a task that a Move of it may be carried out."""
        await self._annotate(namespace, name, APPROVE, move)

    async def ask_for_move(self, namespace: str, name: str, to: str | None) -> GpuTask:
        """Says on a task that a person wants it elsewhere; the scheduler answers with a Move."""
        return await self._annotate(namespace, name, MOVE_TO, render_wish(to, datetime.now(UTC)))

    async def moves(self, task: GpuTask) -> Sequence[Move]:
        """The Moves of a task, the newest last; none where the cluster does not know the kind."""
        found: list[Move] = []
        try:
            async for page in self._client.list_pages(MOVES, task.namespace, _of(task)):
                for item in page.items:
                    with suppress(MalformedObjectError):
                        found.append(parse_move(item))
        except (NotFoundError, ForbiddenError):
            return []
        own = [one for one in found if one.spec.task.uid == task.uid]
        return sorted(own, key=lambda one: (one.created_s, one.name))

    async def queued(self, task: GpuTask) -> str:
        """Why Kueue holds the task's Job, in a sentence; empty where the task does not wait in a queue."""
        if task.spec.queue is None or task.status.phase != "Queued":
            return ""
        query = {"labelSelector": f"{JOB_UID}={task.status.job_uid}", "limit": _MOST_WORKLOADS}
        try:
            return say_queued((await self._client.list_page(WORKLOADS, task.namespace, query)).items)
        except NotFoundError:
            return UNSERVED
        except ForbiddenError:
            return UNREADABLE
        except ApiError as error:  # Kueue's own webhook answers such lists: it may be what is down
            return say_unanswered(error)

    async def _annotate(self, namespace: str, name: str, key: str, text: str) -> GpuTask:
        patch: Body = {"metadata": {"annotations": {key: text}}}
        return parse_task(await self._client.patch(GPU_TASKS, namespace, name, patch, "merge"))

    async def remove(self, namespace: str, name: str) -> None:
        await self._client.delete(GPU_TASKS, namespace, name, propagation="Background")


def _of(task: GpuTask) -> Mapping[str, str]:
    return {"fieldSelector": f"spec.task.name={task.name}"}


def call_cluster(
    kubeconfig: Kubeconfig | None,
    ask: Callable[[TaskCalls], Coroutine[Any, Any, Any]],
    within_s: float | None,
) -> tuple[Any, str]:
    """The answer, and an empty text; or None, and in a sentence why there is none."""
    try:
        return asyncio.run(_call(kubeconfig, ask, within_s)), ""
    except ConfigurationError as error:
        hint = "" if kubeconfig else f"\n{NO_KUBECONFIG}"
        return None, f"{error}{hint}"
    except TimeoutError:
        return None, f"the API server has not answered within {within_s:.0f} s"
    except NotFoundError as error:
        is_task = "gputasks.accelet.dev" in error.message
        unknown = "this cluster knows no GPUTasks; kubectl apply -k deploy/tasks"
        return None, error.message if is_task else unknown
    except ApiError as error:
        return None, error.message or str(error)
    except KubeError as error:
        return None, str(error)


async def _call(
    kubeconfig: Kubeconfig | None,
    ask: Callable[[TaskCalls], Coroutine[Any, Any, Any]],
    within_s: float | None,
) -> Any:
    client = await Client.connect(kubeconfig)
    try:
        async with asyncio.timeout(within_s):
            return await ask(TaskCalls(client))
    finally:
        client.close()
