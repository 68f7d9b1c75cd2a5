"""Keeps a pool's ResourceSlices at the API server as they should be, whoever removes or changes them."""

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import msgspec

from accelet.dra.lateapi import Connect
from accelet.dra.pool import DevicePool
from accelet.dra.publishing.difference import Difference, Published, compare, spec_of
from accelet.dra.publishing.features import (
    ALL,
    Features,
    Probing,
    limit_pool,
    probe_pool,
    read_features,
)
from accelet.dra.publishing.serverform import NO_REWRITES, after_answer, content_of, describe_rewrite
from accelet.dra.publishing.slices import RESOURCE_SLICES, render_all
from accelet.kube.apiresources import NODES, Body
from accelet.kube.client import Client
from accelet.kube.errors import ConflictError, KubeError, NotFoundError
from accelet.kube.nodes import parse_node
from accelet.kube.objects import WireObject, read_object
from accelet.kube.watching.reflector import Reflector
from accelet.kube.watching.source import Scope
from accelet.runtime.backoff import Backoff
from accelet.runtime.clock import SYSTEM_CLOCK, Clock
from accelet.runtime.logs import Log
from accelet.runtime.waiting import wait_for_hint

LOOK_S = 60.0
"""How often the slices are looked at without any news of them."""

CALM_S = 300.0
"""After so long without writing the same slices again, the rests after that are short again."""

UNKNOWN_API = (
    "this cluster does not know ResourceSlices of resource.k8s.io/v1: that takes Kubernetes 1.34 or later; "
    "until then use `serve: device-plugin`"
)

_log = Log(__name__)


class _WireSlice(WireObject, frozen=True):
    spec: dict[str, Any]


@dataclass(frozen=True, slots=True)
class PublishingPace:
    """How long to wait after what went wrong, and after the same slices were written again."""

    failures: Backoff
    conflicts: Backoff
    repeats: Backoff
    probes: Backoff


PACE = PublishingPace(
    failures=Backoff(first_s=0.5, most_s=30.0),
    conflicts=Backoff(first_s=0.05, most_s=5.0),
    repeats=Backoff(first_s=0.5, most_s=60.0),
    probes=Backoff(first_s=60.0, most_s=900.0),
)


class Publisher:
    """Writes one driver's pool while `run` runs; failures are tried again and disturb nothing else."""

    def __init__(
        self,
        connect: Connect,
        driver: str,
        node: str,
        *,
        clock: Clock = SYSTEM_CLOCK,
        pace: PublishingPace = PACE,
    ) -> None:
        self._connect, self._driver, self._node = connect, driver, node
        self._clock, self._pace = clock, pace
        self._pool: DevicePool | None = None
        self._features = ALL
        self._probing = Probing(pace.probes)
        self._rewrites = NO_REWRITES
        self._has_told_rewrite = False
        self._written: DevicePool | None = None
        self._repeats, self._repeated_s = pace.repeats, 0.0
        self._wake = asyncio.Event()
        self._news = asyncio.Event()
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
            self._news.set()

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
        backoff, conflicts = self._pace.failures, self._pace.conflicts
        while True:
            wait_s = LOOK_S
            self._wake.clear()
            self._news.clear()
            if self._pool is not None:
                try:
                    await self._probe(client)
                    await self._bring_in_line(client, self._pool)
                    self._note(None)
                    backoff, conflicts = backoff.worked(), conflicts.worked()
                except ConflictError:
                    # Somebody else wrote at the same time: read again.
                    wait_s, conflicts = conflicts.wait_s, conflicts.failed()
                except KubeError as error:
                    self._note(str(error))
                    wait_s, backoff = backoff.wait_s, backoff.failed()
            await wait_for_hint(self._wake, self._until_probe(wait_s), self._clock)

    async def _bring_in_line(self, client: Client, pool: DevicePool) -> None:
        owner = parse_node(await client.get(NODES, None, self._node)).uid
        published = await self._read_published(client)
        wanted = limit_pool(pool, self._features)
        difference = compare(wanted, published, owner, self._rewrites)
        kept = await self._write(client, difference, owner)
        if kept & self._features != self._features:
            self._take_features(kept & self._features)
            self._wake.set()
        if not difference.is_empty:
            await self._rest_if_repeated(wanted)

    async def _rest_if_repeated(self, written: DevicePool) -> None:
        """Waits after the same slices were written again, but not for other hardware.

        Somebody changes or removes them each time. Without a rest two would write without end.
        """
        now_s = self._clock.now_s()
        if written != self._written:
            self._written = written
            return
        if now_s - self._repeated_s > CALM_S:
            self._repeats = self._repeats.worked()
        await wait_for_hint(self._news, self._repeats.wait_s, self._clock)
        self._repeats, self._repeated_s = self._repeats.failed(), self._clock.now_s()

    async def _probe(self, client: Client) -> None:
        """Asks a server that dropped fields, now and then, whether it would keep them by now."""
        due_s = self._probing.due_s
        if due_s is None or self._clock.now_s() < due_s:
            return
        kept = ALL
        try:
            for body in render_all(probe_pool(self._driver, self._node)):
                answer = await client.create(RESOURCE_SLICES, None, body, dry_run=True)
                kept &= read_features(body["spec"], _parse_slice(answer).spec)
        except KubeError as error:
            _log.warning(
                "cannot ask which fields the API server keeps", driver=self._driver, reason=str(error)
            )
            kept = self._features
        self._take_features(kept)

    def _until_probe(self, wait_s: float) -> float:
        due_s = self._probing.due_s
        return wait_s if due_s is None else min(wait_s, max(0.0, due_s - self._clock.now_s()))

    def _take_features(self, kept: Features) -> None:
        if kept != self._features:
            for sentence in kept.missing:
                _log.warning(
                    "the API server keeps less than it is sent", driver=self._driver, effect=sentence
                )
            if kept == ALL:
                _log.info("the API server keeps all that it is sent again", driver=self._driver)
        self._features = kept
        self._probing = (
            self._probing.kept_all() if kept == ALL else self._probing.dropped(self._clock.now_s())
        )

    async def _read_published(self, client: Client) -> list[Published]:
        pages = client.list_pages(RESOURCE_SLICES, None, {"fieldSelector": self._selector})
        try:
            return [_parse_slice(raw) async for page in pages for raw in page.items]
        except NotFoundError:
            raise KubeError(UNKNOWN_API) from None

    async def _write(self, client: Client, difference: Difference, owner: str) -> Features:
        kept = ALL
        for old in difference.delete:
            with suppress(NotFoundError):
                await client.delete(RESOURCE_SLICES, None, old.name, uid=old.uid)
        for new in difference.replace:
            answer = await client.replace(RESOURCE_SLICES, None, new.old.name, new.body)
            kept &= self._take_answer(new.body, owner, answer)
        for body in difference.create:
            answer = await client.create(RESOURCE_SLICES, None, body)
            kept &= self._take_answer(body, owner, answer)
        if not difference.is_empty:
            _log.info(
                "slices written",
                driver=self._driver,
                deleted=len(difference.delete),
                replaced=len(difference.replace),
                created=len(difference.create),
            )
        return kept

    def _take_answer(self, body: Body, owner: str, answer: bytes) -> Features:
        """Learns from the answer to a write in which form the server keeps it; the features it kept."""
        stored = _parse_slice(answer)
        kept = read_features(body["spec"], stored.spec)
        if stored.index is None:
            return kept
        sent, found = content_of(spec_of(body), owner), content_of(stored.spec, stored.owner)
        self._rewrites = after_answer(self._rewrites, stored.index, sent, found)
        if sent != found and kept == ALL and not self._has_told_rewrite:
            self._has_told_rewrite = True
            _log.warning(
                "admission changes the slices that are written; they are left as it made them",
                driver=self._driver,
                change=describe_rewrite(sent, found),
            )
        return kept

    def _note(self, problem: str | None) -> None:
        if problem is not None and problem != self.problem:
            _log.warning("cannot publish", driver=self._driver, reason=problem)
        self.problem = problem


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
