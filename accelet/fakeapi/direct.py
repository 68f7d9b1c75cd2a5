"""The same requests without HTTP, on a clock: for runs that must be the same each time."""

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass

from accelet.fakeapi.lifecycle import Json
from accelet.fakeapi.state import RefusedError, State
from accelet.kube.answers import api_error
from accelet.kube.apiresources import ApiResource, Body, PatchOf, Propagation
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
        return await self._do(_Request("GET", resource, namespace, name))

    async def create(
        self, resource: ApiResource, namespace: str | None, body: Body, *, dry_run: bool = False
    ) -> bytes:
        return await self._do(_Request("POST", resource, namespace, "", body, dry_run=dry_run))

    async def replace(
        self, resource: ApiResource, namespace: str | None, name: str, body: Body, *, dry_run: bool = False
    ) -> bytes:
        return await self._do(_Request("PUT", resource, namespace, name, body, dry_run=dry_run))

    async def patch(
        self,
        resource: ApiResource,
        namespace: str | None,
        name: str,
        patch: Body | Sequence[Body],
        of: PatchOf,
        *,
        subresource: str = "",
        dry_run: bool = False,
    ) -> bytes:
        return await self._do(
            _Request("PATCH", resource, namespace, name, patch, of, subresource, dry_run=dry_run)
        )

    async def delete(
        self,
        resource: ApiResource,
        namespace: str | None,
        name: str,
        *,
        uid: str | None = None,
        resource_version: str | None = None,
        propagation: Propagation | None = None,
        dry_run: bool = False,
    ) -> bytes:
        wanted = {"uid": uid, "resourceVersion": resource_version}
        body: Json = {"preconditions": {name: value for name, value in wanted.items() if value}}
        if propagation is not None:
            body["propagationPolicy"] = propagation
        return await self._do(_Request("DELETE", resource, namespace, name, body, dry_run=dry_run))

    async def _do(self, request: "_Request") -> bytes:
        await self._delay()
        if self.is_cut_off or self._chance.random() < self.fault_rate:
            raise UnavailableError(f"{request}: injected")
        try:
            answer = request.answer(self._state)
        except RefusedError as refused:
            status = {"reason": refused.reason, "message": refused.message}
            raise api_error(str(request), refused.status, json.dumps(status).encode()) from None
        await self._delay()
        if request.method != "GET" and self.write_answer_s:
            await self._clock.sleep(self.write_answer_s)
        if self.is_cut_off or self._chance.random() < self.fault_rate:
            raise UnavailableError(f"{request}: injected after the write")
        return json.dumps(answer).encode()

    async def _delay(self) -> None:
        if self.slowest_s:
            await self._clock.sleep(self._chance.uniform(0.0, self.slowest_s))


@dataclass(frozen=True, slots=True)
class _Request:
    method: str
    resource: ApiResource
    namespace: str | None
    name: str
    body: Body | Sequence[Body] | None = None
    of: PatchOf = "merge"
    subresource: str = ""
    dry_run: bool = False

    def __str__(self) -> str:
        return f"{self.method} {self.resource.path(self.namespace, self.name or None, self.subresource)}"

    def answer(self, state: State) -> Json:
        collection = self.resource.path().removeprefix("/")
        key = (self.namespace or "", self.name)
        body: Json = json.loads(json.dumps(self.body))
        sub, dry_run = self.subresource, self.dry_run
        match self.method:
            case "GET":
                return state.get(collection, key)
            case "POST":
                return state.create(collection, key[0], body, dry_run=dry_run, subresource="")
            case "PUT":
                return state.replace(collection, key, body, dry_run=dry_run, subresource=sub)
            case "DELETE":
                return state.delete(collection, key, body, dry_run=dry_run)
            case _:
                kind = f"{self.of}-patch"
                return state.patch(collection, key, kind, body, dry_run=dry_run, subresource=sub)
