"""The API server for whoever cannot wait for it: a request finds a connection, or fails soon."""

import asyncio
from collections.abc import Awaitable, Callable

from accelet.kube.apiresources import ApiResource
from accelet.kube.client import Client
from accelet.kube.errors import UnavailableError

CONNECT_S = 5.0

Connect = Callable[[], Awaitable[Client]]
"""Gives the client of this process, however long it takes to have one."""


class LateApi:
    """Implements `accelet.dra.running.claimreader.Api`."""

    def __init__(self, connect: Connect) -> None:
        self._connect = connect

    async def get(self, resource: ApiResource, namespace: str | None, name: str) -> bytes:
        try:
            async with asyncio.timeout(CONNECT_S):
                client = await self._connect()
        except TimeoutError:
            raise UnavailableError("there is no connection to the API server yet") from None
        return await client.get(resource, namespace, name)
