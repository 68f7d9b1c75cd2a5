"""Writes plans down and carries them out; repeating any of it does no harm."""

import asyncio
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime

from accelet.control.writer import FencedWriter
from accelet.kinds.waiting import WaitingReason
from accelet.kube.apiresources import CONFIG_MAPS, JOBS, PODS, Body, eviction_of
from accelet.kube.errors import (
    ConflictError,
    ExistsError,
    ForbiddenError,
    InvalidError,
    MalformedObjectError,
    NotFoundError,
    TooManyError,
)
from accelet.kube.podparser import parse_pod
from accelet.kube.pods import Pod
from accelet.scheduler.errors import (
    EvictionRefusedError,
    LiftRefusedError,
    PartlyRefusedError,
    PlanRefusedError,
    RemedyRefusedError,
)
from accelet.scheduler.gangs.grouping import is_ours
from accelet.scheduler.gangs.jobs import SUSPENDED
from accelet.scheduler.gangs.noting import note_patch
from accelet.scheduler.gangs.workload import Workload, parse_workload
from accelet.scheduler.metrics import SchedulerMetrics
from accelet.scheduler.record import Record, parse_record
from accelet.scheduler.release import Lift, lift_patch
from accelet.scheduler.state import SchedulerState


class PlanWriter:
    """Acts on the API server, and tells the state at once what came of it.

    Every method raises KubeError, and NotLeadingError once the `writer` may not write any more.
    """

    def __init__(self, writer: FencedWriter, state: SchedulerState, metrics: SchedulerMetrics) -> None:
        self._writer, self._state, self._metrics = writer, state, metrics

    async def write(self, record: Record) -> bool:
        """Writes a plan down, or takes over the one that is there already; whether that is the same.

        Raises:
            PlanTooLargeError: the gang is too large for one plan.
            PlanRefusedError: the API server does not take it, or something else has its name.
        """
        body, (namespace, name) = record.to_body(), record.key
        try:
            if record.resource_version:
                raw = await self._writer.replace(CONFIG_MAPS, namespace, name, body)
            else:
                raw = await self._writer.create(CONFIG_MAPS, namespace, body)
        except (ExistsError, ConflictError):
            raw = await self._writer.get(CONFIG_MAPS, namespace, name)
        except (ForbiddenError, InvalidError) as error:
            raise PlanRefusedError(f"its plan cannot be written down: {error}") from error
        try:
            standing = parse_record(raw)
        except MalformedObjectError as error:
            raise PlanRefusedError(f"{error}: something else has the name of its plan; delete it") from error
        self._state.set_record(standing)
        return standing.placements == record.placements

    async def erase(self, record: Record) -> None:
        """Ends a plan, this one and no later one of the same gang."""
        try:
            with suppress(NotFoundError):
                await self._writer.delete(CONFIG_MAPS, *record.key, uid=record.uid or None)
        except ConflictError:
            if await self._stands(record):
                raise
            return  # a successor has its name
        self._state.remove_record(record)

    async def _stands(self, record: Record) -> bool:
        """Whether the plan of this name is still this one."""
        try:
            return parse_record(await self._writer.get(CONFIG_MAPS, *record.key)).uid == record.uid
        except (NotFoundError, MalformedObjectError):
            return False

    async def rehearse(self, lifts: Iterable[Lift]) -> None:
        """Asks the API server about one pod of each shape, without effect.

        Raises:
            LiftRefusedError: it says no.
        """
        by_shape = {(self._state.shape(lift.pod), lift.pod.gates): lift for lift in lifts}
        for lift in by_shape.values():
            try:
                await self._lift(lift, dry_run=True)
            except (InvalidError, ForbiddenError) as error:
                raise LiftRefusedError(
                    f"pod {lift.pod.name} cannot be released: {error}", lift.pod
                ) from error

    async def lift(self, lifts: Sequence[Lift]) -> None:
        """Releases pods, as many at a time as the client has threads.

        Raises:
            PartlyRefusedError: the API server does not allow it of some; the others are released.
            KubeError: some could not be released; the others are.
        """
        results = await asyncio.gather(*(self._lift(lift) for lift in lifts), return_exceptions=True)
        refused = [
            (lift.pod, result)
            for lift, result in zip(lifts, results, strict=True)
            if isinstance(result, InvalidError | ForbiddenError)
        ]
        for result in results:
            if isinstance(result, BaseException) and not isinstance(result, InvalidError | ForbiddenError):
                raise result
        if refused:
            first, error = refused[0]
            many = f"{len(refused)} of {len(lifts)} pods are not released, among them {first.name}"
            raise PartlyRefusedError(f"{many}: {error}", tuple(pod for pod, _ in refused)) from error

    async def note(self, pod: Pod, reason: WaitingReason) -> bool:
        """Has a pod say why its gang waits; False where it says so already, or is gone."""
        patch = note_patch(pod, reason)
        if patch is None:
            return False
        try:
            self._read(await self._writer.patch(PODS, pod.namespace, pod.name, patch, "merge"))
        except (NotFoundError, ConflictError):
            return False  # another pod has its name by now
        return True

    async def evict(self, pod: Pod, why: str) -> bool:
        """Has a pod's owner make it anew: says on it that it was disrupted, then deletes it.

        So kube-scheduler and the taint manager evict too; a right to the eviction subresource could not be
        held to pods of ours. False where the pod has changed meanwhile: it may have been nominated or bound.

        Raises:
            RemedyRefusedError: the API server does not allow it.
        """
        condition = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": "NodeDoesNotTakeIt",
            "message": why,
            "lastTransitionTime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        }
        patch = {**_only(pod.uid, pod.resource_version), "status": {"conditions": [condition]}}
        try:
            raw = await self._writer.patch(
                PODS, pod.namespace, pod.name, patch, "strategic", subresource="status"
            )
            marked = parse_pod(raw, keeps_environment=False)
            await self._writer.delete(
                PODS,
                marked.namespace,
                marked.name,
                uid=marked.uid,
                resource_version=marked.resource_version,
            )
        except NotFoundError:
            return True
        except ConflictError:
            return False
        except (ForbiddenError, InvalidError) as error:
            raise RemedyRefusedError(f"it cannot be evicted: {error}") from error
        return True

    async def preempt(self, pod: Pod) -> bool:
        """Evicts a pod of a gang of lower priority; False where it must be asked for again.

        That is where a disruption budget has it wait, or has changed in between.

        The API server asks the budgets, marks the pod as disrupted and has its node end it.

        Raises:
            EvictionRefusedError: the API server does not allow it.
        """
        eviction = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": pod.name, "namespace": pod.namespace},
            "deleteOptions": {"preconditions": {"uid": pod.uid}},
        }
        try:
            await self._writer.create(eviction_of(pod.name), pod.namespace, eviction)
        except (TooManyError, ConflictError):
            return False
        except NotFoundError:
            return True
        except (ForbiddenError, InvalidError) as error:
            raise EvictionRefusedError(f"it cannot be evicted: {error}") from error
        self._metrics.preempted.inc()
        return True

    async def suspend(self, job: Workload) -> bool:
        """Has a Job end all of its pods, without counting any; False where it has changed meanwhile.

        Raises:
            RemedyRefusedError: the API server does not allow it.
        """
        return await self._set_suspended(job, is_suspended=True)

    async def resume(self, job: Workload) -> bool:
        """Has a Job that we suspended make its pods again; raises as `suspend` does."""
        return await self._set_suspended(job, is_suspended=False)

    async def _set_suspended(self, job: Workload, *, is_suspended: bool) -> bool:
        known = _only(job.uid, job.resource_version)["metadata"]
        note = {"annotations": {SUSPENDED: "true" if is_suspended else None}}
        patch = {"metadata": {**known, **note}, "spec": {"suspend": is_suspended}}
        try:
            raw = await self._writer.patch(JOBS, job.namespace, job.name, patch, "merge")
        except NotFoundError:
            return True
        except ConflictError:
            return False
        except (ForbiddenError, InvalidError) as error:
            verb = "suspended" if is_suspended else "resumed"
            raise RemedyRefusedError(f"its Job cannot be {verb}: {error}") from error
        self._state.renew_workload(parse_workload(raw, "Job"))
        return True

    async def _lift(self, lift: Lift, *, dry_run: bool = False) -> None:
        """One pod's patch, on its newest version; none for a pod that is gone, another, or lifted already."""
        prefix = self._state.prefix

        def patch_of(pod: Pod) -> Body | None:
            is_lifted = not any(is_ours(gate, prefix) for gate in pod.gates)
            if is_lifted or pod.uid != lift.pod.uid:
                return None
            return lift_patch(replace(lift, pod=pod), prefix)

        key = (lift.pod.namespace, lift.pod.name)
        raw = await self._writer.patch_newest(
            PODS, key, lift.pod, read=self._read, patch_of=patch_of, dry_run=dry_run
        )
        if raw is not None and not dry_run:
            self._read(raw)
            self._metrics.released.inc()

    def _read(self, raw: bytes) -> Pod:
        """A pod as it is now, which the state has then too."""
        pod = parse_pod(raw, keeps_environment=False)
        self._state.renew_pod(pod)
        return pod


def _only(uid: str, resource_version: str) -> dict[str, dict[str, object]]:
    """What has a patch hold for this version of this object alone."""
    return {"metadata": {"uid": uid, "resourceVersion": resource_version}}
