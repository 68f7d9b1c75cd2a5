"""What a device plugin of a scenario answers, and the writing down of what it was asked."""

import asyncio
from collections.abc import AsyncIterator, Iterable

import grpc
import grpc.aio

from accelet.kubelet.api import deviceplugin_pb2 as api
from accelet.kubelet.api import deviceplugin_pb2_grpc as rpc
from tests.e2e.scenarios.script import Behave, Serve
from tests.e2e.scenarios.transcript import Transcript

WAIT_S = 30.0
_Context = grpc.aio.ServicerContext[object, object]


class Answers(rpc.DevicePluginServicer):
    """The service of one plugin. Its ids are `<plugin>-<number>`; it prefers the first in order."""

    def __init__(self, wanted: Serve, transcript: Transcript) -> None:
        self._wanted = wanted
        self._transcript = transcript
        self._list: list[api.Device] = []
        self._changed = asyncio.Event()
        self._streams = 0
        self.opened = asyncio.Event()
        self.ended = asyncio.Event()
        self._behaviours: dict[str, Behave] = {}
        self._left: dict[str, int | None] = {}
        self._hanging = 0
        self._hung = asyncio.Condition()
        self.released = asyncio.Event()
        self.set_list(wanted.devices)

    @property
    def is_streaming(self) -> bool:
        return self._streams > 0

    async def until_ended(self) -> None:
        """Returns when no stream is open."""
        if self.is_streaming:
            await asyncio.wait_for(self.ended.wait(), WAIT_S)

    # What the scenario tells it.

    def set_list(self, devices: int, unhealthy: int = 0) -> None:
        wanted = self._wanted
        self._list = [
            api.Device(
                ID=f"{wanted.plugin}-{number}".ljust(wanted.id_length, "x"),
                health="Unhealthy" if number < unhealthy else "Healthy",
                topology=self._topology(number),
            )
            for number in range(devices)
        ]
        self._changed.set()
        self._changed = asyncio.Event()

    def _topology(self, number: int) -> api.TopologyInfo | None:
        node = self._wanted.numa[number] if number < len(self._wanted.numa) else -1
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

    # What the kubelet asks.

    async def GetDevicePluginOptions(  # noqa: N802 - the wire's name
        self, request: api.Empty, context: _Context
    ) -> api.DevicePluginOptions:
        self._say("GetDevicePluginOptions")
        if self._wanted.refuse_options is not None:
            await context.abort(grpc.StatusCode.INTERNAL, self._wanted.refuse_options)
        return api.DevicePluginOptions(
            pre_start_required=self._wanted.pre_start, get_preferred_allocation_available=self._wanted.prefers
        )

    async def ListAndWatch(  # noqa: N802 - the wire's name
        self, request: api.Empty, context: _Context
    ) -> AsyncIterator[api.ListAndWatchResponse]:
        deadline = "a deadline" if context.time_remaining() is not None else "no deadline"
        # The kubelet answers Register and opens this at the same time, so neither has a place in a lane.
        self._transcript.add(f"{self._wanted.plugin} stream", f"ListAndWatch with {deadline}")
        self._streams += 1
        self.opened.set()
        try:
            if self._wanted.fail_list is not None:
                await context.abort(grpc.StatusCode.INTERNAL, self._wanted.fail_list)
            while True:
                changed = self._changed
                yield api.ListAndWatchResponse(devices=self._list)
                await changed.wait()
        finally:
            self._streams -= 1
            self._transcript.add(f"{self._wanted.plugin} stream", "it ended")
            if not self.is_streaming:
                self.ended.set()

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
                    envs={f"DEVICES_{self._wanted.plugin.upper()}": ",".join(ids)},
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
        self._transcript.add(self._wanted.plugin, text, *sets)
