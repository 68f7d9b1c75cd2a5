"""Lists the slice requests of a cluster, once, and lets go of one."""

import asyncio
from collections.abc import Sequence
from contextlib import suppress

from accelet.kinds.slicerequest import SLICE_REQUESTS
from accelet.kube.client import Client
from accelet.kube.errors import ConflictError, MalformedObjectError, NotFoundError
from accelet.kube.kubeconfig import Kubeconfig
from accelet.provisioner.record import SliceRequest, finalizer_patch, parse_request

API_S = 60.0


async def list_slices(
    kubeconfig: Kubeconfig | None, namespace: str | None = None, within_s: float = API_S
) -> tuple[Sequence[SliceRequest], Sequence[str]]:
    """The slice requests of a namespace or of all, by namespace, set and name; a note on each malformed one.

    Raises:
        KubeError: there is no way to the API server, or it refuses. TimeoutError: it takes too long.
    """
    client = await Client.connect(kubeconfig)
    found: list[SliceRequest] = []
    notes: list[str] = []
    try:
        async with asyncio.timeout(within_s):
            async for page in client.list_pages(SLICE_REQUESTS, namespace):
                for item in page.items:
                    try:
                        found.append(parse_request(item))
                    except MalformedObjectError as error:
                        notes.append(f"not shown: {error}")
    finally:
        client.close()
    return sorted(found, key=lambda one: (one.set_key, one.name)), notes


async def forget_slice(
    kubeconfig: Kubeconfig | None, namespace: str, name: str, within_s: float = API_S
) -> str:
    """Deletes a SliceRequest and takes its finalizer off; the name of its pool, which stays.

    It is deleted first: what is left of a command that was killed in between is on its way out.

    Raises:
        NotFoundError: there is none. KubeError: there is no way to the API server, or it refuses.
        TimeoutError: it takes too long.
    """
    client = await Client.connect(kubeconfig)
    try:
        async with asyncio.timeout(within_s):
            found = parse_request(await client.get(SLICE_REQUESTS, namespace, name))
            await client.delete(SLICE_REQUESTS, namespace, name, uid=found.uid)
            await _let_go(client, found)
    finally:
        client.close()
    return found.status.pool


async def _let_go(client: Client, found: SliceRequest) -> None:
    """Takes the finalizer off the newest version of this request, whoever else writes it."""
    with suppress(NotFoundError):
        while True:
            newest = parse_request(await client.get(SLICE_REQUESTS, *found.key))
            patch = finalizer_patch(newest)
            if newest.uid != found.uid or patch is None:
                return
            with suppress(ConflictError):
                await client.patch(SLICE_REQUESTS, *found.key, patch, "merge")
                return
