"""What tests of tasks on a real API server wait for."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

from accelet.kinds.gputask import GPU_TASKS
from accelet.kube.client import Client


async def until(what: str, condition: Callable[[], Awaitable[object]], within_s: float = 240.0) -> None:
    try:
        async with asyncio.timeout(within_s):
            while not await condition():  # noqa: ASYNC110 - the API server is another process
                await asyncio.sleep(0.2)
    except TimeoutError:
        raise AssertionError(f"not within {within_s:g} s: {what}") from None


async def status_of(client: Client, namespace: str, name: str) -> dict[str, Any]:
    """What its controller has said of a GPUTask until now."""
    status: dict[str, Any] = json.loads(await client.get(GPU_TASKS, namespace, name)).get("status") or {}
    return status
