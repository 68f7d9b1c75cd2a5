"""Pools without machines: ConfigMaps at the API server that become Nodes after a while."""

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

import msgspec

from accelet.control.errors import NotLeadingError
from accelet.control.writer import FencedWriter
from accelet.kube.apiresources import CONFIG_MAPS, LEASES, NODES
from accelet.kube.client import Client
from accelet.kube.errors import ExistsError, KubeError, MalformedObjectError, NotFoundError
from accelet.kube.nodes import parse_node
from accelet.provisioner.demand.selectors import NODE_POOL
from accelet.provisioner.demand.slices import TPU
from accelet.provisioner.pools.plan import CLUSTER_LABEL, PoolPlan
from accelet.provisioner.pools.pool import Failure, PoolList, Trouble
from accelet.provisioner.providers.protocol import ProviderError
from accelet.provisioner.providers.simulated.body import (
    POOL_LABEL,
    KeptPool,
    node_body,
    parse_pool,
    pool_of,
    render_body,
    render_data,
    status_body,
)
from accelet.provisioner.settings import SimulatedPools
from accelet.runtime.logs import Log
from accelet.runtime.waiting import wait_for_hint

_log = Log(__name__)

_STEP_S: Final = 0.25
_RENEW_S: Final = 10.0
_LEASE_S: Final = 40
_AT_ONCE: Final = 4
"""Pools of which Nodes are made or removed at one time."""


@dataclass(frozen=True, slots=True)
class _Machine:
    """A Node of a pool, as far as anything is done for it. `offers`: it is Ready and has its chips."""

    name: str
    uid: str
    offers: bool


class SimulatedProvider:
    """Pools of this cluster, kept in a namespace; whatever replica leads takes them over as they are."""

    pool_label = NODE_POOL

    def __init__(self, client: Client, writer: FencedWriter, settings: SimulatedPools, cluster: str) -> None:
        self._client, self._writer, self._settings = client, writer, settings
        self._cluster = cluster
        self._moved, self._counting = asyncio.Event(), asyncio.Lock()
        self._renewed_s: dict[str, float] = {}

    async def list_pools(self) -> PoolList:
        now_s = time.time()
        try:
            kept = [one async for one in self._kept()]
        except KubeError as error:
            raise ProviderError(str(error)) from None
        return PoolList(tuple(pool_of(one, self._settings, now_s) for one in kept), now_s)

    async def create(self, plan: PoolPlan) -> Failure | None:
        try:
            async with self._counting:
                is_short = await self._is_short(plan)
                body = render_body(plan, created_s=time.time(), is_short=is_short)
                await self._writer.create(CONFIG_MAPS, self._settings.namespace, body)
        except ExistsError:
            return Failure(Trouble.EXISTS, f"there is a pool {plan.name}")
        except KubeError as error:
            return Failure(Trouble.UNKNOWN, str(error))
        self._moved.set()
        return None

    async def delete(self, pool: str) -> Failure | None:
        namespace = self._settings.namespace
        try:
            kept = parse_pool(await self._client.get(CONFIG_MAPS, namespace, pool))
            if kept.pool.deleted_s is None:
                ended = msgspec.structs.replace(kept.pool, deleted_s=time.time())
                patch = {"metadata": {"resourceVersion": kept.resource_version}, "data": render_data(ended)}
                await self._writer.patch(CONFIG_MAPS, namespace, pool, patch, "merge")
        except NotFoundError:
            return None
        except KubeError as error:
            return Failure(Trouble.UNKNOWN, str(error))
        self._moved.set()
        return None

    async def run(self) -> None:
        """Makes and removes Nodes as their time comes, and keeps their leases alive."""
        while True:
            self._moved.clear()
            if await self._step():
                await asyncio.sleep(_STEP_S)
            else:
                await wait_for_hint(self._moved, _RENEW_S)

    async def _step(self) -> bool:
        """Whether anything is still to come."""
        places = asyncio.Semaphore(_AT_ONCE)
        try:
            kept = [one async for one in self._kept()]
            nodes = await self._nodes() if kept else {}
        except KubeError as error:
            _log.warning("simulated machines stand still", error=str(error))
            return True
        moves = (self._move(one, nodes.get(one.name, {}), places) for one in kept)
        return any(await asyncio.gather(*moves))

    async def _move(self, kept: KeptPool, found: Mapping[str, _Machine], places: asyncio.Semaphore) -> bool:
        """Makes or removes one pool's Nodes; whether some are still to come or go."""
        try:
            async with places:
                if kept.pool.deleted_s is not None:
                    if time.time() >= kept.pool.deleted_s + self._settings.delete_s:
                        await self._remove(kept, found)
                    return True
                return not kept.pool.is_short and await self._make(kept, found, time.time())
        except (KubeError, NotLeadingError) as error:
            _log.warning("simulated machines stand still", pool=kept.name, error=str(error))
            return True

    async def _make(self, kept: KeptPool, found: Mapping[str, _Machine], now_s: float) -> bool:
        """Makes the Nodes whose time has come; whether some have still to."""
        waited_s = now_s - kept.pool.created_s - self._settings.create_s
        if waited_s < 0:
            return True
        offers = waited_s >= self._settings.join_s
        for index in range(kept.pool.hosts):
            name = f"{kept.name}-{index}"
            if name not in found:
                await self._register(kept, index)
            if now_s - self._renewed_s.get(name, 0.0) >= _RENEW_S:
                await self._renew(name)
                self._renewed_s[name] = now_s
            # A Node whose lease ran out once is ready only after its kubelet says so again.
            if offers and not (name in found and found[name].offers):
                patch = status_body(kept.pool, _now())
                await self._writer.patch(NODES, None, name, patch, "merge", subresource="status")
        return not offers

    async def _register(self, kept: KeptPool, index: int) -> None:
        try:
            await self._writer.create(NODES, None, node_body(kept.name, index, kept.pool))
        except ExistsError:
            _log.info("node is there already", node=f"{kept.name}-{index}")

    async def _renew(self, node: str) -> None:
        """What a kubelet does each ten seconds; without it the Node is taken for lost."""
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
        spec = {"holderIdentity": node, "leaseDurationSeconds": _LEASE_S, "renewTime": now}
        try:
            await self._writer.patch(LEASES, "kube-node-lease", node, {"spec": spec}, "merge")
        except NotFoundError:
            body = {
                "apiVersion": LEASES.api_version,
                "kind": "Lease",
                "metadata": {"name": node, "labels": {POOL_LABEL: "true"}},
                "spec": spec,
            }
            try:
                await self._writer.create(LEASES, "kube-node-lease", body)
            except (ExistsError, NotFoundError) as error:
                _log.info("lease is not renewed", node=node, error=str(error))

    async def _remove(self, kept: KeptPool, found: Mapping[str, _Machine]) -> None:
        for node in found.values():
            await self._writer.delete(NODES, None, node.name, uid=node.uid)
            self._renewed_s.pop(node.name, None)
        await self._writer.delete(CONFIG_MAPS, self._settings.namespace, kept.name)

    async def _is_short(self, plan: PoolPlan) -> bool:
        """Whether its place has no room for one more slice."""
        place = str(plan.attempt.tier), plan.attempt.zone
        scarce = [one for one in self._settings.capacity if (one.tier, one.zone) == place]
        if not scarce:
            return False
        used = 0
        async for one in self._kept():
            used += (
                (one.pool.tier, one.pool.zone) == place and not one.pool.is_short and one.name != plan.name
            )
        return used >= scarce[0].slices

    async def _kept(self) -> AsyncIterator[KeptPool]:
        query = {"labelSelector": f"{POOL_LABEL}=true,{CLUSTER_LABEL}={self._cluster}"}
        async for page in self._client.list_pages(CONFIG_MAPS, self._settings.namespace, query):
            for item in page.items:
                try:
                    yield parse_pool(item)
                except MalformedObjectError as error:
                    _log.warning("no simulated pool", error=str(error))

    async def _nodes(self) -> dict[str, dict[str, _Machine]]:
        """The Nodes of each pool by their names: one list for all pools."""
        found: dict[str, dict[str, _Machine]] = {}
        async for page in self._client.list_pages(NODES, None, {"labelSelector": f"{POOL_LABEL}=true"}):
            for item in page.items:
                node = parse_node(item)
                machine = _Machine(node.name, node.uid, node.is_ready and bool(node.allocatable.get(TPU)))
                found.setdefault(node.labels.get(NODE_POOL, ""), {})[node.name] = machine
        return found


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
