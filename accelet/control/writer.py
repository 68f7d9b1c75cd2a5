"""Writes to the API server with a fence before each: is it still ours to write?"""

from collections.abc import Callable, Sequence
from typing import TypeVar

from accelet.control.errors import NotLeadingError
from accelet.kube.apiresources import ApiResource, Body, ObjectApi, PatchOf, Propagation
from accelet.kube.errors import ConflictError, NotFoundError

T = TypeVar("T")
_TRIES = 4


class FencedWriter:
    """Requests like those of the `api` behind it; each write raises NotLeadingError once `may_write` says no.

    A leader that was stalled learns here that another one is at work. Every method raises KubeError too.
    What acts elsewhere than on the API server asks `may_write` itself, on whatever thread.
    """

    def __init__(self, api: ObjectApi, may_write: Callable[[], bool]) -> None:
        self._api, self.may_write = api, may_write

    async def get(self, resource: ApiResource, namespace: str | None, name: str) -> bytes:
        return await self._api.get(resource, namespace, name)

    async def create(
        self, resource: ApiResource, namespace: str | None, body: Body, *, dry_run: bool = False
    ) -> bytes:
        self._check()
        return await self._api.create(resource, namespace, body, dry_run=dry_run)

    async def replace(
        self, resource: ApiResource, namespace: str | None, name: str, body: Body, *, dry_run: bool = False
    ) -> bytes:
        self._check()
        return await self._api.replace(resource, namespace, name, body, dry_run=dry_run)

    async def patch(
        self,
        resource: ApiResource,
        namespace: str | None,
        name: str,
        patch: Body | Sequence[Body],
        of: PatchOf,
        *,
        subresource: str = "",
        dry_run: bool = False,
    ) -> bytes:
        self._check()
        return await self._api.patch(
            resource, namespace, name, patch, of, subresource=subresource, dry_run=dry_run
        )

    async def delete(
        self,
        resource: ApiResource,
        namespace: str | None,
        name: str,
        *,
        uid: str | None = None,
        resource_version: str | None = None,
        propagation: Propagation | None = None,
        dry_run: bool = False,
    ) -> bytes:
        self._check()
        return await self._api.delete(
            resource,
            namespace,
            name,
            uid=uid,
            resource_version=resource_version,
            propagation=propagation,
            dry_run=dry_run,
        )

    async def patch_newest(
        self,
        resource: ApiResource,
        key: tuple[str, str],
        known: T,
        *,
        read: Callable[[bytes], T],
        patch_of: Callable[[T], Body | None],
        subresource: str = "",
        dry_run: bool = False,
    ) -> bytes | None:
        """Merges `patch_of(known)` into an object; where that conflicts, of its newest version, some times.

        The patch must name the version it holds for. None is returned, and nothing written, once
        `patch_of` finds nothing to do or the object is gone.

        Raises:
            ConflictError: somebody else was quicker each time.
        """
        namespace, name = key
        for tries_left in range(_TRIES - 1, -1, -1):
            patch = patch_of(known)
            if patch is None:
                return None
            try:
                return await self.patch(
                    resource, namespace, name, patch, "merge", subresource=subresource, dry_run=dry_run
                )
            except NotFoundError:
                return None
            except ConflictError:
                if not tries_left:
                    raise
            try:
                known = read(await self.get(resource, namespace, name))
            except NotFoundError:
                return None
        raise AssertionError("the last try returns or raises")

    def _check(self) -> None:
        if not self.may_write():
            raise NotLeadingError("this replica does not lead any more")
