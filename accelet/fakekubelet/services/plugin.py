"""The kubelet's connection to one plugin: dials it, watches it, asks it."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, TypeVar

import grpc
import grpc.aio
from google.protobuf.message import Message

from accelet.fakekubelet.clock import within
from accelet.fakekubelet.devices.devicemanager import AllocationError, PluginDevice, PluginOptions
from accelet.fakekubelet.faults import Faults
from accelet.fakekubelet.node import Node
from accelet.kubelet.api import deviceplugin_pb2 as api
from accelet.kubelet.api import deviceplugin_pb2_grpc as rpc

_T = TypeVar("_T")
_Message = TypeVar("_Message", bound=Message)

_FIELD_1000: Final = b"\xc0\x3e\x01"

MAX_RECEIVE_BYTES: Final = 4 * 1024 * 1024
"""What the kubelet takes in one message; a longer device list ends the stream."""

DIAL_TIMEOUT_S: Final = 10.0
PRE_START_TIMEOUT_S: Final = 30.0

PREFERENCE_FAILED: Final = "device plugin GetPreferredAllocation rpc failed with err: "
PRE_START_FAILED: Final = "device plugin PreStartContainer rpc failed with err: "
"""What these calls' errors begin with, also where the plugin could not be called at all."""

_DIAL_OPTIONS: Final = (
    ("grpc.max_receive_message_length", MAX_RECEIVE_BYTES),
    ("grpc.max_send_message_length", -1),
    # A connection of one registration must not be found again by the next one on the same path.
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.initial_reconnect_backoff_ms", 1000),
)


class DialError(Exception):
    """The plugin's socket did not answer, or its options could not be read. The text is the kubelet's."""


class CallError(Exception):
    """A call to the plugin failed. The text is as Go prints it, which is what ends up in a pod's status."""

    def __init__(self, code: grpc.StatusCode, details: str) -> None:
        name = code.name.title().replace("_", "").replace("Cancelled", "Canceled")
        super().__init__(f"rpc error: code = {name} desc = {details}")
        self.code = code


class PluginClient:
    """One registration's connection. Made once, never dialled again."""

    def __init__(self, resource: str, socket: Path, node: Node, *, authority: str | None) -> None:
        self.resource = resource
        self.socket = socket
        self.serial = node.serial
        self._clock = node.clock
        self._faults = node.faults
        named = () if authority is None else (("grpc.default_authority", authority),)
        self._channel = grpc.aio.insecure_channel(f"unix:{socket}", options=(*_DIAL_OPTIONS, *named))
        self._stub = rpc.DevicePluginStub(self._channel)

    async def dial(self) -> None:
        """Connects, trying again for up to 10 s.

        Raises:
            DialError: nobody answered.
        """
        try:
            await within(self._clock, DIAL_TIMEOUT_S, self._channel.channel_ready())
        except TimeoutError:
            raise DialError("failed to dial device plugin: context deadline exceeded") from None

    async def options(self) -> PluginOptions:
        """What GetDevicePluginOptions says, however long it takes.

        Raises:
            DialError: it failed.
        """
        try:
            answer = await _answer(self._stub.GetDevicePluginOptions(self._aged(api.Empty())))
        except CallError as error:
            raise DialError(f"failed to get device plugin options: {error}") from error
        return plugin_options(answer)

    async def lists(self) -> AsyncIterator[list[PluginDevice]]:
        """Each list that the plugin sends, until the stream ends.

        Raises:
            CallError: it ended with an error.
        """
        with go_errors():
            async for message in self._stub.ListAndWatch(self._aged(api.Empty())):
                yield [_device(device) for device in message.devices]

    async def preferred(
        self, available: Sequence[str], must_include: Sequence[str], size: int
    ) -> Sequence[str]:
        """The first container's wish; empty if there is none.

        Raises:
            AllocationError: the call failed.
        """
        wanted = api.ContainerPreferredAllocationRequest(
            available_deviceIDs=available, must_include_deviceIDs=must_include, allocation_size=size
        )
        request = self._aged(api.PreferredAllocationRequest(container_requests=[self._aged(wanted)]))
        try:
            answer = await _answer(self._stub.GetPreferredAllocation(request))
        except CallError as error:
            raise AllocationError(f"{PREFERENCE_FAILED}{error}") from error
        return list(answer.container_responses[0].deviceIDs) if answer.container_responses else []

    async def allocate(self, *containers: Sequence[str]) -> Sequence[bytes]:
        """The serialized container responses. There is no deadline. The kubelet asks for one container.

        Raises:
            AllocationError: the call failed.
        """
        wanted = [self._aged(api.ContainerAllocateRequest(devices_ids=ids)) for ids in containers]
        request = self._aged(api.AllocateRequest(container_requests=wanted))
        try:
            answer = await _answer(self._stub.Allocate(request))
        except CallError as error:
            raise AllocationError(str(error)) from error
        return [response.SerializeToString() for response in answer.container_responses]

    async def pre_start(self, ids: Sequence[str]) -> None:
        """Asks the plugin to ready the devices; it has 30 s.

        Raises:
            AllocationError: the call failed or took too long.
        """
        request = self._aged(api.PreStartContainerRequest(devices_ids=ids))
        call = self._stub.PreStartContainer(request, timeout=PRE_START_TIMEOUT_S)
        try:
            await within(self._clock, PRE_START_TIMEOUT_S, _answer(call))
        except TimeoutError:
            raise AllocationError(
                f"{PRE_START_FAILED}rpc error: code = DeadlineExceeded desc = context deadline exceeded"
            ) from None
        except CallError as error:
            raise AllocationError(f"{PRE_START_FAILED}{error}") from error

    def _aged(self, message: _Message) -> _Message:
        return aged(message, self._faults)

    async def close(self) -> None:
        """Closes the connection; what is under way on it is cancelled."""
        await self._channel.close()


def aged(message: _Message, faults: Faults) -> _Message:
    """`message`, with a field of the future if that fault is on."""
    if not faults.unknown_fields:
        return message
    return type(message).FromString(message.SerializeToString() + _FIELD_1000)


async def _answer(call: Awaitable[_T]) -> _T:
    with go_errors():
        return await call


@contextmanager
def go_errors() -> Iterator[None]:
    """Turns what grpc.aio raises into a CallError.

    It raises CancelledError also where the peer or a closed channel ended the call; only a task that is
    itself being cancelled may see that.
    """
    try:
        yield
    except grpc.aio.AioRpcError as error:
        raise CallError(error.code(), error.details() or "") from error
    except grpc.aio.UsageError:
        # Closed between two calls.
        raise CallError(grpc.StatusCode.CANCELLED, "grpc: the client connection is closing") from None
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is None or task.cancelling():
            raise
        raise CallError(grpc.StatusCode.CANCELLED, "grpc: the client connection is closing") from None


def plugin_options(said: api.DevicePluginOptions) -> PluginOptions:
    """A plugin's options from their message."""
    return PluginOptions(said.pre_start_required, said.get_preferred_allocation_available)


def _device(device: api.Device) -> PluginDevice:
    nodes = tuple(node.ID for node in device.topology.nodes) if device.HasField("topology") else None
    return PluginDevice(device.ID, device.health, nodes)
