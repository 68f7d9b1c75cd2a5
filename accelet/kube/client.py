"""Requests to the API server from asyncio: raw JSON in and out, errors as exceptions."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec

from accelet.kube.apiresources import PODS, ApiRequest, ApiResource, Body, PatchOf, Propagation
from accelet.kube.connection import Connection, LineStream, load_api
from accelet.kube.errors import ConfigurationError
from accelet.kube.kubeconfig import Kubeconfig
from accelet.kube.objects import Page, read_page
from accelet.runtime.threads import Workers

CREDENTIALS_S = 120.0

_CONTENT_TYPES: Mapping[PatchOf, str] = {
    "json": "application/json-patch+json",
    "merge": "application/merge-patch+json",
    "strategic": "application/strategic-merge-patch+json",
    "apply": "application/apply-patch+yaml",
}
_METADATA = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
# Bookmarks come about once a minute while anything of the resource changes in the cluster. Two of them
# missing means that nothing does, or a dead connection; to ask anew from where we were costs one request.
_WATCH_SILENCE_S = 130.0


class WatchStream:
    """One watch: iterate over it for batches of raw event lines, until it ends or falls silent."""

    def __init__(self, stream: LineStream, workers: Workers) -> None:
        self._stream, self._workers = stream, workers

    async def __aiter__(self) -> AsyncIterator[list[bytes]]:
        while lines := await self._workers.run(self._stream.read):
            yield lines


class ByteStream:
    """What a container wrote: iterate over it for pieces of at most 64 KiB, until it ends or falls silent."""

    def __init__(self, stream: LineStream, workers: Workers) -> None:
        self._stream, self._workers = stream, workers

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while data := await self._workers.run(self._stream.read_bytes):
            yield data


class Client:
    """One API server. Every method raises ApiError, UnavailableError or ConfigurationError.

    Plain requests run on `threads` threads, each watch on one of its own. A request that was cancelled
    may still reach the API server. A watch in which nothing comes for `watch_silence_s` ends.
    """

    def __init__(
        self, connection: Connection, threads: int = 1, watch_silence_s: float = _WATCH_SILENCE_S
    ) -> None:
        self._connection, self._watch_silence_s = connection, watch_silence_s
        self._workers = Workers("kube", threads)

    @classmethod
    async def connect(cls, kubeconfig: Kubeconfig | Path | None = None, *, threads: int = 1) -> "Client":
        """A client for a kubeconfig, or for this pod's service account where it is None; asks nothing yet.

        A plugin that gives credentials has `CREDENTIALS_S` to answer: a person may have to log in.

        Raises:
            ConfigurationError: the file or the service account is absent or cannot be used.
        """
        chosen = Kubeconfig((kubeconfig,)) if isinstance(kubeconfig, Path) else kubeconfig
        opener = Workers("kube-config")
        try:
            async with asyncio.timeout(CREDENTIALS_S):
                return cls(await opener.run(lambda: Connection(lambda: load_api(chosen))), threads)
        except TimeoutError:
            raise ConfigurationError(
                f"kubeconfig {chosen}: its credential plugin has not answered within {CREDENTIALS_S:g} s"
            ) from None
        finally:
            opener.close()

    async def get_version(self, silence_s: float = 30.0) -> bytes:
        """What the API server says of its own version; nothing for `silence_s` is an UnavailableError."""
        return await self._workers.run(
            self._connection.send, ApiRequest("GET", "/version", silence_s=silence_s)
        )

    async def get(self, resource: ApiResource, namespace: str | None, name: str) -> bytes:
        return await self._send("GET", resource.path(namespace, name))

    async def list_page(
        self,
        resource: ApiResource,
        namespace: str | None = None,
        query: Mapping[str, str] | None = None,
        *,
        only_metadata: bool = False,
    ) -> Page:
        """One page; the next one is asked for with `continue` in the query, see `Page.continue_token`."""
        accept = _METADATA if only_metadata else "application/json"
        request = ApiRequest("GET", resource.path(namespace), query or {}, accept=accept)
        payload = await self._workers.run(self._connection.send, request)
        return await self._workers.run(read_page, payload, resource.kind)

    async def list_pages(
        self,
        resource: ApiResource,
        namespace: str | None = None,
        query: Mapping[str, str] | None = None,
        page_size: int | None = 250,
        *,
        only_metadata: bool = False,
    ) -> AsyncGenerator[Page, None]:
        """A list, page by page. Without `resourceVersion` in the query it is up to date when asked.

        With `only_metadata` the objects have nothing else.

        Raises:
            GoneError: the server no longer has the version that the first page was of; begin again, with
                `page_size` None for one single page if this happens twice.
        """
        limit = {} if page_size is None else {"limit": str(page_size)}
        first = {**(query or {}), **limit}
        page = await self.list_page(resource, namespace, first, only_metadata=only_metadata)
        yield page
        # A continued list is at its first page's version; to name one again is an error.
        rest = {key: value for key, value in (query or {}).items() if not key.startswith("resourceVersion")}
        while page.continue_token:
            following = {**rest, **limit, "continue": page.continue_token}
            page = await self.list_page(resource, namespace, following, only_metadata=only_metadata)
            yield page

    async def create(
        self, resource: ApiResource, namespace: str | None, body: Body, *, dry_run: bool = False
    ) -> bytes:
        return await self._send("POST", resource.path(namespace), _dry(dry_run), body)

    async def replace(
        self, resource: ApiResource, namespace: str | None, name: str, body: Body, *, dry_run: bool = False
    ) -> bytes:
        """Puts `body` in the object's place; with `metadata.resourceVersion` only if it is still that one."""
        return await self._send("PUT", resource.path(namespace, name), _dry(dry_run), body)

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
        field_manager: str = "accelet",
    ) -> bytes:
        """Changes an object: a list of operations for `json`, an object for the others.

        An `apply` takes fields over from other managers.
        """
        query = {"fieldManager": field_manager, **_dry(dry_run)}
        if of == "apply":
            query["force"] = "true"
        path = resource.path(namespace, name, subresource)
        return await self._send("PATCH", path, query, patch, _CONTENT_TYPES[of])

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
        """Deletes an object.

        With `uid` only that one, and not its successor of the same name; with `resource_version` only as it
        was then. ConflictError says that it is another by now. Without `propagation` the kind decides what
        becomes of what it owns: the pods of a Job are orphaned.
        """
        wanted = {"uid": uid, "resourceVersion": resource_version}
        preconditions = {name: value for name, value in wanted.items() if value}
        body: dict[str, object] = {"preconditions": preconditions} if preconditions else {}
        if propagation is not None:
            body["propagationPolicy"] = propagation
        return await self._send("DELETE", resource.path(namespace, name), _dry(dry_run), body or None)

    @asynccontextmanager
    async def watch(
        self,
        resource: ApiResource,
        namespace: str | None = None,
        query: Mapping[str, str] | None = None,
    ) -> AsyncIterator[WatchStream]:
        """A watch on a thread of its own; leaving the context ends it at once, in whatever state it is."""
        full = {"allowWatchBookmarks": "true", **(query or {}), "watch": "true"}
        request = ApiRequest("GET", resource.path(namespace), full, silence_s=self._watch_silence_s)
        async with self._open(request) as (stream, workers):
            yield WatchStream(stream, workers)

    @asynccontextmanager
    async def read_log(
        self, namespace: str, pod: str, query: Mapping[str, str], silence_s: float
    ) -> AsyncIterator[ByteStream]:
        """What a container of a pod wrote, on a thread of its own; nothing for `silence_s` is an end too."""
        request = ApiRequest("GET", PODS.path(namespace, pod, "log"), query, silence_s=silence_s)
        async with self._open(request) as (stream, workers):
            yield ByteStream(stream, workers)

    @asynccontextmanager
    async def _open(self, request: ApiRequest) -> AsyncIterator[tuple[LineStream, Workers]]:
        stream = LineStream(self._connection, request)
        workers = Workers("kube-watch")
        try:
            await workers.run(stream.open)
            yield stream, workers
        finally:
            stream.stop()
            workers.close(last=stream.close)

    def close(self) -> None:
        self._workers.close(last=self._connection.close)

    async def _send(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        body: Body | Sequence[Body] | None = None,
        content_type: str = "application/json",
    ) -> bytes:
        text = None if body is None else msgspec.json.encode(body)
        request = ApiRequest(method, path, query or {}, text, content_type)
        return await self._workers.run(self._connection.send, request)


def _dry(dry_run: bool) -> dict[str, str]:
    return {"dryRun": "All"} if dry_run else {}
