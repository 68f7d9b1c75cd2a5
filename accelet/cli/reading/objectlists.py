"""Lists the nodes, pods, plans, slices and claims of a cluster, once."""

import asyncio
from collections.abc import Callable, Iterable
from typing import TypeVar

from accelet.cli.reading.cardobjects import CardObjects
from accelet.dra.names import GPU_DRIVER
from accelet.dra.preparing.claim import RESOURCE_CLAIMS, AllocatedClaim, parse_held
from accelet.dra.publishing.published import PublishedSlice, parse_published
from accelet.dra.publishing.slices import RESOURCE_SLICES
from accelet.kube.apiresources import CONFIG_MAPS, NODES, PODS, ApiResource
from accelet.kube.client import Client
from accelet.kube.errors import ForbiddenError, GoneError, MalformedObjectError, NotFoundError
from accelet.kube.kubeconfig import Kubeconfig
from accelet.kube.nodes import parse_node
from accelet.kube.objects import RawObject
from accelet.kube.podparser import parse_pod
from accelet.scheduler.record import SELECTOR, Record, parse_record

_T = TypeVar("_T")
API_S = 60.0
_PAGE = 1000
_CLAIMS_UNSEEN = "Cards that are served through DRA are not shown: {}"
_PLANS_UNSEEN = "What the scheduler keeps for pods that it is about to release is not shown: {}"


async def list_card_objects(kubeconfig: Kubeconfig | None, within_s: float = API_S) -> CardObjects:
    """Everything at the API server, as of now.

    Raises:
        KubeError: there is no way to it, or it refuses. TimeoutError: it takes longer than `within_s`.
    """
    client = await Client.connect(kubeconfig)
    notes: list[str] = []
    try:
        async with asyncio.timeout(within_s):
            # Nodes last: a card that a pod holds was there before the pod had it.
            plans = await _list_plans(client, notes)
            pods = await list_all(client, PODS, parse_pod, notes)
            slices, claims = await _list_claims(client, notes)
            nodes = await list_all(client, NODES, parse_node, notes)
            return CardObjects(nodes, pods, plans, notes, slices=slices, claims=claims)
    finally:
        client.close()


async def _list_plans(client: Client, notes: list[str]) -> list[Record]:
    """Those that the scheduler is carrying out; who may not see them sees the rest."""
    try:
        return await list_all(client, CONFIG_MAPS, parse_record, notes, {"labelSelector": SELECTOR})
    except ForbiddenError as error:
        notes.append(_PLANS_UNSEEN.format(error))
        return []


async def _list_claims(client: Client, notes: list[str]) -> tuple[list[PublishedSlice], list[AllocatedClaim]]:
    """Slices of GPUs, and claims that hold some; nothing of a cluster without Kubernetes' API for them.

    Slices come first: where there are none, nobody needs the right to see all claims.
    """
    query = {"fieldSelector": f"spec.driver={GPU_DRIVER}"}
    try:
        found = await list_all(client, RESOURCE_SLICES, parse_published, notes, query)
        slices = [one for one in found if one is not None]
        if not slices:
            return [], []
        held = await list_all(client, RESOURCE_CLAIMS, lambda raw: parse_held(raw, GPU_DRIVER), notes)
    except ForbiddenError as error:
        notes.append(_CLAIMS_UNSEEN.format(error))
        return [], []
    except NotFoundError:
        return [], []
    return slices, [one for one in held if one is not None]


async def list_all(
    client: Client,
    resource: ApiResource,
    parse: Callable[[RawObject], _T],
    notes: list[str],
    query: dict[str, str] | None = None,
) -> list[_T]:
    """All objects of a resource; a note on each that cannot be read.

    Raises:
        KubeError: the API server refuses.
    """
    try:
        pages = [page async for page in client.list_pages(resource, None, query, _PAGE)]
    except GoneError:  # it took longer than the API server keeps a list's version
        pages = [page async for page in client.list_pages(resource, None, query, None)]
    return list(_parse_all((raw for page in pages for raw in page.items), parse, notes))


def _parse_all(
    items: Iterable[RawObject], parse: Callable[[RawObject], _T], notes: list[str]
) -> Iterable[_T]:
    for raw in items:
        try:
            yield parse(raw)
        except MalformedObjectError as error:
            notes.append(f"not shown: {error}")
