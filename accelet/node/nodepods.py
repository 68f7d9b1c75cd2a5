"""Watches this node's pods at the API server, reads single ones, and writes Events on them."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from random import uniform
from typing import TypeVar

from accelet.kube.apiresources import NODES, PODS
from accelet.kube.barepod import parse_bare_pod, render_pod
from accelet.kube.client import Client
from accelet.kube.errors import (
    ConfigurationError,
    KubeError,
    MalformedObjectError,
    NotFoundError,
    UnavailableError,
)
from accelet.kube.nodes import parse_node
from accelet.kube.objects import ObjectKey
from accelet.kube.podparser import parse_pod
from accelet.kube.pods import Pod
from accelet.kube.poduid import PodUid, index_pods, leave_out_forged
from accelet.kube.recording.eventlog import Message, Subject
from accelet.kube.recording.events import EventRecorder
from accelet.kube.watching.position import WatchPosition
from accelet.kube.watching.reflector import Reflector
from accelet.kube.watching.source import Scope
from accelet.kube.watching.store import Change
from accelet.kube.watching.watchrecord import GoneObject, WatchRecord, WatchRecordFile
from accelet.node.apiconnection import ApiConnection
from accelet.node.formerpods import FormerPods, WatchGap, without_start
from accelet.runtime.backoff import Backoff
from accelet.runtime.failing import Failing
from accelet.runtime.logs import Log
from accelet.runtime.tasks import task_group
from accelet.runtime.waiting import wait_for_hint

READ_S = 1.0
"""The longest a read takes: the kubelet admits no other pod meanwhile."""

CONNECT_S = 5.0
"""The longest a read waits for the connection of an agent that has just started: its libraries take seconds
to load where the processor is shared, and the kubelet admits pods meanwhile."""

REST_S = 5.0
"""After a read that failed, so long nobody waits for another; nor for a watch that was too far behind, until
it has shown what was waited for."""

_PAGE = 25
"""A pod may have a megabyte and a half."""

WATCHED_FILE = ".accelet-watched.json"
"""Beside the kubelet's sockets: where the watch is, and which pods were deleted before."""

NODE_S = 300.0
"""How often the Node is read. Its UID changes when somebody deletes it."""

REPORTER = "accelet.dev/agent"
_ACTION = "Allocate"

T = TypeVar("T")
_log = Log(__name__)


class NodePods:
    """Implements `accelet.node.podview.PodView` while `run` runs; before and after, nothing is known."""

    def __init__(
        self,
        node_name: str,
        connection: ApiConnection,
        failed: Callable[[], None],
        record: WatchRecordFile,
    ) -> None:
        """`failed` is called for each failure of the watch, to be counted.

        In `record` is kept what the next agent is to know.
        """
        self._node_name = node_name
        self._record = record
        self._connection = connection
        self._count_failure = failed
        self._client: Client | None = None
        self._recorder: EventRecorder | None = None
        self._reflector: Reflector[Pod] | None = None
        self._node_uid: str | None = None
        self._pods: dict[str, Pod] = {}
        self._former = FormerPods()
        self._position = WatchPosition()
        self._gap = WatchGap()
        self._listed: dict[PodUid, str] = {}
        self._tried = asyncio.Event()
        self._has_begun = asyncio.Event()
        self._synced = asyncio.Event()
        self._failed_at = float("-inf")
        self._was_behind_at = float("-inf")
        self._is_awaited: Callable[[], bool] = lambda: False

    async def run(self) -> None:
        """Watches for ever."""
        client = await self._connection.client(self._report_no_connection)
        scope = Scope(
            PODS,
            field_selector=f"spec.nodeName={self._node_name}",
            page_size=_PAGE,
            starts_from_cache=True,
            compares_first=True,
        )
        reflector = Reflector(
            client,
            scope,
            parse_pod,
            changed=self._take_change,
            failed=lambda _: self._count_failure(),
            began=self._begin_watch,
            watched=self._take_position,
            salvage=parse_bare_pod,
            earlier=await self._recall(),
        )
        recorder = EventRecorder(client, REPORTER, self._node_name)
        self._client, self._reflector, self._recorder = client, reflector, recorder
        self._tried.set()
        try:
            async with task_group() as tasks:
                tasks.create_task(reflector.run(), name="pods of this node")
                tasks.create_task(recorder.run(), name="events")
                tasks.create_task(self._note_sync(reflector), name="first list of pods")
                tasks.create_task(self._read_node(client), name="UID of the Node")
                tasks.create_task(self._record.run(self._make_record), name="record of the watch")
        finally:
            self._client = self._reflector = self._recorder = None
            self._synced.clear()
            self._has_begun.clear()
            self._pods.clear()
            self._listed.clear()

    def _report_no_connection(self, error: ConfigurationError) -> None:
        self._tried.set()
        _log.error("cannot reach the API server, which assignments need", reason=str(error))
        self._count_failure()

    async def _note_sync(self, reflector: Reflector[Pod]) -> None:
        await reflector.synced()
        await self._has_begun.wait()  # what waits by then may have had a former one of which nobody tells
        # A list comes by name. What waits was written last when it was bound, and is admitted in that order.
        self._pods = dict(sorted(self._pods.items(), key=lambda item: _version(item[1])))
        self._synced.set()
        _log.info("knows the pods of this node", pods=len(self._pods))

    async def _recall(self) -> Sequence[str]:
        """Where the watch can go on, of this process or of the one before it; knows what that one knew."""
        if self._position.version or (record := await self._record.recall()) is None:
            return (self._position.version,) if self._position.version else ()
        now_s = time.monotonic()
        try:
            for gone in record.gone:
                self._former.note(parse_pod(gone.object), now_s - gone.age_s, is_end=True)
        except MalformedObjectError:
            return ()
        self._position.advance(record.version)
        return (record.version,)

    def _make_record(self) -> WatchRecord | None:
        """None where it is not known who was deleted: then no agent may go on from here."""
        now_s = time.monotonic()
        if not self._position.version.isdecimal() or not self._gap.is_over(now_s):
            return None
        recurring = self._former.list_recurring(now_s)
        gone = tuple(GoneObject(age_s, render_pod(pod)) for pod, age_s in recurring)
        return WatchRecord(self._position.version, gone)

    def _begin_watch(self, resource_version: str) -> None:
        """A watch that does not go on where the last one was tells not who was deleted in between."""
        if resource_version != self._position.version:
            self._gap = WatchGap.among(self._pods.values(), time.monotonic())
            self._former.forget_vanished(self._pods)
        self._take_position(resource_version, "", None)
        self._has_begun.set()

    def _take_change(self, change: Change[Pod]) -> None:
        if change.before is not None and change.after is None:
            self._pods.pop(change.before.uid, None)
            if change.before.uid not in self._former:
                self._former.note(change.before, time.monotonic())
        elif change.after is not None:
            self._pods[change.after.uid] = change.after
            self._gap.note(change.after)
            self._former.note_living(change.after)
            if change.before is None and not self._position.has_reached(change.after.resource_version):
                self._listed[PodUid(change.after.uid)] = change.after.resource_version

    def _take_position(self, resource_version: str, bound: str, deleted: Pod | None) -> None:
        """The watch has come to here. How a pod was at its end no list can tell that has overtaken it.

        Nor in which order pods were bound and deleted.
        """
        if bound:
            self._former.note_binding(bound)
            if (pod := self._pods.get(bound)) is not None:
                self._former.note_living(pod)
        if deleted is not None:
            is_own = self._reflector is None or not self._reflector.is_before_first_list(resource_version)
            gone = deleted if is_own else without_start(deleted)  # what it had the agent before this one knew
            self._former.note(gone, time.monotonic(), is_end=True)
        self._position.advance(resource_version)
        self._record.note_change()
        if self._listed:
            later = self._listed.items()
            self._listed = {uid: at for uid, at in later if not self._position.has_reached(at)}

    async def _read_node(self, client: Client) -> None:
        """Reads now and then which Node this is, by which the mirrors of its static pods are known."""
        backoff = Backoff(first_s=5.0, most_s=NODE_S)
        reading = Failing(_log, "cannot tell which pods mirror static ones", named="reason")
        while True:
            try:
                self._node_uid = parse_node(await client.get(NODES, None, self._node_name)).uid
            except KubeError as error:
                reading.failed(error)
                wait_s, backoff = backoff.wait_s, backoff.failed()
            else:
                reading.worked()
                wait_s, backoff = NODE_S, backoff.worked()
            # The agents of a cluster must not all ask at once.
            await asyncio.sleep(wait_s * uniform(0.9, 1.1))  # noqa: S311  no secret

    @property
    def is_synced(self) -> bool:
        return self._synced.is_set()

    @property
    def can_read(self) -> bool:
        return self._client is not None and time.monotonic() - self._failed_at > REST_S

    def unwatched(self) -> frozenset[PodUid]:
        return frozenset(self._listed)

    @property
    def knows_former(self) -> bool:
        return self._gap.is_over(time.monotonic())

    @property
    def can_follow(self) -> bool:
        return time.monotonic() - self._was_behind_at > REST_S or self._is_awaited()

    async def follow(self, pod: Pod, within_s: float) -> bool:
        return await self._follow(lambda: self._position.has_reached(pod.resource_version), within_s)

    async def follow_end(self, uid: PodUid, within_s: float) -> bool:
        return await self._follow(lambda: self._former.has_end(uid), within_s)

    async def _follow(self, is_awaited: Callable[[], bool], within_s: float) -> bool:
        if await self._position.until(is_awaited, within_s):
            return True
        self._was_behind_at, self._is_awaited = time.monotonic(), is_awaited
        return False

    def pods(self) -> Mapping[PodUid, Pod]:
        believed = leave_out_forged(self._pods.values(), self._node_uid)
        return index_pods(believed, self._former.__contains__)

    def deleted(self) -> Mapping[PodUid, Pod]:
        return self._former.index(time.monotonic(), self._node_uid)

    def heard(self) -> frozenset[PodUid]:
        return self._former.heard()

    def deletions(self) -> Mapping[PodUid, int]:
        return self._former.deletions()

    def deleted_before(self) -> Mapping[PodUid, int]:
        return self._former.deleted_before()

    def vanished(self) -> frozenset[PodUid]:
        return self._former.find_vanished(self._pods)

    async def synced(self, within_s: float) -> bool:
        return await wait_for_hint(self._synced, within_s)

    async def read_pod(self, name: ObjectKey) -> Pod | None:
        client = self._client
        if client is None:
            raise UnavailableError("There is no connection to the API server yet.")
        try:
            pod = parse_pod(await self._in_time(client.get(PODS, *name)))
        except NotFoundError:
            return None
        is_here = pod.node_name == self._node_name
        return next(leave_out_forged([pod] if is_here else [], self._node_uid), None)

    async def read_pods(self) -> Mapping[PodUid, Pod]:
        await wait_for_hint(self._tried, CONNECT_S)
        reflector = self._reflector
        if reflector is None:
            raise UnavailableError("There is no connection to the API server yet.")
        await self._in_time(reflector.refresh())
        return self.pods()

    async def _in_time(self, answer: Awaitable[T]) -> T:
        try:
            async with asyncio.timeout(READ_S):
                answered = await answer
        except TimeoutError:
            self._failed_at = time.monotonic()
            raise UnavailableError(f"The API server did not answer within {READ_S:.0f} s.") from None
        except NotFoundError:
            raise
        except KubeError:
            self._failed_at = time.monotonic()
            raise
        self._failed_at = float("-inf")
        return answered

    def report(self, pod: Pod, reason: str, note: str) -> None:
        if self._recorder is not None:
            self._recorder.record(Message(Subject.of_pod(pod), "Warning", reason, _ACTION, note))


def _version(pod: Pod) -> int:
    return int(pod.resource_version) if pod.resource_version.isdecimal() else 0
