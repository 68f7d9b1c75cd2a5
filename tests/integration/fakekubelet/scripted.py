"""A plugin that does exactly what a test tells it, right or wrong."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

import grpc
import grpc.aio

from accelet.fakekubelet import FakeKubelet
from accelet.kubelet.api import deviceplugin_pb2 as api
from accelet.kubelet.api import deviceplugin_pb2_grpc as rpc
from accelet.kubelet.api import pluginregistration_pb2 as watcher_api
from accelet.kubelet.api import pluginregistration_pb2_grpc as watcher_rpc

THING = "example.com/thing"

Context = grpc.aio.ServicerContext[object, object]


def device(name: str, health: str = "Healthy", *nodes: int) -> api.Device:
    topology = api.TopologyInfo(nodes=[api.NUMANode(ID=node) for node in nodes]) if nodes else None
    return api.Device(ID=name, health=health, topology=topology)


def devices(*names: str) -> list[api.Device]:
    return [device(name) for name in names]


def one_response(**what: object) -> api.AllocateResponse:
    return api.AllocateResponse(container_responses=[api.ContainerAllocateResponse(**what)])  # type: ignore[arg-type] # fields by name


async def _empty_answer(_ids: Sequence[str]) -> api.AllocateResponse:
    return one_response()


async def _nothing(_ids: Sequence[str]) -> None:
    return None


@dataclass
class Call:
    """One call as the plugin saw it."""

    method: str
    ids: tuple[str, ...] = ()
    must: tuple[str, ...] = ()
    size: int = 0
    time_remaining: float | None = None
    metadata: dict[str, str] = field(default_factory=dict)


class ScriptedPlugin(rpc.DevicePluginServicer, watcher_rpc.RegistrationServicer):
    serving: ClassVar[set["ScriptedPlugin"]] = set()
    """Whoever still serves when a test ends, well or not, is stopped by a fixture."""

    def __init__(self, kubelet: FakeKubelet, resource: str = THING) -> None:
        self.kubelet = kubelet
        self.resource = resource
        self.options = api.DevicePluginOptions()
        self.calls: list[Call] = []
        self.lists: asyncio.Queue[list[api.Device] | None] = asyncio.Queue()
        self.allocate: Callable[[Sequence[str]], Awaitable[api.AllocateResponse]] = _empty_answer
        self.prefer: Callable[[Call], Sequence[str]] = lambda call: call.ids[: call.size]
        self.pre_start: Callable[[Sequence[str]], Awaitable[None]] = _nothing
        self.options_error: str | None = None
        self.info = watcher_api.PluginInfo(type="DevicePlugin", name=resource, supported_versions=["v1beta1"])
        self.notified: asyncio.Queue[watcher_api.RegistrationStatus] = asyncio.Queue()
        self.server: grpc.aio.Server | None = None
        self.socket = kubelet.plugins_dir / "thing.sock"

    def called(self, method: str) -> list[Call]:
        return [call for call in self.calls if call.method == method]

    async def serve(self, socket: Path | str = "thing.sock") -> None:
        self.socket = self.kubelet.plugins_dir / socket
        self.server = grpc.aio.server(options=[("grpc.max_receive_message_length", -1)])
        rpc.add_DevicePluginServicer_to_server(self, self.server)
        watcher_rpc.add_RegistrationServicer_to_server(self, self.server)
        self.server.add_insecure_port(f"unix:{self.socket}")
        await self.server.start()
        self.serving.add(self)

    async def stop(self) -> None:
        self.serving.discard(self)
        if self.server is not None:
            self.lists.put_nowait(None)
            await self.server.stop(0)
            self.server = None

    async def register(
        self, *, version: str = "v1beta1", resource: str | None = None, endpoint: str | None = None
    ) -> None:
        path = self.kubelet.plugins_dir / "kubelet.sock"
        async with grpc.aio.insecure_channel(
            f"unix:{path}", options=[("grpc.use_local_subchannel_pool", 1)]
        ) as channel:
            stub = rpc.RegistrationStub(channel)
            request = api.RegisterRequest(
                version=version,
                endpoint=self.socket.name if endpoint is None else endpoint,
                resource_name=self.resource if resource is None else resource,
            )
            await stub.Register(request, timeout=20)

    def list(self, *listed: api.Device) -> None:
        """Sends one more list."""
        self.lists.put_nowait(list(listed))

    def end_stream(self) -> None:
        self.lists.put_nowait(None)

    def _note(self, method: str, context: Context, **what: object) -> Call:
        remaining = context.time_remaining()
        metadata = {str(key): str(value) for key, value in context.invocation_metadata() or ()}
        call = Call(method, time_remaining=remaining, metadata=metadata, **what)  # type: ignore[arg-type] # by name
        self.calls.append(call)
        return call

    async def GetDevicePluginOptions(self, request: api.Empty, context: Context) -> api.DevicePluginOptions:  # noqa: N802
        self._note("options", context)
        if self.options_error is not None:
            await context.abort(grpc.StatusCode.INTERNAL, self.options_error)
        return self.options

    async def ListAndWatch(  # noqa: N802
        self, request: api.Empty, context: Context
    ) -> AsyncIterator[api.ListAndWatchResponse]:
        self._note("watch", context)
        while (listed := await self.lists.get()) is not None:
            yield api.ListAndWatchResponse(devices=listed)

    async def GetPreferredAllocation(  # noqa: N802
        self, request: api.PreferredAllocationRequest, context: Context
    ) -> api.PreferredAllocationResponse:
        (wanted,) = request.container_requests
        call = self._note(
            "preferred",
            context,
            ids=tuple(wanted.available_deviceIDs),
            must=tuple(wanted.must_include_deviceIDs),
            size=wanted.allocation_size,
        )
        answer = api.ContainerPreferredAllocationResponse(deviceIDs=self.prefer(call))
        return api.PreferredAllocationResponse(container_responses=[answer])

    async def Allocate(self, request: api.AllocateRequest, context: Context) -> api.AllocateResponse:  # noqa: N802
        (wanted,) = request.container_requests
        self._note("allocate", context, ids=tuple(wanted.devices_ids))
        return await self.allocate(wanted.devices_ids)

    async def PreStartContainer(  # noqa: N802
        self, request: api.PreStartContainerRequest, context: Context
    ) -> api.PreStartContainerResponse:
        self._note("pre-start", context, ids=tuple(request.devices_ids))
        await self.pre_start(request.devices_ids)
        return api.PreStartContainerResponse()

    async def GetInfo(self, request: watcher_api.InfoRequest, context: Context) -> watcher_api.PluginInfo:  # noqa: N802
        self._note("info", context)
        return self.info

    async def NotifyRegistrationStatus(  # noqa: N802
        self, request: watcher_api.RegistrationStatus, context: Context
    ) -> watcher_api.RegistrationStatusResponse:
        self.notified.put_nowait(request)
        return watcher_api.RegistrationStatusResponse()
