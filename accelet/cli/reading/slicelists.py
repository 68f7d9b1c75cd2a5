"""Lists the slice requests of a cluster, once."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

from accelet.kinds.slicerequest import SLICE_REQUESTS
from accelet.kube.client import Client
from accelet.kube.errors import MalformedObjectError
from accelet.provisioner.record import SliceRequest, parse_request

API_S = 60.0


async def list_slices(
    kubeconfig: Path | None, within_s: float = API_S
) -> tuple[Sequence[SliceRequest], Sequence[str]]:
    """All slice requests by namespace, set and name, and a note on each that cannot be read.

    Raises:
        KubeError: there is no way to the API server, or it refuses. TimeoutError: it takes too long.
    """
    client = await Client.connect(kubeconfig)
    found: list[SliceRequest] = []
    notes: list[str] = []
    try:
        async with asyncio.timeout(within_s):
            async for page in client.list_pages(SLICE_REQUESTS):
                for item in page.items:
                    try:
                        found.append(parse_request(item))
                    except MalformedObjectError as error:
                        notes.append(f"not shown: {error}")
    finally:
        client.close()
    return sorted(found, key=lambda one: (one.set_key, one.name)), notes
