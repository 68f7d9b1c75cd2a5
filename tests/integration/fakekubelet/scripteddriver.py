"""A DRA driver that does exactly what a test tells it, right or wrong, and the claims it is asked for."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
import grpc.aio

from accelet.fakekubelet import FoundClaim, Pod, PodClaim
from accelet.kube.errors import NotFoundError, UnavailableError
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
from accelet.kubelet.api import pluginregistration_pb2 as registration
from accelet.kubelet.api import pluginregistration_pb2_grpc as registration_grpc

DRIVER = "thing.example.com"
BOTH = ("v1.DRAPlugin", "v1beta1.DRAPlugin", "v1.DRAResourceHealth", "v1alpha1.DRAResourceHealth")
Context = grpc.aio.ServicerContext[Any, Any]


@dataclass
class Claims:
    """The API server as a kubelet sees it. Implements `ClaimApi`."""

    found: dict[tuple[str, str], FoundClaim] = field(default_factory=dict)
    wiped: list[str | None] = field(default_factory=list)
    fails: int = 0

    async def find_claim(self, namespace: str, name: str) -> FoundClaim:
        if (namespace, name) not in self.found:
            raise NotFoundError("GET", 404, "NotFound", name)
        return self.found[namespace, name]

    async def delete_slices(self, _node: str, driver: str | None) -> int:
        if self.fails:
            self.fails -= 1
            raise UnavailableError("nobody answers")
        self.wiped.append(driver)
        return 2

    def add(self, name: str, *pods: Pod, uid: str = "", drivers: Sequence[str] | None = (DRIVER,)) -> None:
        """A claim that is allocated from `drivers`, reserved for these pods and owned by the first."""
        uids = [pod.uid for pod in pods]
        self.found["default", name] = FoundClaim(
            "default",
            name,
            uid or f"uid-{name}",
            None if drivers is None else tuple(drivers),
            frozenset(uids),
            uids[0] if uids else None,
        )

    def of(self, *pods: Pod) -> None:
        """All claims that these pods name, each reserved for whoever names it."""
        users: dict[str, list[Pod]] = {}
        for pod in pods:
            for claim in pod.claims:
                users.setdefault(claim.claim, []).append(pod)
        for name, using in users.items():
            self.add(name, *using)


def claim(name: str) -> PodClaim:
    return PodClaim(name, name)


@dataclass
class Called:
    """One call as the driver saw it: its protocol, what it was, which claims, and the deadline in seconds."""

    service: str
    method: str
    claims: tuple[str, ...]
    left_s: float | None


@dataclass
class Device:
    """What is answered for a claim."""

    name: str
    requests: tuple[str, ...] = ()
    cdi_ids: tuple[str, ...] = ()
    share: str | None = None


class ScriptedDriver(registration_grpc.RegistrationServicer):
    """Answers each claim with one device that has its name, until it is told otherwise."""

    def __init__(self, root: Path, *, name: str = DRIVER, listed: Sequence[str] = BOTH) -> None:
        self.root, self.name, self.listed = root, name, listed
        self.calls: list[Called] = []
        self.statuses: asyncio.Queue[registration.RegistrationStatus] = asyncio.Queue()
        self.devices: dict[str, list[Device]] = {}
        self.errors: dict[str, str] = {}
        self.skips = self.strange = False
        self.failure: str | None = None
        self.held: asyncio.Event | None = None
        self.refuses_health = False
        self.says: list[tuple[str, int, str]] = []
        self.streams: list[str] = []
        self._said = asyncio.Event()
        self._service, self._registration = grpc.aio.server(), grpc.aio.server()
        self.socket = self.endpoint = Path()

    def called(self, method: str) -> list[Called]:
        return [call for call in self.calls if call.method == method]

    async def serve(self, file: str = "driver-reg.sock") -> None:
        """The services first, then the registration."""
        self.socket, self.endpoint = self.root / "plugins_registry" / file, self.root / f"dra-{file}"
        self.socket.parent.mkdir(exist_ok=True)
        server = self._service
        for service, messages, grpc_module in (
            ("v1", dra_v1_pb2, dra_v1_pb2_grpc),
            ("v1beta1", dra_v1beta1_pb2, dra_v1beta1_pb2_grpc),
        ):
            servicer = _Dra(self, service, messages)
            grpc_module.add_DRAPluginServicer_to_server(servicer, server)
        for service, messages, grpc_module in (
            ("v1", drahealth_v1_pb2, drahealth_v1_pb2_grpc),
            ("v1alpha1", drahealth_v1alpha1_pb2, drahealth_v1alpha1_pb2_grpc),
        ):
            health = _Health(self, service, messages)
            grpc_module.add_DRAResourceHealthServicer_to_server(health, server)
        server.add_insecure_port(f"unix:{self.endpoint}")
        await server.start()
        registration_grpc.add_RegistrationServicer_to_server(self, self._registration)
        self._registration.add_insecure_port(f"unix:{self.socket}")
        await self._registration.start()

    async def disconnect(self) -> None:
        """Its services end; its registration stays."""
        await self._service.stop(None)

    async def stop(self) -> None:
        await asyncio.gather(self._registration.stop(None), self._service.stop(None))

    def say(self, *said: tuple[str, int, str]) -> None:
        """A report of health: device, the protocol's number, message."""
        self.says = list(said)
        self._said.set()
        self._said = asyncio.Event()

    async def GetInfo(self, _request: Any, _context: Context) -> registration.PluginInfo:  # noqa: N802 - the wire's name
        return registration.PluginInfo(
            type="DRAPlugin", name=self.name, endpoint=str(self.endpoint), supported_versions=self.listed
        )

    async def NotifyRegistrationStatus(  # noqa: N802 - the wire's name
        self, request: registration.RegistrationStatus, _context: Context
    ) -> registration.RegistrationStatusResponse:
        self.statuses.put_nowait(request)
        return registration.RegistrationStatusResponse()

    async def answer(self, service: str, method: str, request: Any, response: Any, context: Context) -> Any:
        names = tuple(one.name for one in request.claims)
        self.calls.append(Called(service, method, names, context.time_remaining()))
        if self.held is not None:
            await self.held.wait()
        if self.failure is not None:
            await context.abort(grpc.StatusCode.INTERNAL, self.failure)
        for one in request.claims if not self.skips else ():
            entry = response.claims[one.uid]
            entry.SetInParent()
            entry.error = self.errors.get(one.name, "")
            if method == "prepare" and not entry.error:
                self._fill(entry, self.devices.get(one.name, [Device(one.name, cdi_ids=(one.name,))]))
        if self.strange:
            response.claims["nobody"].SetInParent()
        return response

    @staticmethod
    def _fill(entry: Any, devices: Iterable[Device]) -> None:
        for device in devices:
            shared = {"share_id": device.share} if device.share else {}
            entry.devices.add(
                pool_name="pool",
                device_name=device.name,
                request_names=device.requests,
                cdi_device_ids=device.cdi_ids,
                **shared,
            )

    async def reports(self, service: str, messages: Any, context: Context) -> AsyncIterator[Any]:
        self.streams.append(service)
        if self.refuses_health:
            await context.abort(grpc.StatusCode.UNIMPLEMENTED, "no health")
        while True:
            said = self._said
            report = messages.NodeWatchResourcesResponse()
            for device, word, message in self.says:
                one = report.devices.add(health=word, message=message)
                one.device.pool_name, one.device.device_name = "pool", device
            yield report
            await said.wait()


class _Dra:
    def __init__(self, driver: ScriptedDriver, service: str, messages: Any) -> None:
        self._driver, self._service, self._messages = driver, service, messages

    async def NodePrepareResources(self, request: Any, context: Context) -> Any:  # noqa: N802 - the wire's name
        response = self._messages.NodePrepareResourcesResponse()
        return await self._driver.answer(self._service, "prepare", request, response, context)

    async def NodeUnprepareResources(self, request: Any, context: Context) -> Any:  # noqa: N802 - the wire's name
        response = self._messages.NodeUnprepareResourcesResponse()
        return await self._driver.answer(self._service, "unprepare", request, response, context)


class _Health:
    def __init__(self, driver: ScriptedDriver, service: str, messages: Any) -> None:
        self._driver, self._service, self._messages = driver, service, messages

    async def NodeWatchResources(self, _request: Any, context: Context) -> AsyncIterator[Any]:  # noqa: N802 - the wire's name
        async for report in self._driver.reports(self._service, self._messages, context):
            yield report


@asynccontextmanager
async def serving(driver: ScriptedDriver, file: str = "driver-reg.sock") -> AsyncIterator[ScriptedDriver]:
    await driver.serve(file)
    try:
        yield driver
    finally:
        await driver.stop()
