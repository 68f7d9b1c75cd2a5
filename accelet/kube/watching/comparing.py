"""Asks who is there, and in which version, so that only what has changed need be read whole."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, replace

import msgspec

from accelet.kube.watching.source import Scope, Source
from accelet.kube.watching.store import ObjectIdentity, read_identity

MOST_CHANGED = 8
"""Of more than these a list of everything costs less than to read each."""

_PAGE = 100


@dataclass(frozen=True, slots=True)
class Present:
    """All objects that there were at one version of the API server."""

    objects: tuple[ObjectIdentity, ...]
    resource_version: str


async def list_present(source: Source, scope: Scope) -> Present:
    """Who is there now.

    Raises:
        KubeError: the list failed.
    """
    found: list[ObjectIdentity] = []
    resource_version = ""
    pages = source.list_pages(scope.resource, scope.namespace, scope.query, _PAGE, only_metadata=True)
    async for page in pages:
        resource_version = resource_version or page.resource_version
        found += [read_identity(raw, scope.resource.kind) for raw in page.items]
    return Present(tuple(found), resource_version)


async def read_at(
    source: Source, scope: Scope, who: ObjectIdentity, resource_version: str
) -> AsyncIterator[msgspec.Raw]:
    """The object as it was at a version of the API server: at a later one it would be no part of that list.

    Raises:
        KubeError: it cannot be read, or the version is forgotten.
    """
    namespace, name = who.key
    chosen = ",".join(filter(None, (scope.field_selector, f"metadata.name={name}")))
    query = {
        **replace(scope, field_selector=chosen).query,
        "resourceVersion": resource_version,
        "resourceVersionMatch": "Exact",
    }
    async for page in source.list_pages(scope.resource, namespace or None, query, None):
        for raw in page.items:
            yield raw
