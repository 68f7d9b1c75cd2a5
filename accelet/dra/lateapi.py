"""The API server for whoever cannot wait for it: a request finds a connection, or fails soon."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing

from accelet.kube.apiresources import PODS, ApiResource
from accelet.kube.client import Client
from accelet.kube.errors import UnavailableError
from accelet.kube.objects import RawObject

CONNECT_S = 5.0

_PODS_A_PAGE = 25
"""A pod may have a megabyte and a half."""

Connect = Callable[[], Awaitable[Client]]
"""Gives the client of this process, however long it takes to have one."""


class LateApi:
    """Implements `accelet.dra.running.claimreader.Api`."""

    def __init__(self, connect: Connect) -> None:
        self._connect = connect

    async def get(self, resource: ApiResource, namespace: str | None, name: str) -> bytes:
        return await (await self._find_client()).get(resource, namespace, name)

    async def pods_on(self, node: str, namespace: str) -> AsyncIterator[RawObject]:
        query = {"fieldSelector": f"spec.nodeName={node}"}
        client = await self._find_client()
        async with aclosing(client.list_pages(PODS, namespace, query, _PODS_A_PAGE)) as pages:
            async for page in pages:
                for item in page.items:
                    yield item

    async def _find_client(self) -> Client:
        try:
            async with asyncio.timeout(CONNECT_S):
                return await self._connect()
        except TimeoutError:
            raise UnavailableError("there is no connection to the API server yet") from None
