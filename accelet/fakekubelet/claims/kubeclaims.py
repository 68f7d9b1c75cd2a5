"""Claims and ResourceSlices of an API server, real or in this process."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Final

from accelet.fakekubelet.claims.cache import FoundClaim
from accelet.kube.apiresources import ApiResource
from accelet.kube.client import Client
from accelet.kube.errors import NotFoundError
from accelet.kube.objects import Wire, WireObject, WireOwner, read_object

CLAIMS: Final = ApiResource("ResourceClaim", "resourceclaims", "resource.k8s.io")
_SCHEDULING: Final = "scheduling.k8s.io"
SLICES: Final = ApiResource("ResourceSlice", "resourceslices", "resource.k8s.io")


class _Result(Wire, frozen=True):
    driver: str


class _Devices(Wire, frozen=True):
    results: list[_Result] | None = None


class _Allocation(Wire, frozen=True):
    devices: _Devices | None = None


class _Consumer(Wire, frozen=True):
    uid: str
    resource: str = "pods"
    name: str = ""
    api_group: str | None = None

    @property
    def is_group(self) -> bool:
        return (self.api_group, self.resource) == (_SCHEDULING, "podgroups")


class _Status(Wire, frozen=True):
    allocation: _Allocation | None = None
    reserved_for: list[_Consumer] | None = None


class _WireClaim(WireObject, frozen=True):
    status: _Status | None = None


class _WireSlice(WireObject, frozen=True):
    pass


class KubeClaims:
    """Claims and slices of an API server, real or in this process. Implements `ClaimApi`."""

    def __init__(self, client: Client) -> None:
        self._client = client

    async def find_claim(self, namespace: str, name: str) -> FoundClaim:
        wire = read_object(await self._client.get(CLAIMS, namespace, name), CLAIMS.kind, _WireClaim)
        status = wire.status or _Status()
        owners = [owner for owner in wire.metadata.owner_references or () if owner.controller]
        consumers = status.reserved_for or ()
        return FoundClaim(
            namespace,
            name,
            wire.metadata.uid or "",
            None if status.allocation is None else _drivers(status.allocation),
            frozenset(consumer.uid for consumer in consumers if not consumer.is_group),
            owners[0].uid if owners else None,
            frozenset(consumer.name for consumer in consumers if consumer.is_group),
            _group_of(owners[0]) if owners else "",
        )

    async def delete_slices(self, node: str, driver: str | None) -> int:
        selector = f"spec.nodeName={node}" + (f",spec.driver={driver}" if driver else "")
        names = [
            read_object(raw, SLICES.kind, _WireSlice).metadata.name
            async for page in self._client.list_pages(SLICES, None, {"fieldSelector": selector})
            for raw in page.items
        ]
        for name in names:
            with suppress(NotFoundError):
                await self._client.delete(SLICES, None, name)
        return len(names)


def _group_of(owner: WireOwner) -> str:
    """The name of an owner that is a PodGroup, empty for any other."""
    is_group = owner.kind == "PodGroup" and (owner.api_version or "").partition("/")[0] == _SCHEDULING
    return owner.name if is_group else ""


def _drivers(allocation: _Allocation) -> tuple[str, ...]:
    results = allocation.devices.results if allocation.devices is not None else None
    return tuple(dict.fromkeys(result.driver for result in results or ()))


@asynccontextmanager
async def kube_claims(kubeconfig: Path) -> AsyncIterator[KubeClaims]:
    """The API server of a kubeconfig.

    Raises:
        ConfigurationError: the file is absent or cannot be used.
    """
    client = await Client.connect(kubeconfig)
    try:
        yield KubeClaims(client)
    finally:
        client.close()
