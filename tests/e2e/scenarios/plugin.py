"""A device plugin that writes down every call it gets, and answers as it is told."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import suppress
from pathlib import Path

import grpc
import grpc.aio

from accelet.kubelet.api import deviceplugin_pb2 as api
from accelet.kubelet.api import deviceplugin_pb2_grpc as rpc
from tests.e2e.scenarios.script import Behave, Serve
from tests.e2e.scenarios.transcript import Transcript

WAIT_S = 30.0
_Context = grpc.aio.ServicerContext[object, object]


class RecordingPlugin(rpc.DevicePluginServicer):
    """One plugin of a scenario. Its ids are `<plugin>-<number>`; it prefers the first in order."""

    def __init__(self, folder: Path, wanted: Serve, transcript: Transcript) -> None:
        self.folder = folder
        self.wanted = wanted
        self.transcript = transcript
        self.registrations = 0
        self._streams = 0
        self.opened = asyncio.Event()
        self.ended = asyncio.Event()
        self._hanging = 0
        self._hung = asyncio.Condition()
        self.released = asyncio.Event()
        self._registered = asyncio.Condition()
        self._changed = asyncio.Event()
        self._list: list[api.Device] = []
        self._behaviours: dict[str, Behave] = {}
        self._left: dict[str, int | None] = {}
        self._server: grpc.aio.Server | None = None
        self._following: asyncio.Task[None] | None = None
        self.set_list(wanted.devices)

    @property
    def name(self) -> str:
        return self.wanted.plugin

    @property
    def is_streaming(self) -> bool:
        return self._streams > 0

    # What the scenario tells it.

    def set_list(self, devices: int, unhealthy: int = 0) -> None:
        ids = [f"{self.name}-{number}".ljust(self.wanted.id_length, "x") for number in range(devices)]
        self._list = [
            api.Device(
                ID=each,
                health="Unhealthy" if number < unhealthy else "Healthy",
                topology=self._topology(number),
            )
            for number, each in enumerate(ids)
        ]
        self._changed.set()
        self._changed = asyncio.Event()

    def _topology(self, number: int) -> api.TopologyInfo | None:
        node = self.wanted.numa[number] if number < len(self.wanted.numa) else -1
        return None if node < 0 else api.TopologyInfo(nodes=[api.NUMANode(ID=node)])

    def behave(self, behaviour: Behave) -> None:
        self._behaviours[behaviour.call] = behaviour
        self._left[behaviour.call] = behaviour.times
        self.released.clear()
        self._hanging = 0

    async def is_asked(self, times: int) -> None:
        """Returns when so many calls hang."""
        async with asyncio.timeout(WAIT_S), self._hung:
            await self._hung.wait_for(lambda: self._hanging >= times)

    async def serve(self) -> None:
        """Serves and registers; returns when the kubelet has answered, and opened the stream if it should."""
        await self._serve()
        if self.wanted.follow:
            self._following = asyncio.create_task(self._follow(self._kubelet()))

    async def _serve(self) -> None:
        self.opened.clear()
        self.ended.clear()
        self._server = grpc.aio.server(options=[("grpc.max_receive_message_length", -1)])
        rpc.add_DevicePluginServicer_to_server(self, self._server)
        path = self.folder / f"{self.name}.sock"
        self._server.add_insecure_port(f"unix:{path}")
        await self._server.start()
        answer = await register(
            self.folder, self.wanted.resource, f"{self.name}.sock", pre_start=self.wanted.claims_pre_start
        )
        self._say(f"Register was answered: {answer}")
        if answer == "OK":
            await asyncio.wait_for(self.opened.wait(), WAIT_S)
            async with self._registered:
                self.registrations += 1
                self._registered.notify_all()

    async def _follow(self, seen: tuple[int, int] | None) -> None:
        while True:
            await asyncio.sleep(0.02)
            now = self._kubelet()
            if now is None or now == seen:
                continue
            seen = now
            await self._stop()
            await self._serve()

    async def is_back(self, registrations: int) -> None:
        """Returns when a plugin that follows the kubelet has registered more often than so many times."""
        if self._following is None or self._following.done():
            return
        async with asyncio.timeout(WAIT_S):
            async with self._registered:
                await self._registered.wait_for(lambda: self.registrations > registrations)

    def _kubelet(self) -> tuple[int, int] | None:
        try:
            stat = (self.folder / "kubelet.sock").stat()
        except OSError:
            return None
        return stat.st_ino, stat.st_ctime_ns

    async def close(self) -> None:
        if self._following is not None:
            self._following.cancel()
            with suppress(asyncio.CancelledError):
                await self._following
        await self._stop()

    async def _stop(self) -> None:
        self.released.set()
        if self._server is not None:
            await self._server.stop(0)
        if self.is_streaming:
            await asyncio.wait_for(self.ended.wait(), WAIT_S)

    # What the kubelet asks.

    async def GetDevicePluginOptions(  # noqa: N802 - the wire's name
        self, request: api.Empty, context: _Context
    ) -> api.DevicePluginOptions:
        self._say("GetDevicePluginOptions")
        if self.wanted.refuse_options is not None:
            await context.abort(grpc.StatusCode.INTERNAL, self.wanted.refuse_options)
        return api.DevicePluginOptions(
            pre_start_required=self.wanted.pre_start, get_preferred_allocation_available=self.wanted.prefers
        )

    async def ListAndWatch(  # noqa: N802 - the wire's name
        self, request: api.Empty, context: _Context
    ) -> AsyncIterator[api.ListAndWatchResponse]:
        deadline = "a deadline" if context.time_remaining() is not None else "no deadline"
        # The kubelet answers Register and opens this at the same time, so neither has a place in a lane.
        self.transcript.add(f"{self.name} stream", f"ListAndWatch with {deadline}")
        self._streams += 1
        self.opened.set()
        try:
            if self.wanted.fail_list is not None:
                await context.abort(grpc.StatusCode.INTERNAL, self.wanted.fail_list)
            while True:
                changed = self._changed
                yield api.ListAndWatchResponse(devices=self._list)
                await changed.wait()
        finally:
            self._streams -= 1
            if not self.is_streaming:
                self.ended.set()
            self.transcript.add(f"{self.name} stream", "it ended")

    async def GetPreferredAllocation(  # noqa: N802 - the wire's name
        self, request: api.PreferredAllocationRequest, context: _Context
    ) -> api.PreferredAllocationResponse:
        (asked,) = request.container_requests
        must = list(asked.must_include_deviceIDs)
        self._say(
            f"GetPreferredAllocation of {asked.allocation_size} among <ids> with <ids>",
            asked.available_deviceIDs,
            must,
        )
        behaviour = await self._act("prefer", context)
        wish = [*must, *sorted(set(asked.available_deviceIDs) - set(must))][: asked.allocation_size]
        if behaviour is not None:
            wish = list(behaviour.answer or ())
        return api.PreferredAllocationResponse(
            container_responses=[api.ContainerPreferredAllocationResponse(deviceIDs=wish)]
        )

    async def Allocate(  # noqa: N802 - the wire's name
        self, request: api.AllocateRequest, context: _Context
    ) -> api.AllocateResponse:
        (asked,) = request.container_requests
        deadline = "a deadline" if context.time_remaining() is not None else "no deadline"
        known = {key for key, _ in context.invocation_metadata() or ()} - {"user-agent"}
        metadata = f"metadata {', '.join(sorted(known))}" if known else "no metadata"
        self._say(f"Allocate <ids> with {deadline}, {metadata}", asked.devices_ids)
        behaviour = await self._act("allocate", context)
        if behaviour is not None and behaviour.empty:
            return api.AllocateResponse()
        ids = sorted(asked.devices_ids)
        return api.AllocateResponse(
            container_responses=[
                api.ContainerAllocateResponse(
                    envs={f"DEVICES_{self.name.upper()}": ",".join(ids)},
                    devices=[
                        api.DeviceSpec(container_path=f"/dev/{each}", host_path="/dev/null", permissions="rw")
                        for each in ids
                    ],
                )
            ]
        )

    async def PreStartContainer(  # noqa: N802 - the wire's name
        self, request: api.PreStartContainerRequest, context: _Context
    ) -> api.PreStartContainerResponse:
        left = context.time_remaining()
        about_30_s = left is not None and 20 < left < 31
        self._say(
            f"PreStartContainer <ids> with {'30 s' if about_30_s else f'{left} s'}", request.devices_ids
        )
        await self._act("pre_start", context)
        return api.PreStartContainerResponse()

    async def _act(self, call: str, context: _Context) -> Behave | None:
        """Does what was ordered for this call; returns the order if there is one."""
        behaviour, left = self._behaviours.get(call), self._left.get(call)
        if behaviour is None or left == 0:
            return None
        self._left[call] = None if left is None else left - 1
        if behaviour.hang:
            async with self._hung:
                self._hanging += 1
                self._hung.notify_all()
            await self.released.wait()
            return None
        if behaviour.error is not None:
            await context.abort(grpc.StatusCode.INTERNAL, behaviour.error)
        return behaviour

    def _say(self, text: str, *sets: Iterable[str]) -> None:
        self.transcript.add(self.name, text, *sets)


async def register(
    folder: Path, resource: str, endpoint: str, *, version: str = "v1beta1", pre_start: bool = False
) -> str:
    """What the kubelet answers to a registration: OK, or the error as a plugin sees it."""
    request = api.RegisterRequest(
        version=version,
        endpoint=endpoint,
        resource_name=resource,
        options=api.DevicePluginOptions(pre_start_required=pre_start),
    )
    async with grpc.aio.insecure_channel(f"unix:{folder / 'kubelet.sock'}") as channel:
        try:
            await rpc.RegistrationStub(channel).Register(request, timeout=WAIT_S)
        except grpc.aio.AioRpcError as error:
            return f"{error.code().name}: {error.details()}"
    return "OK"
