"""Which Node this is, by which the mirrors of its static pods are known."""

import asyncio
from random import uniform

from accelet.kube.apiresources import NODES
from accelet.kube.client import Client
from accelet.kube.errors import KubeError
from accelet.kube.nodes import parse_node
from accelet.runtime.backoff import Backoff
from accelet.runtime.failing import Failing
from accelet.runtime.logs import Log

NODE_S = 300.0
"""How often the Node is read. Its UID changes when somebody deletes it."""

_log = Log(__name__)


class NodeUid:
    """The UID of the Node as it was last read; None before."""

    def __init__(self, node_name: str) -> None:
        self._node_name = node_name
        self.uid: str | None = None

    async def run(self, client: Client) -> None:
        """Reads the Node now and then, for ever."""
        backoff = Backoff(first_s=5.0, most_s=NODE_S)
        reading = Failing(_log, "cannot tell which pods mirror static ones", named="reason")
        while True:
            try:
                self.uid = parse_node(await client.get(NODES, None, self._node_name)).uid
            except KubeError as error:
                reading.failed(error)
                wait_s, backoff = backoff.wait_s, backoff.failed()
            else:
                reading.worked()
                wait_s, backoff = NODE_S, backoff.worked()
            # The agents of a cluster must not all ask at once.
            await asyncio.sleep(wait_s * uniform(0.9, 1.1))  # noqa: S311  no secret
