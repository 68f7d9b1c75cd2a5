"""The one connection to the API server of everybody on this node who asks it."""

import asyncio
from collections.abc import Callable
from pathlib import Path

from accelet.kube.client import Client
from accelet.kube.errors import ConfigurationError
from accelet.runtime.backoff import Backoff
from accelet.runtime.waiting import until_it_works

FIRST_TRY_S = 5.0
LAST_TRY_S = 300.0
"""From one try to the next: a kubeconfig or a service account may come late, or be mended."""

_THREADS = 6
"""So many requests at once that a read for an Allocate never waits for a write, an Event or a list."""


class ApiConnection:
    """Connects when first asked for, and again and again until that works."""

    def __init__(self, kubeconfig: Path | None, *, first_try_s: float = FIRST_TRY_S) -> None:
        """`kubeconfig` None stands for the service account of this pod."""
        self._kubeconfig = kubeconfig
        self._first_try_s = first_try_s
        self._client: Client | None = None
        self._connecting = asyncio.Lock()

    async def client(self, failed: Callable[[ConfigurationError], None]) -> Client:
        """The client, which is everybody's and not to be closed; `failed` is called for each try in vain."""
        backoff = Backoff(first_s=self._first_try_s, most_s=LAST_TRY_S)
        return await until_it_works(
            self._connect, ConfigurationError, lambda error, _: failed(error), backoff=backoff
        )

    def close(self) -> None:
        if self._client is not None:
            self._client.close()

    async def _connect(self) -> Client:
        async with self._connecting:
            if self._client is None:
                self._client = await Client.connect(self._kubeconfig, threads=_THREADS)
            return self._client
