"""Makes a GPUTask of accelet.dev of each of falldio.com/v1, and tells there how far it is."""

from contextlib import suppress
from typing import Final

import msgspec

from accelet.control.errors import NotLeadingError
from accelet.control.refusedstatuses import RefusedStatuses
from accelet.control.status import status_patch
from accelet.control.watches import WatchedKind, Watches, WatchFaults
from accelet.control.workqueue import WorkQueue
from accelet.control.writer import FencedWriter
from accelet.gputask.metrics import TaskMetrics
from accelet.gputask.objects.task import parse_task
from accelet.gputask.original import (
    NotConvertibleError,
    OriginalOptions,
    OriginalTask,
    parse_original,
    refuse,
    render_task,
    status_of_original,
)
from accelet.gputask.setbacks import AGAIN_S, Setbacks, StrayLooks
from accelet.gputask.state import TaskState
from accelet.kinds.gputask import GPU_TASKS
from accelet.kinds.originaltask import ORIGINAL_TASKS, OriginalTaskStatus
from accelet.kube.apiresources import PODS
from accelet.kube.client import Client
from accelet.kube.errors import (
    ConflictError,
    ExistsError,
    ForbiddenError,
    InvalidError,
    NotFoundError,
)
from accelet.kube.objects import ObjectKey, WireObject, read_object, read_owners
from accelet.kube.watching.source import Scope
from accelet.kube.watching.store import Change
from accelet.kube.writing.ownership import controller_of
from accelet.runtime.clock import SYSTEM_CLOCK, Clock
from accelet.runtime.excerpts import excerpt
from accelet.runtime.logs import Log

_log = Log(__name__)
_LONGEST_LOGGED: Final = 300
_OF_ORIGINAL: Final = "app=gpu-task"
"""The label of the pods that the original's controller makes, and deletes again at each of its ticks."""


class Originals:
    """The originals of a cluster, and what one leader does for them."""

    def __init__(
        self, client: Client, state: TaskState, metrics: TaskMetrics, *, clock: Clock = SYSTEM_CLOCK
    ) -> None:
        self._client, self._state, self._metrics, self._clock = client, state, metrics, clock
        self._setbacks, self._looks, self._refusals = Setbacks(), StrayLooks(), RefusedStatuses()
        self._known: dict[ObjectKey, OriginalTask] = {}
        self._queue: WorkQueue[ObjectKey] | None = None
        kind = WatchedKind(Scope(ORIGINAL_TASKS), parse_original, self._change, "originals")
        self._watches = Watches(client, (kind,), WatchFaults.counted(metrics.faults))

    async def watch(self) -> None:
        """Watches until it is cancelled."""
        await self._watches.run()

    async def lead(self, writer: FencedWriter) -> None:
        """Works until it is cancelled."""
        self._queue = WorkQueue(self._clock)
        for key in self._known:
            self._queue.add(key)
        try:
            await self._queue.work(lambda key: self._look(key, writer), parallel=1)
        finally:
            self._queue = None

    def see(self, key: ObjectKey) -> None:
        """A GPUTask of accelet.dev came, changed or went."""
        if self._queue is not None and key in self._known:
            self._queue.add(key)

    async def _look(self, key: ObjectKey, writer: FencedWriter) -> float | None:
        one = self._known.get(key)
        if one is None or one.is_deleted:
            return None
        try:
            task = self._state.tasks.get(key)
            if task is None:
                return await self._make(one, writer)
            return await self._tell(one, status_of_original(one, task), writer)
        except NotLeadingError:  # a renewal that was under way may keep the lease: then nobody else looks
            return AGAIN_S

    async def _make(self, one: OriginalTask, writer: FencedWriter) -> float | None:
        if (left_s := self._setbacks.left_s(one, self._clock.now_s())) > 0:
            return left_s
        if stray := await self._stray(one.namespace):
            await self._tell(one, refuse(stray), writer)
            return AGAIN_S
        try:
            body = render_task(one, OriginalOptions())
            self._state.set_task(parse_task(await writer.create(GPU_TASKS, one.namespace, body)))
        except ExistsError:
            return self._setbacks.note(one, self._clock.now_s())  # the watch of tasks brings it
        except NotConvertibleError as error:
            await self._tell(one, refuse(str(error)), writer)
            return None
        except (InvalidError, ForbiddenError) as error:
            again_s = self._setbacks.note(one, self._clock.now_s())
            await self._tell(one, refuse(error.message or str(error)), writer)
            return again_s
        self._setbacks.forget(one.key)
        return None

    async def _stray(self, namespace: str) -> str:
        """Why nothing is made here yet, where pods of the original's controller were about lately."""
        known = self._looks.known(namespace, self._clock.now_s())
        if known is not None:
            return known
        stray = await self._look_for_stray(namespace)
        self._looks.note(namespace, stray, self._clock.now_s())
        return stray

    async def _look_for_stray(self, namespace: str) -> str:
        async for page in self._client.list_pages(PODS, namespace, {"labelSelector": _OF_ORIGINAL}):
            for item in page.items:
                metadata = read_object(item, "Pod", WireObject).metadata
                if controller_of(read_owners(metadata.owner_references)) is None:
                    return (
                        f"pod {metadata.name} ({_OF_ORIGINAL}) has no owner: the original's controller made "
                        "it. Stop that one and delete its pods first"
                    )
        return ""

    async def _tell(
        self, one: OriginalTask, status: OriginalTaskStatus, writer: FencedWriter
    ) -> float | None:
        """Writes a status; returns after how long it is tried again where it is refused for good."""
        patch = status_patch(
            msgspec.to_builtins(one.status), msgspec.to_builtins(status), one.resource_version
        )
        if patch is None:
            return None
        if (left_s := self._refusals.left_s(one.key, one.resource_version, self._clock.now_s())) > 0:
            return left_s
        # What it is by now, the watch brings: an answer may come after the news that it was deleted.
        with suppress(ConflictError, NotFoundError):
            try:
                await writer.patch(ORIGINAL_TASKS, *one.key, patch, "merge", subresource="status")
            except InvalidError as error:
                return self._note_refused(one, error)
            self._refusals.forget(one.key)
        return None

    def _note_refused(self, one: OriginalTask, error: InvalidError) -> float:
        self._metrics.refused.inc()
        now_s = self._clock.now_s()
        if self._refusals.note(one.key, one.resource_version, now_s):
            text = excerpt(error.message or str(error), _LONGEST_LOGGED)
            _log.warning("status of an original is refused", task="/".join(one.key), error=text)
        return self._refusals.left_s(one.key, one.resource_version, now_s)

    def _change(self, change: Change[OriginalTask]) -> None:
        if change.after is not None:
            self._known[change.key] = change.after
        else:
            self._known.pop(change.key, None)
            self._setbacks.forget(change.key)
            self._refusals.forget(change.key)
        self.see(change.key)
