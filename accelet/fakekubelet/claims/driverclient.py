"""The kubelet's connection to one DRA driver: kept up for as long as the driver is registered."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

import grpc
import grpc.aio

from accelet.fakekubelet.behaviour import HEALTH_V1, HEALTH_V1ALPHA1, V1, V1BETA1
from accelet.fakekubelet.claims.cache import PreparedDevice
from accelet.fakekubelet.claims.health import DEFAULT_TIMEOUT_S, LONGEST_MESSAGE, WORDS, DeviceHealth
from accelet.fakekubelet.clock import Clock, within
from accelet.fakekubelet.faults import Calling, GiveUp, LoseAnswer, Twice
from accelet.fakekubelet.node import Node
from accelet.fakekubelet.services.plugin import CallError, aged, go_errors
from accelet.kubelet.api import (
    dra_v1_pb2,
    dra_v1_pb2_grpc,
    dra_v1beta1_pb2,
    dra_v1beta1_pb2_grpc,
    drahealth_v1_pb2,
    drahealth_v1_pb2_grpc,
    drahealth_v1alpha1_pb2,
    drahealth_v1alpha1_pb2_grpc,
)

CALL_TIMEOUT_S: Final = 45.0
"""How long a kubelet waits for an answer to Prepare and Unprepare."""

_MESSAGES: Final[Mapping[str, Any]] = {
    V1: dra_v1_pb2,
    V1BETA1: dra_v1beta1_pb2,
    HEALTH_V1: drahealth_v1_pb2,
    HEALTH_V1ALPHA1: drahealth_v1alpha1_pb2,
}
_STUBS: Final[Mapping[str, Any]] = {
    V1: dra_v1_pb2_grpc.DRAPluginStub,
    V1BETA1: dra_v1beta1_pb2_grpc.DRAPluginStub,
    HEALTH_V1: drahealth_v1_pb2_grpc.DRAResourceHealthStub,
    HEALTH_V1ALPHA1: drahealth_v1alpha1_pb2_grpc.DRAResourceHealthStub,
}
_DIAL_OPTIONS: Final = (
    ("grpc.default_authority", "localhost"),
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.initial_reconnect_backoff_ms", 1000),
)
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class DriverEndpoint:
    """A driver as it has registered: where it serves, and which services it lists."""

    driver: str
    socket: Path
    listed: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ClaimRef:
    """A claim as a kubelet names it in its calls."""

    namespace: str
    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class Answered:
    """What a driver answered for one claim; either an error or, for Prepare, devices."""

    devices: tuple[PreparedDevice, ...] = ()
    error: str = ""


class DriverClient:
    """One instance of a driver. `changed` hears when its connection comes or goes.

    `listed` are the services it says it has, `service` the one that is called.
    """

    def __init__(
        self, at: "DriverEndpoint", service: str, node: Node, changed: "Callable[[DriverClient], None]"
    ) -> None:
        self.driver, self.endpoint, self.listed, self.service = at.driver, at.socket, at.listed, service
        self.is_connected = False
        self._node, self._changed = node, changed
        self._channel = grpc.aio.insecure_channel(f"unix:{at.socket}", options=_DIAL_OPTIONS)

    async def watch_connection(self) -> None:
        """Connects, and connects again as long as this runs."""
        while True:
            state = self._channel.get_state(try_to_connect=True)
            is_connected = state is grpc.ChannelConnectivity.READY
            if is_connected != self.is_connected:
                self.is_connected = is_connected
                self._changed(self)
            await self._channel.wait_for_state_change(state)

    async def prepare(self, claims: Sequence[ClaimRef]) -> Mapping[str, Answered]:
        """NodePrepareResources: the answers by uid.

        Raises:
            CallError: the call failed as a whole.
        """
        request = self._request("NodePrepareResourcesRequest", claims)
        call = _STUBS[self.service](self._channel).NodePrepareResources
        response = await self._call(self._node.faults.prepare, lambda: call(request, timeout=CALL_TIMEOUT_S))
        return {
            uid: Answered(tuple(map(_device, answer.devices)), answer.error)
            for uid, answer in response.claims.items()
        }

    async def unprepare(self, claims: Sequence[ClaimRef]) -> Mapping[str, Answered]:
        """NodeUnprepareResources: the answers by uid.

        Raises:
            CallError: the call failed as a whole.
        """
        request = self._request("NodeUnprepareResourcesRequest", claims)
        call = _STUBS[self.service](self._channel).NodeUnprepareResources
        response = await self._call(
            self._node.faults.unprepare, lambda: call(request, timeout=CALL_TIMEOUT_S)
        )
        return {uid: Answered(error=answer.error) for uid, answer in response.claims.items()}

    async def health(self, service: str) -> AsyncIterator[list[DeviceHealth]]:
        """Each report of the driver's health service, until the stream ends.

        Raises:
            CallError: it ended with an error.
        """
        request = _MESSAGES[service].NodeWatchResourcesRequest()
        with go_errors():
            async for report in _STUBS[service](self._channel).NodeWatchResources(request):
                yield [_health(each, self._node.clock) for each in report.devices]

    async def close(self) -> None:
        """Closes the connection; what is under way on it is cancelled."""
        await self._channel.close()

    def _request(self, kind: str, claims: Sequence[ClaimRef]) -> Any:
        messages = _MESSAGES[self.service]
        named = [
            aged(messages.Claim(namespace=each.namespace, name=each.name, uid=each.uid), self._node.faults)
            for each in claims
        ]
        return aged(getattr(messages, kind)(claims=named), self._node.faults)

    async def _call(self, calling: Calling, call: Callable[[], Awaitable[Any]]) -> Any:
        """Makes one call, with the fault that is next."""
        once = self._within(CALL_TIMEOUT_S, call)
        match calling.next():
            case Twice(at_once=True):
                _, answer = await asyncio.gather(once(), once())
                return answer
            case Twice():
                await once()
                return await once()
            case GiveUp(after_s):
                return await self._within(after_s, call)()
            case LoseAnswer():
                await once()
                raise CallError(grpc.StatusCode.UNAVAILABLE, "error reading from server: EOF")
        return await once()

    def _within(self, seconds: float, call: Callable[[], Awaitable[_T]]) -> Callable[[], Awaitable[_T]]:
        async def work() -> _T:
            with go_errors():
                return await call()

        async def once() -> _T:
            try:
                return await within(self._node.clock, seconds, work())
            except TimeoutError:
                raise CallError(grpc.StatusCode.DEADLINE_EXCEEDED, "context deadline exceeded") from None

        return once


def _device(device: Any) -> PreparedDevice:
    # The older protocol has no share id.
    is_shared = "share_id" in device.DESCRIPTOR.fields_by_name and device.HasField("share_id")
    return PreparedDevice(
        device.pool_name,
        device.device_name,
        tuple(device.request_names),
        tuple(device.cdi_device_ids),
        device.share_id if is_shared else None,
    )


def _health(said: Any, clock: Clock) -> DeviceHealth:
    asked_s = said.health_check_timeout_seconds
    message = said.message
    if len(message) > LONGEST_MESSAGE:
        message = message[: LONGEST_MESSAGE - 3] + "..."
    return DeviceHealth(
        said.device.pool_name,
        said.device.device_name,
        WORDS.get(said.health, WORDS[0]),
        message,
        float(asked_s) if asked_s > 0 else DEFAULT_TIMEOUT_S,
        clock.now(),
    )
