"""Watches this node's pods at the API server, reads single ones, and writes Events on them."""

import asyncio
from collections.abc import Callable, Mapping

from accelet.kube.apiresources import PODS
from accelet.kube.barepod import parse_bare_pod
from accelet.kube.client import Client
from accelet.kube.errors import ConfigurationError, NotFoundError, UnavailableError
from accelet.kube.objects import ObjectKey
from accelet.kube.podparser import parse_pod
from accelet.kube.pods import Pod
from accelet.kube.poduid import PodUid, leave_out_forged
from accelet.kube.recording.eventlog import Message, Subject
from accelet.kube.recording.events import EventRecorder
from accelet.kube.watching.reflector import Reflector
from accelet.kube.watching.source import Scope
from accelet.kube.watching.watchrecord import WatchRecordFile
from accelet.node.apiconnection import ApiConnection
from accelet.node.pods.known import KnownPods
from accelet.node.pods.nodeuid import NodeUid
from accelet.node.pods.reading import TimedReads
from accelet.runtime.logs import Log
from accelet.runtime.tasks import task_group
from accelet.runtime.waiting import wait_for_hint

CONNECT_S = 5.0
"""The longest a read waits for the connection of an agent that has just started: its libraries take seconds
to load where the processor is shared, and the kubelet admits pods meanwhile."""

_PAGE = 25
"""A pod may have a megabyte and a half."""

WATCHED_FILE = ".accelet-watched.json"
"""Beside the kubelet's sockets: where the watch is, and which pods were deleted before."""

REPORTER = "accelet.dev/agent"
_ACTION = "Allocate"

_log = Log(__name__)


class NodePods:
    """Implements `accelet.node.pods.view.PodView` while `run` runs; before and after, nothing is known."""

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
        self._node = NodeUid(node_name)
        self._known = KnownPods()
        self._reads = TimedReads()
        self._tried = asyncio.Event()
        self._has_begun = asyncio.Event()
        self._synced = asyncio.Event()

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
            changed=self._known.take_change,
            failed=lambda _: self._count_failure(),
            began=self._begin_watch,
            watched=self._take_position,
            salvage=parse_bare_pod,
            earlier=self._known.recall(await self._record.recall()),
        )
        recorder = EventRecorder(client, REPORTER, self._node_name)
        self._client, self._reflector, self._recorder = client, reflector, recorder
        self._tried.set()
        try:
            async with task_group() as tasks:
                tasks.create_task(reflector.run(), name="pods of this node")
                tasks.create_task(recorder.run(), name="events")
                tasks.create_task(self._note_sync(reflector), name="first list of pods")
                tasks.create_task(self._node.run(client), name="UID of the Node")
                tasks.create_task(self._record.run(self._known.make_record), name="record of the watch")
        finally:
            self._client = self._reflector = self._recorder = None
            self._synced.clear()
            self._has_begun.clear()
            self._known.forget_living()

    def _report_no_connection(self, error: ConfigurationError) -> None:
        self._tried.set()
        _log.error("cannot reach the API server, which assignments need", reason=str(error))
        self._count_failure()

    async def _note_sync(self, reflector: Reflector[Pod]) -> None:
        await reflector.synced()
        await self._has_begun.wait()  # what waits by then may have had a former one of which nobody tells
        self._known.put_in_order()
        self._synced.set()
        _log.info("knows the pods of this node", pods=len(self._known))

    def _begin_watch(self, resource_version: str) -> None:
        self._known.begin_watch(resource_version)
        self._record.note_change()
        self._has_begun.set()

    def _take_position(self, resource_version: str, bound: str, deleted: Pod | None) -> None:
        was_told = self._reflector is not None and self._reflector.is_before_first_list(resource_version)
        self._known.take_position(resource_version, bound, deleted, was_told=was_told)
        self._record.note_change()

    @property
    def is_synced(self) -> bool:
        return self._synced.is_set()

    @property
    def can_read(self) -> bool:
        return self._client is not None and self._reads.are_worth_it

    @property
    def as_of(self) -> str:
        return "" if self._reflector is None else self._reflector.store.resource_version

    @property
    def watched_to(self) -> str:
        return self._known.watched_to

    def unwatched(self) -> frozenset[PodUid]:
        return self._known.unwatched()

    @property
    def knows_former(self) -> bool:
        return self._known.knows_former

    @property
    def can_follow(self) -> bool:
        return self._known.can_follow

    async def follow(self, pod: Pod, within_s: float) -> bool:
        return await self._known.follow(pod, within_s)

    async def follow_end(self, uid: PodUid, within_s: float) -> bool:
        return await self._known.follow_end(uid, within_s)

    def pods(self) -> Mapping[PodUid, Pod]:
        return self._known.pods(self._node.uid)

    def deleted(self) -> Mapping[PodUid, Pod]:
        return self._known.deleted(self._node.uid)

    def heard(self) -> frozenset[PodUid]:
        return self._known.heard()

    def deletions(self) -> Mapping[PodUid, int]:
        return self._known.deletions()

    def deleted_before(self) -> Mapping[PodUid, int]:
        return self._known.deleted_before()

    def vanished(self) -> frozenset[PodUid]:
        return self._known.vanished()

    async def synced(self, within_s: float) -> bool:
        return await wait_for_hint(self._synced, within_s)

    async def read_pod(self, name: ObjectKey) -> Pod | None:
        client = self._client
        if client is None:
            raise UnavailableError("There is no connection to the API server yet.")
        try:
            pod = parse_pod(await self._reads.wait_for(client.get(PODS, *name)))
        except NotFoundError:
            return None
        is_here = pod.node_name == self._node_name
        return next(leave_out_forged([pod] if is_here else [], self._node.uid), None)

    async def read_pods(self) -> Mapping[PodUid, Pod]:
        await wait_for_hint(self._tried, CONNECT_S)
        reflector = self._reflector
        if reflector is None:
            raise UnavailableError("There is no connection to the API server yet.")
        await self._reads.wait_for(reflector.refresh())
        return self.pods()

    def report(self, pod: Pod, reason: str, note: str) -> None:
        if self._recorder is not None:
            self._recorder.record(Message(Subject.of_pod(pod), "Warning", reason, _ACTION, note))
