"""The DevicePlugin gRPC service of one resource; here alone errors become status codes."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any

import grpc

from accelet.accelerators.device import DeviceId
from accelet.accelerators.edits import ContainerEdits
from accelet.accelerators.folders import prepare_folders
from accelet.kubelet.api import deviceplugin_pb2 as api
from accelet.kubelet.api import deviceplugin_pb2_grpc as api_grpc
from accelet.runtime.logs import Log
from accelet.runtime.waiting import wait_for_hint
from deviceplugin import translate
from deviceplugin.allocator import Allocator
from deviceplugin.metrics import ResourceMetrics
from resourcemanager.allocation import Allocation, Refusal
from resourcemanager.manager import ResourceManager

GATHER_S = 0.5
"""Changes within this time go out as one message: the kubelet writes its checkpoint to disk for each."""

CLOSE_S = 0.2

_log = Log(__name__)


class DevicePluginService(api_grpc.DevicePluginServicer):
    """Answers the kubelet for one resource during one registration.

    `had_stream` and `stream_has_ended` tell whoever keeps the registration alive what became of it;
    `stream_changed` is called when either changes.
    """

    def __init__(
        self,
        manager: ResourceManager,
        allocator: Allocator,
        root: Path,
        metrics: ResourceMetrics,
        stream_changed: Callable[[], None],
    ) -> None:
        """`root` is the folder where the host's files are seen."""
        self._manager = manager
        self._log = _log.bind(resource=manager.rules.resource)
        self._allocator = allocator
        self._root = root
        self._metrics = metrics
        self._stream_changed = stream_changed
        self._stream: _Stream | None = None
        self._is_closed = False
        self.had_stream = False
        self.stream_has_ended = False

    def announce(self, *, is_urgent: bool) -> None:
        """The list has changed; `is_urgent`: a device lost its health, so the kubelet must know at once."""
        if self._stream is not None:
            self._stream.announce(is_urgent=is_urgent)

    def repeat_list(self) -> None:
        """Tells the kubelet the list once more, though it is the same."""
        if self._stream is not None:
            self._stream.must_repeat = True
            self._stream.announce(is_urgent=False)

    def add_to(self, server: grpc.aio.Server) -> None:
        """Has the server answer this service's calls."""
        api_grpc.add_DevicePluginServicer_to_server(self, server)

    async def close(self) -> None:
        """Ends the stream, and any that is opened later."""
        self._is_closed = True
        if (stream := self._stream) is not None:
            stream.end()
            # gRPC waits for a stream in vain whose generator has not returned; a kubelet that does not
            # read can keep it from returning.
            await wait_for_hint(stream.ended, CLOSE_S)

    async def GetDevicePluginOptions(  # noqa: N802 - the wire's name
        self, request: api.Empty, context: grpc.aio.ServicerContext[api.Empty, api.DevicePluginOptions]
    ) -> api.DevicePluginOptions:
        return api.DevicePluginOptions(get_preferred_allocation_available=True)

    async def ListAndWatch(  # noqa: N802 - the wire's name
        self, request: api.Empty, context: grpc.aio.ServicerContext[api.Empty, api.ListAndWatchResponse]
    ) -> AsyncIterator[api.ListAndWatchResponse]:
        if self._stream is not None:
            # Two live lists of one resource would both write the kubelet's one table.
            self._stream.end()
        stream = self._stream = _Stream()
        if self._is_closed:
            return
        self.had_stream = True
        self._stream_changed()
        try:
            sent = None
            while not stream.is_ended:
                message = translate.to_list_message(self._manager.listing)
                if message != sent or stream.must_repeat:
                    stream.must_repeat = False
                    yield message
                    sent = message
                await stream.news()
        finally:
            stream.ended.set()
            if self._stream is stream:
                self._stream = None
                self.stream_has_ended = True
                self._stream_changed()

    async def GetPreferredAllocation(  # noqa: N802 - the wire's name
        self,
        request: api.PreferredAllocationRequest,
        context: grpc.aio.ServicerContext[api.PreferredAllocationRequest, api.PreferredAllocationResponse],
    ) -> api.PreferredAllocationResponse:
        return api.PreferredAllocationResponse(
            container_responses=[
                await self._prefer(wanted, _caller(context)) for wanted in request.container_requests
            ]
        )

    async def _prefer(
        self, wanted: api.ContainerPreferredAllocationRequest, kubelet: str
    ) -> api.ContainerPreferredAllocationResponse:
        chosen: Sequence[DeviceId]
        try:
            chosen = await self._allocator.prefer(
                [DeviceId(device) for device in wanted.available_deviceIDs],
                [DeviceId(device) for device in wanted.must_include_deviceIDs],
                wanted.allocation_size,
                kubelet,
            )
        except Exception:  # an error here would reject the pod; without an opinion the kubelet chooses itself
            self._log.exception("cannot prefer devices")
            self._metrics.count_fault()
            chosen = ()
        return api.ContainerPreferredAllocationResponse(deviceIDs=chosen)

    async def Allocate(  # noqa: N802 - the wire's name
        self,
        request: api.AllocateRequest,
        context: grpc.aio.ServicerContext[api.AllocateRequest, api.AllocateResponse],
    ) -> api.AllocateResponse:
        started = time.perf_counter()
        responses = []
        for wanted in request.container_requests:
            ids = [DeviceId(device) for device in wanted.devices_ids]
            answer = await self._allocate(ids, _caller(context))
            if isinstance(answer, Refusal):
                self._log.warning("refused", devices=ids, reason=answer.sentence)
                self._metrics.observe_allocate(answer.code, time.perf_counter() - started)
                await context.abort(grpc.StatusCode.FAILED_PRECONDITION, answer.sentence)
            else:
                edits = await self._prepare(answer.edits)
                responses.append(translate.to_allocate_message(edits, answer.annotations))
        self._metrics.observe_allocate("given", time.perf_counter() - started)
        return api.AllocateResponse(container_responses=responses)

    async def _allocate(self, ids: list[DeviceId], kubelet: str) -> Allocation | Refusal:
        try:
            return await self._allocator.allocate(ids, kubelet)
        except Exception:  # its text is ours alone: the pod's status shows whatever is raised here
            self._log.exception("cannot allocate", devices=ids)
            self._metrics.count_fault()
            return Refusal("fault", "the device plugin failed on this request; the agent's log has the cause")

    async def _prepare(self, edits: ContainerEdits) -> ContainerEdits:
        """Makes the host folders that the container's mounts need."""
        if not edits.folders:
            return edits
        prepared, faults = await asyncio.to_thread(prepare_folders, edits, self._root)
        for fault in faults:
            self._log.warning("folder not made", reason=fault)
        return prepared

    async def PreStartContainer(  # noqa: N802 - the wire's name
        self,
        request: api.PreStartContainerRequest,
        context: grpc.aio.ServicerContext[api.PreStartContainerRequest, api.PreStartContainerResponse],
    ) -> api.PreStartContainerResponse:
        # Not asked for in the options; a kubelet that calls it all the same loses nothing.
        return api.PreStartContainerResponse()


def _caller(context: grpc.aio.ServicerContext[Any, Any]) -> str:
    """What the kubelet's gRPC library says of itself."""
    metadata = context.invocation_metadata() or ()
    return next((str(value) for key, value in metadata if key == "user-agent"), "")


class _Stream:
    """What wakes one ListAndWatch call."""

    def __init__(self) -> None:
        self._news = asyncio.Event()
        self._urgent = asyncio.Event()
        self.is_ended = False
        self.must_repeat = False
        self.ended = asyncio.Event()

    def announce(self, *, is_urgent: bool) -> None:
        self._news.set()
        if is_urgent:
            self._urgent.set()

    def end(self) -> None:
        self.is_ended = True
        self.announce(is_urgent=True)

    async def news(self) -> None:
        """Waits for a change, and then a while for more of them unless it is urgent."""
        await self._news.wait()
        await wait_for_hint(self._urgent, GATHER_S)
        self._news.clear()
        self._urgent.clear()
