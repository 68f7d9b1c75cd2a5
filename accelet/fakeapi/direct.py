"""The same requests without HTTP, on a clock: for runs that must be the same each time."""

import json
import random
from collections.abc import Sequence

from accelet.fakeapi.lifecycle import Json
from accelet.fakeapi.state import RefusedError, State
from accelet.kube.answers import api_error
from accelet.kube.apiresources import ApiResource, Body, PatchOf
from accelet.kube.errors import UnavailableError
from accelet.runtime.clock import Clock


class DirectClient:
    """Requests to a fake API server's state that take time, fail before or after the write, or hang."""

    def __init__(self, state: State, clock: Clock, chance: random.Random, fault_rate: float = 0.0) -> None:
        self._state, self._clock, self._chance = state, clock, chance
        self.fault_rate = fault_rate
        self.slowest_s = 0.0
        self.write_answer_s = 0.0
        self.is_cut_off = False

    async def get(self, resource: ApiResource, namespace: str | None, name: str) -> bytes:
        return await self._do("GET", resource, namespace, name)

    async def create(
        self, resource: ApiResource, namespace: str | None, body: Body, *, dry_run: bool = False
    ) -> bytes:
        return await self._do("POST", resource, namespace, "", body, dry_run=dry_run)

    async def replace(
        self, resource: ApiResource, namespace: str | None, name: str, body: Body, *, dry_run: bool = False
    ) -> bytes:
        return await self._do("PUT", resource, namespace, name, body, dry_run=dry_run)

    async def patch(
        self,
        resource: ApiResource,
        namespace: str | None,
        name: str,
        patch: Body | Sequence[Body],
        of: PatchOf,
        *,
        dry_run: bool = False,
    ) -> bytes:
        return await self._do("PATCH", resource, namespace, name, patch, dry_run=dry_run, of=of)

    async def _do(
        self,
        method: str,
        resource: ApiResource,
        namespace: str | None,
        name: str,
        body: Body | Sequence[Body] | None = None,
        *,
        dry_run: bool = False,
        of: PatchOf = "merge",
    ) -> bytes:
        request = f"{method} {resource.path(namespace, name or None)}"
        await self._delay()
        if self.is_cut_off or self._chance.random() < self.fault_rate:
            raise UnavailableError(f"{request}: injected")
        collection = resource.path().removeprefix("/")
        key = (namespace or "", name)
        try:
            answer = self._act(method, collection, key, json.loads(json.dumps(body)), of, dry_run=dry_run)
        except RefusedError as refused:
            status = {"reason": refused.reason, "message": refused.message}
            raise api_error(request, refused.status, json.dumps(status).encode()) from None
        await self._delay()
        if method != "GET" and self.write_answer_s:
            await self._clock.sleep(self.write_answer_s)
        if self.is_cut_off or self._chance.random() < self.fault_rate:
            raise UnavailableError(f"{request}: injected after the write")
        return json.dumps(answer).encode()

    def _act(
        self, method: str, collection: str, key: tuple[str, str], body: Json, of: PatchOf, *, dry_run: bool
    ) -> Json:
        match method:
            case "GET":
                return self._state.get(collection, key)
            case "POST":
                return self._state.create(collection, key[0], body, dry_run=dry_run)
            case "PUT":
                return self._state.replace(collection, key, body, dry_run=dry_run)
            case _:
                return self._state.patch(collection, key, f"{of}-patch", body, dry_run=dry_run)

    async def _delay(self) -> None:
        if self.slowest_s:
            await self._clock.sleep(self._chance.uniform(0.0, self.slowest_s))
