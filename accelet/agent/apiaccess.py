"""What the agent reads and says at the API server.

Imported only where a resource needs it: the way there costs 20 MiB.
"""

import asyncio
from collections.abc import Callable
from pathlib import Path

from accelet.kube.client import Client
from accelet.kube.watching.reliance import Reliance
from accelet.kube.watching.watchrecord import WatchRecordFile
from accelet.node.apiconnection import ApiConnection
from accelet.node.metrics import NodeMetrics
from accelet.node.ownnode import OwnNode
from accelet.node.pods.nodepods import WATCHED_FILE, NodePods
from accelet.node.publishing.cardpublisher import CardPublisher
from accelet.runtime.failing import Failing
from accelet.runtime.logs import Log
from accelet.runtime.supervise import supervise

_log = Log(__name__)

GUARDS = ("accelet-assignments",)
"""The policies without which anybody writes assignments."""


class ApiAccess:
    """The node's pods and its Node over one connection, each followed from when it is first wanted."""

    def __init__(
        self,
        node_name: str,
        kubeconfig: Path | None,
        *,
        tasks: asyncio.TaskGroup,
        metrics: NodeMetrics,
        labels_changed: Callable[[], None],
        publisher: CardPublisher,
        folder: Path,
    ) -> None:
        """`labels_changed` is called when the Node's labels are others; `publisher` is run with the Node.

        In `folder` is kept what the next agent is to know of the node's pods.
        """
        self._node_name = node_name
        self._connection = ApiConnection(kubeconfig)
        self._tasks = tasks
        self._metrics = metrics
        self._labels_changed = labels_changed
        self._publisher = publisher
        self._record = WatchRecordFile(folder / WATCHED_FILE)
        self._failing = Failing(_log, "no API server", level="error", named="reason")
        self._pods: NodePods | None = None
        self._node: OwnNode | None = None
        self._policies: Reliance | None = None

    def follow_pods(self) -> NodePods:
        if self._pods is None:
            count = self._metrics.watch_failures.inc
            self._pods = NodePods(self._node_name, self._connection, count, self._record)
            run = supervise("pods of this node", self._pods.run, count)
            self._tasks.create_task(run, name="pods of this node")
        return self._pods

    def follow_node(self) -> OwnNode:
        if self._node is None:
            count = self._metrics.node_failures.inc
            self._node = OwnNode(
                self._node_name,
                self._connection,
                labels_changed=self._labels_changed,
                failed=count,
                publisher=self._publisher,
            )
            self._tasks.create_task(supervise("the Node", self._node.run, count), name="the Node")
        return self._node

    def follow_policies(self) -> Reliance:
        """Whether nobody but a scheduler can write assignments."""
        if self._policies is None:
            missing = self._metrics.policies_missing.set
            self._policies = Reliance(GUARDS, lambda is_in_force: missing(not is_in_force))
            policies, count = self._policies, self._metrics.watch_failures.inc
            run = supervise("policies", lambda: self._look_at_policies(policies), count)
            self._tasks.create_task(run, name="policies")
        return self._policies

    async def _look_at_policies(self, policies: Reliance) -> None:
        await policies.run(await self.connect())

    async def connect(self) -> Client:
        """The client of this process, as soon as there is one."""
        client = await self._connection.client(self._failing.failed)
        self._failing.worked()
        return client

    def close(self) -> None:
        self._connection.close()
