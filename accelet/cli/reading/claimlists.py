"""Lists what decides on the claims of a cluster, once."""

import asyncio
from collections.abc import Callable
from typing import Any, Final, TypeVar

from accelet.claims.podclaims import parse_claiming_pod
from accelet.claims.requests import parse_claim, parse_claim_template, parse_device_class
from accelet.claims.slices import parse_slice
from accelet.cli.reading.objectlists import API_S, list_all
from accelet.dra.preparing.claim import RESOURCE_CLAIMS
from accelet.dra.publishing.slices import RESOURCE_SLICES
from accelet.kube.apiresources import NODES, PODS, ApiResource
from accelet.kube.client import Client
from accelet.kube.kubeconfig import Kubeconfig
from accelet.kube.nodes import parse_node
from accelet.kube.objects import RawObject
from accelet.scheduler.claims.outlook import Objects

_T = TypeVar("_T")

DEVICE_CLASSES: Final = ApiResource("DeviceClass", "deviceclasses", "resource.k8s.io", "v1")
CLAIM_TEMPLATES: Final = ApiResource(
    "ResourceClaimTemplate", "resourceclaimtemplates", "resource.k8s.io", "v1"
)


async def list_claim_objects(kubeconfig: Kubeconfig | None, within_s: float = API_S) -> Objects:
    """Everything at the API server, as of now.

    Raises:
        NotFoundError: the cluster does not serve resource.k8s.io/v1. KubeError: there is no way to it, or it
        refuses. TimeoutError: it takes longer than `within_s`.
    """
    client = await Client.connect(kubeconfig)
    notes: list[str] = []

    async def listed(resource: ApiResource, parse: Callable[[RawObject], _T]) -> list[_T]:
        return await list_all(client, resource, parse, notes)

    try:
        async with asyncio.timeout(within_s):
            # Claims before slices: a device that a claim holds was there before the claim had it.
            found: dict[str, Any] = {
                "pods": await listed(PODS, parse_claiming_pod),
                "claims": await listed(RESOURCE_CLAIMS, parse_claim),
                "templates": await listed(CLAIM_TEMPLATES, parse_claim_template),
                "classes": await listed(DEVICE_CLASSES, parse_device_class),
                "slices": await listed(RESOURCE_SLICES, parse_slice),
                "nodes": await listed(NODES, parse_node),
            }
            return Objects(**found, notes=notes)
    finally:
        client.close()
