"""Writes to the API server what was decided; repeating any of it does no harm."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import suppress
from typing import Final

import msgspec

from accelet.control.status import check_kept, status_patch
from accelet.control.writer import FencedWriter
from accelet.kinds.slicerequest import SLICE_REQUESTS
from accelet.kube.apiresources import NODES, PODS, eviction_of
from accelet.kube.client import Client
from accelet.kube.errors import (
    ConflictError,
    ExistsError,
    ForbiddenError,
    InvalidError,
    NotFoundError,
    TooManyError,
)
from accelet.kube.nodes import Node, parse_node
from accelet.kube.objects import RawObject
from accelet.kube.podparser import parse_pod
from accelet.kube.pods import Pod
from accelet.provisioner.deciding.view import SliceRecord
from accelet.provisioner.demand.requests import request_body
from accelet.provisioner.demand.slices import WantedSlice
from accelet.provisioner.nodes import binding_labels, close_patch, is_stuck, is_work, open_patch
from accelet.provisioner.record import SliceRequest, finalizer_patch, parse_request, status_of
from accelet.provisioner.state import ProvisionerState
from accelet.runtime.logs import Log
from accelet.runtime.tasks import task_group

_log = Log(__name__)

_AT_ONCE: Final = 4
"""Nodes of one slice that are written at one time: half of what the client sends at all."""


class SliceWriter:
    """Acts on the API server, and tells the state at once what came of it.

    Every method raises NotLeadingError before a write once another replica leads, and KubeError.
    """

    def __init__(self, client: Client, writer: FencedWriter, state: ProvisionerState) -> None:
        self._client, self._writer, self._state = client, writer, state

    async def ask(self, wanted: WantedSlice) -> None:
        """Makes the SliceRequest of a wanted slice, unless there is one."""
        with suppress(ExistsError):
            raw = await self._writer.create(SLICE_REQUESTS, wanted.owner.namespace, request_body(wanted))
            self._state.set_request(parse_request(raw))

    async def write(self, request: SliceRequest, record: SliceRecord, hosts: str) -> bool:
        """Writes a record down; False if the request has changed meanwhile, and must be looked at anew.

        Raises:
            UnkeptStatusError: the API server has left fields of it out.
        """
        before = msgspec.to_builtins(request.status)
        after = status_of(record, hosts, request.status)
        patch = status_patch(before, after, request.resource_version)
        if patch is None:
            return True
        try:
            raw = await self._writer.patch(SLICE_REQUESTS, *request.key, patch, "merge", subresource="status")
        except ConflictError:
            self._state.renew_request(parse_request(await self._client.get(SLICE_REQUESTS, *request.key)))
            return False
        except NotFoundError:
            self._state.remove_request(request.key, request.uid)
            return False
        written = parse_request(raw)
        self._state.renew_request(written)
        check_kept(after, msgspec.to_builtins(written.status))
        return True

    async def discard(self, request: SliceRequest) -> None:
        """Deletes a SliceRequest; its finalizer keeps it until nothing is left of its slice."""
        with suppress(NotFoundError, ConflictError):
            await self._writer.delete(SLICE_REQUESTS, *request.key, uid=request.uid)

    async def finish(self, request: SliceRequest) -> None:
        """Lets a SliceRequest go."""
        patch = finalizer_patch(request)
        if patch is not None:
            with suppress(NotFoundError):
                await self._writer.patch(SLICE_REQUESTS, *request.key, patch, "merge")
        self._state.remove_request(request.key, request.uid)

    async def open(self, request: SliceRequest, nodes: Iterable[str]) -> None:
        """Binds nodes to the request's Job and lets its pods come."""
        labels = binding_labels(request)
        await self._patch_nodes(nodes, lambda node: open_patch(node, labels, request.spec.owner))

    async def close(self, uid: str, nodes: Iterable[str], now_s: float) -> None:
        """Keeps new pods from nodes."""
        await self._patch_nodes(nodes, lambda node: close_patch(node, uid, now_s))

    async def has_work(self, nodes: Iterable[str]) -> bool:
        """Whether a pod runs on one of the nodes, as the API server has it at this moment."""
        return any([pods async for pods in self._list_work(nodes)])

    async def evict(self, nodes: Iterable[str]) -> None:
        """Asks for the eviction of the pods on these nodes that are not ending yet.

        Where a disruption budget forbids one now, the next call asks again.
        """
        async for pods in self._list_work(nodes):
            for pod in pods:
                if pod.deleted_s is None:
                    await self._evict(pod)

    async def _evict(self, pod: Pod) -> None:
        eviction = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": pod.name, "namespace": pod.namespace},
            "deleteOptions": {"preconditions": {"uid": pod.uid}},
        }
        try:
            await self._writer.create(eviction_of(pod.name), pod.namespace, eviction)
        except (TooManyError, ConflictError, NotFoundError):
            return
        except (ForbiddenError, InvalidError) as error:
            key = f"{pod.namespace}/{pod.name}"
            _log.warning("pod is not evicted; see deploy/provisioner/eviction", pod=key, error=str(error))

    async def _list_work(self, nodes: Iterable[str]) -> AsyncIterator[list[Pod]]:
        """The pods on each node that keep it, as the API server has them at this moment."""
        for name in nodes:
            node, found, now_s = self._state.nodes.get(name), list[Pod](), time.time()
            async for page in self._client.list_pages(PODS, None, {"fieldSelector": f"spec.nodeName={name}"}):
                pods = (parse_pod(item, keeps_environment=False) for item in page.items)
                found += [one for one in pods if is_work(one) and not is_stuck(one.deleted_s, node, now_s)]
            if found:
                yield found

    async def _patch_nodes(self, nodes: Iterable[str], patch_of: Callable[[Node], dict[str, object]]) -> None:
        """A few at a time, each as it is known when its turn comes."""
        places = asyncio.Semaphore(_AT_ONCE)

        async def patch(name: str) -> None:
            async with places:
                node = self._state.nodes.get(name)
                if node is not None:
                    await self._patch_node(name, patch_of(node))

        async with task_group() as tasks:
            for name in nodes:
                tasks.create_task(patch(name))

    async def _patch_node(self, name: str, patch: dict[str, object]) -> None:
        """One Node's patch, on the version that was looked at; another one is looked at anew."""
        try:
            raw: RawObject = await self._writer.patch(NODES, None, name, patch, "merge")
        except NotFoundError:
            return
        except ConflictError:
            raw = await self._client.get(NODES, None, name)
        self._state.renew_node(parse_node(raw))
