"""Node pools of one GKE cluster."""

import time
from collections.abc import Callable
from typing import Final
from urllib.parse import quote

import msgspec

from accelet.provisioner.demand.selectors import NODE_POOL
from accelet.provisioner.pools.machines import Refusal
from accelet.provisioner.pools.plan import PoolPlan
from accelet.provisioner.pools.pool import Failure, PoolList, Trouble
from accelet.provisioner.providers.gke.answers import read_error, read_pools
from accelet.provisioner.providers.gke.body import render_body
from accelet.provisioner.providers.gke.transport import GkeAnswer, Transport, TransportError
from accelet.provisioner.providers.protocol import ProviderError
from accelet.provisioner.settings import ProvisionerSettings
from accelet.runtime.logs import Log
from accelet.runtime.threads import Workers

_log = Log(__name__)

_THREADS: Final = 6
"""For the operations that may be under way at one time, and the list."""


class GkeProvider:
    """Pools with this cluster's mark; all others of the GKE cluster are foreign.

    `may_act` is asked on the request's thread, directly before each create and delete is sent; both raise
    NotLeadingError, and nothing is sent, once it says no.
    """

    pool_label = NODE_POOL

    def __init__(
        self,
        transport: Transport,
        settings: ProvisionerSettings,
        cluster: str,
        may_act: Callable[[], bool],
    ) -> None:
        gke = settings.gke
        words = ("projects", gke.project, "locations", gke.location, "clusters", gke.cluster)
        self._path = "/v1/" + "/".join(quote(word, safe="") for word in words) + "/nodePools"
        self._transport, self._settings, self._cluster = transport, settings, cluster
        self._may_act = may_act
        self._workers = Workers("gke", _THREADS)

    async def list_pools(self) -> PoolList:
        asked_s = time.time()
        try:
            answer = await self._send("GET", self._path)
            if answer.status == 200:
                return read_pools(answer.body, self._cluster, asked_s, self._note)
        except TransportError as error:
            raise ProviderError(str(error)) from None
        except (msgspec.DecodeError, UnicodeDecodeError):
            raise ProviderError("GKE's list of node pools cannot be read") from None
        raise ProviderError(read_error(answer.status, answer.body).sentence)

    async def create(self, plan: PoolPlan) -> Failure | None:
        chosen = self._settings.class_named(plan.slice_class)
        body = render_body(plan, chosen.node if chosen else self._settings.gke.node)
        if isinstance(body, Refusal):
            return Failure(Trouble.INVALID, body.reason)
        return await self._ask("POST", self._path, body)

    async def delete(self, pool: str) -> Failure | None:
        failure = await self._ask("DELETE", f"{self._path}/{quote(pool, safe='')}")
        return None if failure is not None and failure.trouble is Trouble.GONE else failure

    async def run(self) -> None:
        """GKE does everything by itself."""

    async def _ask(self, method: str, path: str, body: dict[str, object] | None = None) -> Failure | None:
        try:
            answer = await self._send(method, path, body)
        except TransportError as error:
            return Failure(Trouble.UNKNOWN, str(error))
        if 200 <= answer.status < 300:
            return None
        if answer.status == 404 and method == "DELETE":
            return Failure(Trouble.GONE, "the pool is gone")
        return read_error(answer.status, answer.body, answer.retry_after_s)

    async def _send(self, method: str, path: str, body: dict[str, object] | None = None) -> GkeAnswer:
        may_send = _always if method == "GET" else self._may_act
        return await self._workers.run(self._transport.send, method, path, body, may_send)

    def _note(self, text: str) -> None:
        _log.warning("odd node pool", reason=text)


def _always() -> bool:
    return True
