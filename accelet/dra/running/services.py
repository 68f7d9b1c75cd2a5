"""The gRPC services of a driver: DRA v1 and v1beta1, health v1 and v1alpha1, and its registration."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import Any

import grpc

from accelet.dra.running import messages
from accelet.dra.running.claims import Claims
from accelet.dra.running.messages import Health
from accelet.kubelet.api import dra_v1_pb2 as v1
from accelet.kubelet.api import dra_v1_pb2_grpc as v1_grpc
from accelet.kubelet.api import dra_v1beta1_pb2 as v1beta1
from accelet.kubelet.api import dra_v1beta1_pb2_grpc as v1beta1_grpc
from accelet.kubelet.api import drahealth_v1_pb2 as health_v1
from accelet.kubelet.api import drahealth_v1_pb2_grpc as health_v1_grpc
from accelet.kubelet.api import drahealth_v1alpha1_pb2 as health_v1alpha1
from accelet.kubelet.api import drahealth_v1alpha1_pb2_grpc as health_v1alpha1_grpc
from accelet.kubelet.api import pluginregistration_pb2 as registration
from accelet.kubelet.api import pluginregistration_pb2_grpc as registration_grpc
from accelet.runtime.logs import Log

VERSIONS = ("v1.DRAPlugin", "v1beta1.DRAPlugin", "v1.DRAResourceHealth", "v1alpha1.DRAResourceHealth")
"""In the order in which a kubelet takes the first it knows."""

REPEAT_S = messages.HEALTH_TIMEOUT_S / 3
"""How often health is told though nothing changed: silence makes it unknown."""

_log = Log(__name__)
Context = grpc.aio.ServicerContext[Any, Any]


class DraV1(v1_grpc.DRAPluginServicer):
    """Implements `accelet.node.server.SocketService`."""

    def __init__(self, claims: Claims) -> None:
        self._claims = claims

    def add_to(self, server: grpc.aio.Server) -> None:
        v1_grpc.add_DRAPluginServicer_to_server(self, server)

    async def close(self) -> None:
        """There are no streams."""

    async def NodePrepareResources(  # noqa: N802 - the wire\'s name
        self, request: v1.NodePrepareResourcesRequest, context: Context
    ) -> v1.NodePrepareResourcesResponse:
        return messages.prepared_v1(await self._claims.prepare(messages.refs_of(request)))

    async def NodeUnprepareResources(  # noqa: N802 - the wire\'s name
        self, request: v1.NodeUnprepareResourcesRequest, context: Context
    ) -> v1.NodeUnprepareResourcesResponse:
        return messages.unprepared_v1(await self._claims.unprepare(messages.refs_of(request)))


class DraV1Beta1(v1beta1_grpc.DRAPluginServicer):
    """Implements `accelet.node.server.SocketService`."""

    def __init__(self, claims: Claims) -> None:
        self._claims = claims

    def add_to(self, server: grpc.aio.Server) -> None:
        v1beta1_grpc.add_DRAPluginServicer_to_server(self, server)

    async def close(self) -> None:
        """There are no streams."""

    async def NodePrepareResources(  # noqa: N802 - the wire\'s name
        self, request: v1beta1.NodePrepareResourcesRequest, context: Context
    ) -> v1beta1.NodePrepareResourcesResponse:
        return messages.prepared_v1beta1(await self._claims.prepare(messages.refs_of(request)))

    async def NodeUnprepareResources(  # noqa: N802 - the wire\'s name
        self, request: v1beta1.NodeUnprepareResourcesRequest, context: Context
    ) -> v1beta1.NodeUnprepareResourcesResponse:
        return messages.unprepared_v1beta1(await self._claims.unprepare(messages.refs_of(request)))


class HealthNews:
    """What the streams say, and when it is another."""

    def __init__(self) -> None:
        self._told: tuple[Health, ...] = ()
        self._changed = asyncio.Event()
        self.is_closed = False

    def tell(self, told: tuple[Health, ...]) -> None:
        if told != self._told:
            self._told = told
            self._wake()

    def close(self) -> None:
        self.is_closed = True
        self._wake()

    async def stream(self) -> AsyncIterator[tuple[Health, ...]]:
        """The full list at once, at each change, and now and then."""
        while not self.is_closed:
            changed = self._changed
            yield self._told
            with suppress(TimeoutError):
                async with asyncio.timeout(REPEAT_S):
                    await changed.wait()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()


class HealthV1(health_v1_grpc.DRAResourceHealthServicer):
    """Implements `accelet.node.server.SocketService`."""

    def __init__(self, news: HealthNews) -> None:
        self._news = news

    def add_to(self, server: grpc.aio.Server) -> None:
        health_v1_grpc.add_DRAResourceHealthServicer_to_server(self, server)

    async def close(self) -> None:
        self._news.close()

    async def NodeWatchResources(  # noqa: N802 - the wire\'s name
        self, request: health_v1.NodeWatchResourcesRequest, context: Context
    ) -> AsyncIterator[health_v1.NodeWatchResourcesResponse]:
        async for told in self._news.stream():
            yield messages.health_response_v1(told)


class HealthV1Alpha1(health_v1alpha1_grpc.DRAResourceHealthServicer):
    """Implements `accelet.node.server.SocketService`."""

    def __init__(self, news: HealthNews) -> None:
        self._news = news

    def add_to(self, server: grpc.aio.Server) -> None:
        health_v1alpha1_grpc.add_DRAResourceHealthServicer_to_server(self, server)

    async def close(self) -> None:
        self._news.close()

    async def NodeWatchResources(  # noqa: N802 - the wire\'s name
        self, request: health_v1alpha1.NodeWatchResourcesRequest, context: Context
    ) -> AsyncIterator[health_v1alpha1.NodeWatchResourcesResponse]:
        async for told in self._news.stream():
            yield messages.health_response_v1alpha1(told)


class Registration(registration_grpc.RegistrationServicer):
    """Tells the kubelet who the driver is. Implements `accelet.node.server.SocketService`."""

    def __init__(self, driver: str, endpoint: str, note: Callable[[str | None], None]) -> None:
        """`note` is called with what the kubelet made of it: None, or why it refused."""
        self._driver, self._endpoint, self._note = driver, endpoint, note

    def add_to(self, server: grpc.aio.Server) -> None:
        registration_grpc.add_RegistrationServicer_to_server(self, server)

    async def close(self) -> None:
        """There are no streams."""

    async def GetInfo(  # noqa: N802 - the wire's name
        self, request: registration.InfoRequest, context: Context
    ) -> registration.PluginInfo:
        return registration.PluginInfo(
            type="DRAPlugin", name=self._driver, endpoint=self._endpoint, supported_versions=VERSIONS
        )

    async def NotifyRegistrationStatus(  # noqa: N802 - the wire\'s name
        self, request: registration.RegistrationStatus, context: Context
    ) -> registration.RegistrationStatusResponse:
        if request.plugin_registered:
            _log.info("registered", resource=self._driver)
            self._note(None)
        else:
            _log.warning("refused by the kubelet", resource=self._driver, reason=request.error[:500])
            self._note(f"the kubelet refused it: {request.error[:200]}")
        return registration.RegistrationStatusResponse()
