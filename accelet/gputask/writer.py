"""Writes to the API server what was decided; repeating any of it does no harm."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from accelet.control.status import check_kept, status_patch
from accelet.control.writer import FencedWriter
from accelet.gputask.deciding.said import read_events, read_pod_events
from accelet.gputask.deciding.status import to_json
from accelet.gputask.deciding.view import (
    AdvanceMove,
    AskToSave,
    AskWhy,
    CreateJob,
    EndsRead,
    JobReport,
    SetDeadline,
    SetReplicas,
    SetSuspended,
)
from accelet.gputask.objects.jobs import TaskJob, parse_job, parse_service
from accelet.gputask.objects.launchers import DEFAULT_CLUSTER_DOMAIN
from accelet.gputask.objects.manifests import (
    deadline_patch,
    job_body,
    restarting_all,
    scale_patch,
    service_body,
    suspend_patch,
)
from accelet.gputask.objects.names import RULES, SAVE, TASK_UID, job_name
from accelet.gputask.objects.overlay import OverlayError
from accelet.gputask.objects.pods import parse_pod
from accelet.gputask.objects.task import GpuTask, parse_kept_task, parse_task
from accelet.gputask.state import TaskState
from accelet.kinds.gputask import GPU_TASKS, GPUTaskStatus
from accelet.kinds.move import MOVES, Move, parse_move
from accelet.kube.apiresources import JOBS, PODS, SERVICES, ApiResource
from accelet.kube.client import Client
from accelet.kube.errors import ConflictError, ExistsError, InvalidError, NotFoundError
from accelet.kube.objects import RawObject, WireObject, read_object
from accelet.kube.writing.disruption import BUDGETS, DisruptionBudget, parse_budget, why_forbidden

EVENTS_OF_CORE: Final = ApiResource("Event", "events")
"""Those of the Job controller, and by the same store those of events.k8s.io: selected by their object."""

_MOST_EVENTS: Final = "100"


@dataclass(frozen=True, slots=True)
class Unmade:
    """Why an object of a task was not made: its name is another's, or its author's template is refused."""

    sentence: str
    reason: str = "NameTaken"


class TaskWriter:
    """Acts on the API server, and tells the state at once what came of it.

    Every method raises NotLeadingError before a write once another replica leads, and KubeError.
    """

    def __init__(
        self,
        client: Client,
        writer: FencedWriter,
        state: TaskState,
        gate_prefix: str,
        cluster_domain: str = DEFAULT_CLUSTER_DOMAIN,
    ) -> None:
        self._client, self._writer, self._state = client, writer, state
        self._gate_prefix, self._cluster_domain = gate_prefix, cluster_domain

    async def write(self, task: GpuTask, status: GPUTaskStatus) -> bool:
        """Writes a status; False if the task has changed meanwhile, and must be looked at anew.

        Raises:
            UnkeptStatusError: the API server has left fields of it out.
        """
        after = to_json(status)
        patch = status_patch(to_json(task.status), after, task.resource_version)
        if patch is None:
            return True
        try:
            raw = await self._writer.patch(GPU_TASKS, *task.key, patch, "merge", subresource="status")
        except ConflictError:
            self._state.renew_task(parse_kept_task(await self._client.get(GPU_TASKS, *task.key)))
            return False
        except NotFoundError:
            self._state.remove_task(task)
            return False
        written = parse_kept_task(raw)
        self._state.renew_task(written)
        check_kept(after, to_json(written.status))
        return True

    async def is_current(self, task: GpuTask) -> bool:
        """Whether the API server has the task as it was seen, but for its status; tells the state if not."""
        now = parse_kept_task(await self._client.get(GPU_TASKS, *task.key))
        self._state.renew_task(now)
        return (now.uid, now.generation, now.approves) == (task.uid, task.generation, task.approves)

    async def create_service(self, task: GpuTask) -> Unmade | None:
        """Makes the task's Service, unless it has one."""
        try:
            raw = await self._writer.create(SERVICES, task.namespace, service_body(task))
        except ExistsError:
            raw = await self._client.get(SERVICES, task.namespace, task.name)
        service = parse_service(raw)
        if service.owner_uid != task.uid:
            return Unmade(f"a Service of the name {task.name} is there, and is not this task's")
        self._state.set_service(service)
        return None

    async def create_job(self, task: GpuTask, wanted: CreateJob) -> Unmade | None:
        """Makes the Job of an attempt, unless there is one. What it runs is read now: it is not kept."""
        whole = parse_task(await self._client.get(GPU_TASKS, *task.key))
        if whole.uid != task.uid:
            return Unmade("another task has its name by now")
        # The deadline was decided by the task as it was seen, and an edit since is to be noticed.
        seen = msgspec.structs.replace(whole.spec, deadline_seconds=task.spec.deadline_seconds)
        whole = replace(whole, spec=seen)
        try:
            raw = await self._create_job(whole, wanted)
        except OverlayError as error:
            return Unmade(str(error), "TemplateRefused")
        except ExistsError:
            raw = await self._client.get(JOBS, task.namespace, job_name(task.name, wanted.attempt))
        job = parse_job(raw)
        if job.owner_uid != task.uid:
            return Unmade(f"a Job of the name {job.name} is there, and is not this task's")
        self._state.set_job(job)
        return None

    async def _create_job(self, task: GpuTask, wanted: CreateJob) -> RawObject:
        """Makes the Job; without restarts in place where the API server does not take their rule.

        Kubernetes 1.35 refuses it, and older ones leave it out.
        """
        try:
            return await self._writer.create(JOBS, task.namespace, self._body(task, wanted))
        except InvalidError as error:
            if task.restart != "InPlace" or not any(RULES in cause for cause in error.causes):
                raise
        return await self._writer.create(JOBS, task.namespace, self._body(restarting_all(task), wanted))

    def _body(self, task: GpuTask, wanted: CreateJob) -> dict[str, Any]:
        return job_body(task, wanted.attempt, self._gate_prefix, wanted.deadline_s, self._cluster_domain)

    async def read_ends(self, task: GpuTask, job: TaskJob) -> EndsRead:
        """Which ranks of a Job ended by themselves, as the API server has their pods at this moment."""
        query = {"labelSelector": f"{TASK_UID}={task.uid}"}
        done: set[int] = set()
        async for page in self._client.list_pages(PODS, task.namespace, query):
            pods = [parse_pod(item) for item in page.items]
            done |= {
                pod.rank for pod in pods if pod.rank is not None and pod.is_done and pod.job_uid == job.uid
            }
        return EndsRead(job.uid, job.completed, frozenset(done))

    async def has_live_pods(self, task: GpuTask) -> bool:
        """Whether a pod of the task may be running, as the API server has it at this moment."""
        query = {"labelSelector": f"{TASK_UID}={task.uid}"}
        async for page in self._client.list_pages(PODS, task.namespace, query):
            if any(not parse_pod(item).has_ended for item in page.items):
                return True
        return False

    async def change_job(self, wanted: SetSuspended | SetReplicas | SetDeadline) -> None:
        """Patches this version of a Job; of another one it is decided anew."""
        job = wanted.job
        match wanted:
            case SetSuspended():
                patch = suspend_patch(job, suspended=wanted.suspended)
            case SetReplicas():
                patch = scale_patch(job, wanted.replicas)
            case SetDeadline():
                patch = deadline_patch(job, wanted.deadline_s, wanted.deadline_of)
        try:
            raw = await self._writer.patch(JOBS, *job.key, patch, "merge")
        except NotFoundError:
            self._state.remove_job(job)
            return
        except ConflictError:
            raw = await self._client.get(JOBS, *job.key)
        self._state.renew_job(parse_job(raw))

    async def delete_job(self, job: TaskJob) -> None:
        """Deletes this Job, and its pods after it."""
        with suppress(NotFoundError, ConflictError):
            await self._writer.delete(JOBS, *job.key, uid=job.uid, propagation="Background")
        self._state.renew_job(replace(job, is_deleted=True))

    async def delete_task(self, task: GpuTask) -> None:
        with suppress(NotFoundError, ConflictError):
            await self._writer.delete(GPU_TASKS, *task.key, uid=task.uid, propagation="Background")

    async def ask_why(self, wanted: AskWhy, now_s: float) -> JobReport:
        """What the Events of a Job say, and those of a pod that does not start."""
        job, pod = wanted.job, wanted.pod
        events = await self._list_events(job.namespace, job.uid)
        report = read_events(events, job.uid, now_s, wanted.again_s)
        if pod is None:
            return report
        said = read_pod_events(await self._list_events(pod.namespace, pod.uid))
        return replace(report, pod_uid=pod.uid, starting=said)

    async def _list_events(self, namespace: str, uid: str) -> Sequence[RawObject]:
        query = {"fieldSelector": f"involvedObject.uid={uid}", "limit": _MOST_EVENTS}
        return (await self._client.list_page(EVENTS_OF_CORE, namespace, query)).items

    async def advance_move(self, wanted: AdvanceMove, now_s: float) -> None:
        """Writes down that a Move has come to a phase; not if it has changed meanwhile."""
        move, save_by_s = wanted.move, wanted.save_by_s
        save_by = datetime.fromtimestamp(save_by_s, UTC) if save_by_s else None
        now = datetime.fromtimestamp(round(now_s, 6), UTC)
        after = move.status.advance(wanted.phase, wanted.reason, wanted.why, now, save_by=save_by)
        patch = status_patch(
            msgspec.to_builtins(move.status), msgspec.to_builtins(after), move.resource_version
        )
        if patch is None:
            return
        try:
            raw = await self._writer.patch(MOVES, *move.key, patch, "merge", subresource="status")
        except NotFoundError:
            self._state.remove_move(move)
            return
        except ConflictError:
            raw = await self._client.get(MOVES, *move.key)
        self._state.renew_move(parse_move(raw))

    async def delete_move(self, move: Move) -> None:
        """Deletes this Move, and no later one of its name."""
        with suppress(NotFoundError, ConflictError):
            await self._writer.delete(MOVES, *move.key, uid=move.uid)
        self._state.remove_move(move)

    async def ask_to_save(self, wanted: AskToSave) -> None:
        """Writes on pods for which Move, and until when, their programs are to save."""
        move = wanted.move
        until = move.status.save_by.isoformat() if move.status.save_by is not None else ""
        for pod in wanted.pods:
            said = {"metadata": {"uid": pod.uid, "annotations": {SAVE: f"{move.uid} {until}".rstrip()}}}
            with suppress(NotFoundError, ConflictError):
                raw = await self._writer.patch(PODS, *pod.key, said, "merge")
                self._state.renew_pod(parse_pod(raw))

    async def ask_budgets(self, task: GpuTask) -> str:
        """Why the task's pods may not end now, by the budgets of its namespace; empty if they may."""
        query = {"labelSelector": f"{TASK_UID}={task.uid}"}
        labels: list[Mapping[str, str]] = []
        async for page in self._client.list_pages(PODS, task.namespace, query):
            labels += [read_object(item, "Pod", WireObject).metadata.labels or {} for item in page.items]
        found: list[DisruptionBudget] = []
        async for page in self._client.list_pages(BUDGETS, task.namespace):
            found += [parse_budget(item) for item in page.items]
        return why_forbidden(task.namespace, labels, found)
