"""Keeps a pool's ResourceSlices at the API server as they should be, whoever removes or changes them."""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import msgspec

from accelet.dra.pool import DevicePool
from accelet.dra.publishing.difference import Difference, Published, compare
from accelet.dra.publishing.features import ALL, Features, limit_pool, read_features
from accelet.dra.publishing.slices import RESOURCE_SLICES
from accelet.dra.running.lateapi import Connect
from accelet.kube.apiresources import NODES
from accelet.kube.client import Client
from accelet.kube.errors import ConflictError, KubeError, NotFoundError
from accelet.kube.nodes import parse_node
from accelet.kube.objects import WireObject, read_object
from accelet.kube.watching.reflector import Reflector
from accelet.kube.watching.source import Scope
from accelet.runtime.backoff import Backoff
from accelet.runtime.logs import Log

LOOK_S = 60.0
"""How often the slices are looked at without any news of them."""

UNKNOWN_API = (
    "this cluster does not know ResourceSlices of resource.k8s.io/v1: that takes Kubernetes 1.34 or later; "
    "until then use `serve: device-plugin`"
)

_log = Log(__name__)


class _WireSlice(WireObject, frozen=True):
    spec: dict[str, Any]


class Publisher:
    """Writes one driver's pool while `run` runs; failures are tried again and disturb nothing else."""

    def __init__(self, connect: Connect, driver: str, node: str) -> None:
        self._connect, self._driver, self._node = connect, driver, node
        self._pool: DevicePool | None = None
        self._features = ALL
        self._wake = asyncio.Event()
        self.problem: str | None = "not published yet"

    @property
    def features(self) -> Features:
        """What the API server turned out to keep."""
        return self._features

    def publish(self, pool: DevicePool) -> None:
        """From here on `pool` is what there is to be."""
        if pool != self._pool:
            self._pool = pool
            self._wake.set()

    async def run(self) -> None:
        """Publishes for ever, from the first pool on."""
        client = await self._connect()
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._watch(client).run(), name=f"slices of {self._driver}")
            tasks.create_task(self._keep(client), name=f"publishing {self._driver}")

    def _watch(self, client: Client) -> Reflector[Published]:
        scope = Scope(RESOURCE_SLICES, field_selector=self._selector)
        return Reflector(client, scope, _parse_slice, changed=lambda _change: self._wake.set())

    @property
    def _selector(self) -> str:
        return f"spec.nodeName={self._node},spec.driver={self._driver}"

    async def _keep(self, client: Client) -> None:
        backoff = Backoff(first_s=0.5, most_s=30.0)
        while True:
            wait_s = LOOK_S
            self._wake.clear()
            if self._pool is not None:
                try:
                    await self._bring_in_line(client, self._pool)
                    self._note(None)
                    backoff = backoff.worked()
                except ConflictError:
                    wait_s = 0.05  # somebody else wrote at the same time: read again
                except KubeError as error:
                    self._note(str(error))
                    wait_s, backoff = backoff.wait_s, backoff.failed()
            with suppress(TimeoutError):
                async with asyncio.timeout(wait_s):
                    await self._wake.wait()

    async def _bring_in_line(self, client: Client, pool: DevicePool) -> None:
        owner = parse_node(await client.get(NODES, None, self._node)).uid
        published = await self._read_published(client)
        wanted = limit_pool(pool, self._features)
        kept = await self._write(client, compare(wanted, published, owner))
        if kept & self._features != self._features:
            self._features &= kept
            for sentence in kept.missing:
                _log.warning(
                    "the API server keeps less than it is sent", driver=self._driver, effect=sentence
                )
            self._wake.set()

    async def _read_published(self, client: Client) -> list[Published]:
        pages = client.list_pages(RESOURCE_SLICES, None, {"fieldSelector": self._selector})
        try:
            return [_parse_slice(raw) async for page in pages for raw in page.items]
        except NotFoundError:
            raise KubeError(UNKNOWN_API) from None

    async def _write(self, client: Client, difference: Difference) -> Features:
        kept = ALL
        for old in difference.delete:
            with suppress(NotFoundError):
                await client.delete(RESOURCE_SLICES, None, old.name, uid=old.uid)
        for new in difference.replace:
            answer = await client.replace(RESOURCE_SLICES, None, new.old.name, new.body)
            kept &= read_features(new.body["spec"], _spec(answer))
        for body in difference.create:
            answer = await client.create(RESOURCE_SLICES, None, body)
            kept &= read_features(body["spec"], _spec(answer))
        if not difference.is_empty:
            _log.info(
                "slices written",
                driver=self._driver,
                deleted=len(difference.delete),
                replaced=len(difference.replace),
                created=len(difference.create),
            )
        return kept

    def _note(self, problem: str | None) -> None:
        if problem is not None and problem != self.problem:
            _log.warning("cannot publish", driver=self._driver, reason=problem)
        self.problem = problem


def _spec(answer: bytes) -> Mapping[str, object]:
    return read_object(answer, RESOURCE_SLICES.kind, _WireSlice).spec


def _parse_slice(raw: bytes | msgspec.Raw) -> Published:
    wire = read_object(raw, RESOURCE_SLICES.kind, _WireSlice)
    metadata = wire.metadata
    owners = [owner.uid for owner in metadata.owner_references or () if owner.kind == "Node"]
    return Published(
        metadata.name,
        metadata.uid or "",
        metadata.resource_version or "",
        wire.spec,
        owners[0] if owners else "",
    )
