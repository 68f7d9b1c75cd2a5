"""What is told of claims is written, whatever happens while something is being written."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any

from accelet.accelerators.device import UnitId
from accelet.dra.preparing.claim import parse_claim
from accelet.dra.preparing.entry import Entry
from accelet.dra.preparing.hold import DeviceHold
from accelet.dra.telling.claimconditions import ClaimConditions
from accelet.kube.apiresources import ApiResource
from accelet.kube.client import Client
from accelet.kube.errors import NotFoundError, UnavailableError

GPU = "gpu.accelet.dev"
UNIT = UnitId("0000-03-00.0")
SICK = {(UNIT, 0): "it is too hot"}
CARD = "gpu-0000-03-00-0"


class Claims(Client):
    """The claims of one namespace; each write waits until it may be done."""

    def __init__(self, *names: str) -> None:
        self.claims = {name: _claim(name) for name in names}
        self.may_write = asyncio.Event()
        self.writes, self.written = asyncio.Event(), asyncio.Event()
        self.asked: list[str] = []
        self.is_away = False

    async def get(self, resource: ApiResource, namespace: str | None, name: str) -> bytes:
        self.asked.append(name)
        if self.is_away:
            self.writes.set()
            raise UnavailableError("no answer within 30 s")
        if name not in self.claims:
            raise NotFoundError("GET", 404, "NotFound", "")
        return json.dumps(self.claims[name]).encode()

    async def patch(  # type: ignore[override]
        self, resource: ApiResource, namespace: str, name: str, patch: Mapping[str, Any], *_: Any, **__: Any
    ) -> bytes:
        self.writes.set()
        await self.may_write.wait()
        self.claims[name]["status"]["devices"] = patch["status"]["devices"]
        self.written.set()
        return b""

    def said(self, name: str) -> str:
        devices = self.claims[name]["status"].get("devices") or [{"conditions": [{"reason": ""}]}]
        reason: str = devices[0]["conditions"][0]["reason"]
        return reason


def _claim(name: str) -> dict[str, Any]:
    results = [{"request": "gpu", "driver": GPU, "pool": "n", "device": CARD}]
    return {
        "metadata": {"name": name, "namespace": "ml", "uid": f"uid-{name}"},
        "status": {"allocation": {"devices": {"results": results}}},
    }


def entry(name: str) -> Entry:
    read = parse_claim(json.dumps(_claim(name)).encode(), GPU)
    hold = DeviceHold("gpu", "n", CARD, frozenset({(UNIT, 0)}))
    return Entry(read.uid, read.digest, "ml", name, "completed", (hold,), (), "")


@asynccontextmanager
async def running(claims: Claims) -> AsyncIterator[ClaimConditions]:
    async def connect() -> Client:
        return claims

    conditions = ClaimConditions(connect, GPU)
    task = asyncio.create_task(conditions.run())
    try:
        yield conditions
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def _until(claims: Claims, name: str, reason: str) -> None:
    async with asyncio.timeout(20):
        while claims.said(name) != reason:
            claims.written.clear()
            await claims.written.wait()


async def test_a_recovery_while_an_illness_is_being_written_is_written_next() -> None:
    claims = Claims("c")
    async with running(claims) as conditions:
        conditions.tell([entry("c")], SICK)
        await claims.writes.wait()
        conditions.tell([entry("c")], {})
        claims.may_write.set()
        await _until(claims, "c", "DeviceHealthy")


async def test_no_other_claim_is_tried_while_the_api_server_is_away() -> None:
    """Each would wait for an answer as long as the first has."""
    claims = Claims("c", "d", "e")
    claims.is_away = True
    claims.may_write.set()
    async with running(claims) as conditions:
        conditions.tell([entry(name) for name in claims.claims], SICK)
        await claims.writes.wait()
        await asyncio.sleep(0)
        assert len(claims.asked) == 1
        claims.is_away = False
        for name in claims.claims:
            await _until(claims, name, "DeviceUnhealthy")
