"""Writes plans down and carries them out; repeating any of it does no harm."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Protocol

from accelet.kube.apiresources import CONFIG_MAPS, PODS, ApiResource, Body, PatchOf
from accelet.kube.errors import (
    ConflictError,
    ExistsError,
    ForbiddenError,
    InvalidError,
    KubeError,
    NotFoundError,
)
from accelet.kube.podparser import parse_pod
from accelet.kube.pods import Pod
from accelet.scheduler.gangs.grouping import is_ours
from accelet.scheduler.metrics import SchedulerMetrics
from accelet.scheduler.record import Record, parse_record
from accelet.scheduler.release import Lift, lift_patch
from accelet.scheduler.state import SchedulerState

_TRIES = 4


class NotLeadingError(KubeError):
    """Another replica may be at work; nothing may be written."""


class RefusedError(KubeError):
    """The API server does not allow a plan's pods to be released; the text says why."""


class PlanApi(Protocol):
    """The requests it takes; `accelet.kube.client.Client` is one."""

    async def get(self, resource: ApiResource, namespace: str | None, name: str) -> bytes: ...

    async def create(self, resource: ApiResource, namespace: str | None, body: Body) -> bytes: ...

    async def replace(self, resource: ApiResource, namespace: str | None, name: str, body: Body) -> bytes: ...

    async def patch(
        self,
        resource: ApiResource,
        namespace: str | None,
        name: str,
        patch: Body | Sequence[Body],
        of: PatchOf,
        *,
        dry_run: bool = False,
    ) -> bytes: ...

    async def delete(
        self, resource: ApiResource, namespace: str | None, name: str, *, uid: str | None = None
    ) -> bytes: ...


class PlanWriter:
    """Acts on the API server, and tells the state at once what came of it.

    Every method raises NotLeadingError before a write once `may_write` says no, and KubeError.
    """

    def __init__(
        self, api: PlanApi, state: SchedulerState, metrics: SchedulerMetrics, may_write: Callable[[], bool]
    ) -> None:
        self._api, self._state, self._metrics, self._may_write = api, state, metrics, may_write

    async def write(self, record: Record) -> bool:
        """Writes a plan down, or takes over the one that is there already; whether that is the same.

        Raises:
            PlanTooLargeError: the gang is too large for one plan.
        """
        body, (namespace, name) = record.to_body(), record.key
        self._check()
        try:
            if record.resource_version:
                raw = await self._api.replace(CONFIG_MAPS, namespace, name, body)
            else:
                raw = await self._api.create(CONFIG_MAPS, namespace, body)
        except (ExistsError, ConflictError):
            raw = await self._api.get(CONFIG_MAPS, namespace, name)
        standing = parse_record(raw)
        self._state.set_record(standing)
        return standing.placements == record.placements

    async def erase(self, record: Record) -> None:
        """Ends a plan."""
        self._check()
        with suppress(NotFoundError):
            await self._api.delete(CONFIG_MAPS, *record.key)
        self._state.remove_record(record.key)

    async def rehearse(self, lifts: Iterable[Lift]) -> None:
        """Asks the API server about one pod of each shape, without effect.

        Raises:
            RefusedError: it says no.
        """
        by_shape = {(self._state.shape(lift.pod), lift.pod.gates): lift for lift in lifts}
        for lift in by_shape.values():
            try:
                await self._lift(lift, dry_run=True)
            except (InvalidError, ForbiddenError) as error:
                raise RefusedError(f"pod {lift.pod.name} cannot be released: {error}") from error

    async def lift(self, lifts: Sequence[Lift]) -> None:
        """Releases pods, as many at a time as the client has threads.

        Raises:
            KubeError: some could not be released; the others are.
        """
        results = await asyncio.gather(*(self._lift(lift) for lift in lifts), return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException):
                raise result

    async def remove(self, pod: Pod) -> None:
        """Deletes a pod so that its owner makes it anew."""
        self._check()
        with suppress(NotFoundError, ConflictError):  # it is gone already, or is another by now
            await self._api.delete(PODS, pod.namespace, pod.name, uid=pod.uid)

    async def _lift(self, lift: Lift, *, dry_run: bool = False) -> None:
        """One pod's patch, on its newest version."""
        for tries_left in range(_TRIES - 1, -1, -1):
            self._check()
            pod, patch = lift.pod, lift_patch(lift, self._state.prefix)
            try:
                raw = await self._api.patch(PODS, pod.namespace, pod.name, patch, "merge", dry_run=dry_run)
            except NotFoundError:
                return
            except ConflictError:
                if not tries_left:
                    raise
                newer = await self._read(pod)
                if newer is None or not any(is_ours(gate, self._state.prefix) for gate in newer.gates):
                    return
                lift = replace(lift, pod=newer)
                continue
            if not dry_run:
                self._state.renew_pod(parse_pod(raw, keeps_environment=False))
                self._metrics.released.inc()
            return

    async def _read(self, pod: Pod) -> Pod | None:
        """The pod as it is now; None if it is gone or another."""
        try:
            newer = parse_pod(await self._api.get(PODS, pod.namespace, pod.name), keeps_environment=False)
        except NotFoundError:
            return None
        self._state.renew_pod(newer)
        return newer if newer.uid == pod.uid else None

    def _check(self) -> None:
        if not self._may_write():
            raise NotLeadingError("this replica does not lead any more")
