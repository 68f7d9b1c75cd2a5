"""A DRA driver that writes down every call it gets, and answers as it is told."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import grpc.aio

from accelet.kubelet.api import (
    dra_v1_pb2,
    dra_v1_pb2_grpc,
    drahealth_v1_pb2,
    drahealth_v1_pb2_grpc,
    drahealth_v1alpha1_pb2,
    drahealth_v1alpha1_pb2_grpc,
)
from accelet.kubelet.api import pluginregistration_pb2 as registration
from accelet.kubelet.api import pluginregistration_pb2_grpc as registration_grpc
from tests.e2e.scenarios.dra.script import Answer
from tests.e2e.scenarios.transcript import Transcript

DRIVER = "recording.example.com"
KIND = "recording.example.com/claim"
WAIT_S = 60.0
CLOSE_S = 5.0
_Context = grpc.aio.ServicerContext[Any, Any]


class RecordingDriver:
    """Serves in `root` (a kubelet's folder as it is seen here; the kubelet itself sees it as `own_root`)."""

    def __init__(self, root: Path, own_root: Path, cdi: Path, transcript: Transcript) -> None:
        self.root, self.own_root, self.cdi, self.transcript = root, own_root, cdi, transcript
        self.devices: dict[str, Sequence[str]] = {}
        self.registered, self.watched = asyncio.Event(), asyncio.Event()
        self.closing = asyncio.Event()
        self._answers: dict[str, tuple[str | None, int | None]] = {}
        self._services, self._registration = grpc.aio.server(), grpc.aio.server()

    async def serve(self) -> None:
        """Returns when the kubelet has registered it and watches its health."""
        folder = self.root / "plugins" / DRIVER
        folder.mkdir(parents=True, exist_ok=True)
        self.cdi.mkdir(parents=True, exist_ok=True)
        dra_v1_pb2_grpc.add_DRAPluginServicer_to_server(_Dra(self), self._services)
        drahealth_v1_pb2_grpc.add_DRAResourceHealthServicer_to_server(
            _Health(self, "v1", drahealth_v1_pb2), self._services
        )
        drahealth_v1alpha1_pb2_grpc.add_DRAResourceHealthServicer_to_server(
            _Health(self, "v1alpha1", drahealth_v1alpha1_pb2), self._services
        )
        registration_grpc.add_RegistrationServicer_to_server(_Registration(self), self._registration)
        self._services.add_insecure_port(f"unix:{folder / 'dra.sock'}")
        registry = self.root / "plugins_registry"
        registry.mkdir(exist_ok=True)
        await self._services.start()
        self._registration.add_insecure_port(f"unix:{registry / f'{DRIVER}-reg.sock'}")
        await self._registration.start()
        await self.is_back()

    async def is_back(self) -> None:
        async with asyncio.timeout(WAIT_S):
            await self.registered.wait()
            await self.watched.wait()

    async def close(self) -> None:
        """Ends both services; a second time, nothing."""
        self.closing.set()
        await self._registration.stop(CLOSE_S)
        await self._services.stop(CLOSE_S)

    def behave(self, answer: Answer) -> None:
        self._answers[answer.call] = answer.error, answer.times

    def error(self, call: str) -> str:
        """What is wrong this time."""
        error, times = self._answers.get(call, (None, None))
        if times is not None:
            self._answers[call] = (error, times - 1) if times > 1 else (None, None)
        return error or ""

    def say(self, call: str, request: Any, context: _Context) -> None:
        left = context.time_remaining()
        deadline = "45 s" if left is not None and 35 < left < 46 else f"{left} s"
        known = {key for key, _ in context.invocation_metadata() or ()} - {"user-agent"}
        metadata = f"metadata {', '.join(sorted(known))}" if known else "no metadata"
        names = ", ".join(sorted(f"{claim.namespace}/{claim.name}" for claim in request.claims))
        self.transcript.add("driver", f"{call} of {names} with {deadline}, {metadata}")

    def write_cdi(self, claim: str) -> None:
        env = [f"CLAIM_{claim.upper()}={'+'.join(self.devices[claim])}"]
        device = {"name": claim, "containerEdits": {"env": env}}
        document = {"cdiVersion": "0.5.0", "kind": KIND, "devices": [device]}
        fresh = self.cdi / f".{claim}"
        fresh.write_text(json.dumps(document))
        fresh.rename(self._file(claim))

    def remove_cdi(self, claim: str) -> None:
        self._file(claim).unlink(missing_ok=True)

    def _file(self, claim: str) -> Path:
        return self.cdi / f"recording-{claim}.json"


class _Registration(registration_grpc.RegistrationServicer):
    def __init__(self, driver: RecordingDriver) -> None:
        self._driver = driver

    async def GetInfo(self, request: Any, context: _Context) -> registration.PluginInfo:  # noqa: N802 - the wire's name
        self._driver.transcript.add("registration", "GetInfo")
        listed = ["v1.DRAPlugin", "v1.DRAResourceHealth", "v1alpha1.DRAResourceHealth"]
        endpoint = self._driver.own_root / "plugins" / DRIVER / "dra.sock"
        return registration.PluginInfo(
            type="DRAPlugin", name=DRIVER, endpoint=str(endpoint), supported_versions=listed
        )

    async def NotifyRegistrationStatus(  # noqa: N802 - the wire's name
        self, request: registration.RegistrationStatus, context: _Context
    ) -> registration.RegistrationStatusResponse:
        words = "registered" if request.plugin_registered else f"refused: {request.error}"
        self._driver.transcript.add("registration", words)
        self._driver.registered.set()
        return registration.RegistrationStatusResponse()


class _Dra(dra_v1_pb2_grpc.DRAPluginServicer):
    def __init__(self, driver: RecordingDriver) -> None:
        self._driver = driver

    async def NodePrepareResources(  # noqa: N802 - the wire's name
        self, request: dra_v1_pb2.NodePrepareResourcesRequest, context: _Context
    ) -> dra_v1_pb2.NodePrepareResourcesResponse:
        self._driver.say("Prepare", request, context)
        error = self._driver.error("prepare")
        response = dra_v1_pb2.NodePrepareResourcesResponse()
        for claim in request.claims:
            entry = response.claims[claim.uid]
            entry.error = error
            if error:
                continue
            self._driver.write_cdi(claim.name)
            for device in self._driver.devices[claim.name]:
                entry.devices.add(
                    request_names=["device"],
                    pool_name="pool",
                    device_name=device,
                    cdi_device_ids=[f"{KIND}={claim.name}"],
                )
        return response

    async def NodeUnprepareResources(  # noqa: N802 - the wire's name
        self, request: dra_v1_pb2.NodeUnprepareResourcesRequest, context: _Context
    ) -> dra_v1_pb2.NodeUnprepareResourcesResponse:
        self._driver.say("Unprepare", request, context)
        error = self._driver.error("unprepare")
        response = dra_v1_pb2.NodeUnprepareResourcesResponse()
        for claim in request.claims:
            response.claims[claim.uid].error = error
            if not error:
                self._driver.remove_cdi(claim.name)
        return response


class _Health(
    drahealth_v1_pb2_grpc.DRAResourceHealthServicer, drahealth_v1alpha1_pb2_grpc.DRAResourceHealthServicer
):
    def __init__(self, driver: RecordingDriver, service: str, messages: Any) -> None:
        self._driver, self._service, self._messages = driver, service, messages

    async def NodeWatchResources(self, request: Any, context: _Context) -> AsyncIterator[Any]:  # noqa: N802 - the wire's name
        self._driver.transcript.add("health", f"{self._service} is watched")
        self._driver.watched.set()
        yield self._messages.NodeWatchResourcesResponse()
        await self._driver.closing.wait()


def containers_view(env: Mapping[str, str]) -> str:
    """What a container says of its claims."""
    return " ".join(f"{name}={value}" for name, value in sorted(env.items()) if name.startswith("CLAIM_"))
