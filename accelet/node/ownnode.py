"""Reads this node's Node at the API server for its labels, writes Events on it, has its cards published."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from random import uniform
from typing import Literal

from accelet.kube.apiresources import NODES
from accelet.kube.client import Client
from accelet.kube.errors import KubeError
from accelet.kube.nodes import parse_node
from accelet.kube.objects import no_labels
from accelet.kube.recording.eventlog import Message, Subject
from accelet.kube.recording.events import EventRecorder
from accelet.node.apiconnection import ApiConnection
from accelet.node.publishing.cardpublisher import CardPublisher
from accelet.runtime.backoff import Backoff
from accelet.runtime.failing import Failing
from accelet.runtime.logs import Log
from accelet.runtime.tasks import task_group

READ_S = 300.0
"""How often the Node is read. Its TPU labels are as lasting as its hardware, so a watch would be waste.

An Event that is said again so often stays as long as its cause: the recorder counts it up, where the API
server would forget it after an hour.
"""

_FIRST_RETRY_S = 1.0
"""Soon: nothing that waits for the labels is served meanwhile."""

REPORTER = "accelet.dev/agent"
REASON = "HardwareContradiction"
ILL, WELL = "DeviceUnhealthy", "DeviceHealthy"
_ACTION = "Discover"
_log = Log(__name__)


class OwnNode:
    """Implements `accelet.node.nodeview.NodeView` while `run` runs; before, nothing is known."""

    def __init__(
        self,
        node_name: str,
        connection: ApiConnection,
        *,
        labels_changed: Callable[[], None],
        failed: Callable[[], None],
        publisher: CardPublisher | None = None,
        read_s: float = READ_S,
    ) -> None:
        """`labels_changed` is called when the labels are others, `failed` for each failure to read them.

        `publisher` is run beside it.
        """
        self._node_name = node_name
        self._connection = connection
        self._labels_changed = labels_changed
        self._count_failure = failed
        self._publisher = publisher
        self._read_s = read_s
        self._recorder: EventRecorder | None = None
        self._labels: Mapping[str, str] = no_labels()
        self._contradictions: dict[str, tuple[str, ...]] = {}
        self._ill: dict[str, Mapping[str, str]] = {}
        self._has_read = asyncio.Event()
        self._failing = Failing(
            _log,
            "cannot read the Node's labels; what was known of them stays",
            "reads the Node's labels again",
        )

    async def run(self) -> None:
        """Reads the Node for ever."""
        client = await self._connection.client(self._fail)
        recorder = self._recorder = EventRecorder(client, REPORTER, self._node_name)
        try:
            async with task_group() as tasks:
                tasks.create_task(recorder.run(), name="events")
                tasks.create_task(self._read_on(client), name="labels of the Node")
                if self._publisher is not None:
                    tasks.create_task(self._publisher.run(client), name="cards of the Node")
        finally:
            self._recorder = None

    @property
    def labels(self) -> Mapping[str, str]:
        return self._labels

    async def read(self) -> None:
        await self._has_read.wait()

    def report(self, resource: str, contradictions: Sequence[str]) -> None:
        before = self._contradictions.pop(resource, ())
        if contradictions:
            self._contradictions[resource] = tuple(contradictions)
        for sentence in contradictions:
            if sentence not in before:
                self._say(resource, sentence)

    def report_health(self, resource: str, health: Mapping[str, str | None]) -> None:
        """A unit that was ill and is no longer there is neither."""
        before = self._ill.pop(resource, {})
        ill = {unit: reason for unit, reason in health.items() if reason is not None}
        if ill:
            self._ill[resource] = ill
        for unit, reason in ill.items():
            if before.get(unit) != reason:
                self._say(resource, f"{unit} is ill: {reason}", ILL)
        for unit in before.keys() - ill.keys():
            if unit in health:
                self._say(resource, f"{unit} is well again", WELL, "Normal")

    def forget_health(self, resource: str | None = None) -> None:
        if resource is None:
            self._ill.clear()
        else:
            self._ill.pop(resource, None)

    async def _read_on(self, client: Client) -> None:
        backoff = Backoff(first_s=min(_FIRST_RETRY_S, self._read_s / 30), most_s=self._read_s)
        while True:
            self._say_what_stands()
            try:
                node = parse_node(await client.get(NODES, None, self._node_name))
            except KubeError as error:
                self._fail(error)
                wait_s, backoff = backoff.wait_s, backoff.failed()
            else:
                self._take(node.labels)
                wait_s, backoff = self._read_s, backoff.worked()
            # The agents of a cluster must not all ask at once.
            await asyncio.sleep(wait_s * uniform(0.9, 1.1))  # noqa: S311  no secret

    def _take(self, labels: Mapping[str, str]) -> None:
        self._failing.worked()
        if labels != self._labels:
            self._labels = labels
            self._labels_changed()
        self._has_read.set()

    def _fail(self, error: KubeError) -> None:
        self._count_failure()
        self._failing.failed(error)

    def _say_what_stands(self) -> None:
        for resource, contradictions in self._contradictions.items():
            for sentence in contradictions:
                self._say(resource, sentence)
        for resource, ill in self._ill.items():
            for unit, reason in ill.items():
                self._say(resource, f"{unit} is ill: {reason}", ILL)

    def _say(
        self,
        resource: str,
        sentence: str,
        reason: str = REASON,
        kind: Literal["Normal", "Warning"] = "Warning",
    ) -> None:
        if self._recorder is not None:
            # The kubelet's way to name its Node: also known where the Node cannot be read, and what
            # `kubectl describe node` looks for.
            subject = Subject("Node", self._node_name, uid=self._node_name)
            self._recorder.record(Message(subject, kind, reason, _ACTION, f"{resource}: {sentence}"))
