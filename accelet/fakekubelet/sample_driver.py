"""A small DRA driver that does everything right: an example, and what the checks are tried on.

    python -m accelet.fakekubelet.sample_driver --root DIR --cdi DIR --devices DIR
        --kubeconfig FILE --node NAME

The root is the kubelet's folder. Each file among the devices is one, which one claim holds at a time.
"""

import argparse
import asyncio
import json
import os
import signal
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import grpc
import grpc.aio
import msgspec

from accelet.fakekubelet.claims.driverclient import ClaimRef
from accelet.fakekubelet.claims.kubeclaims import CLAIMS, SLICES
from accelet.kube.client import Client
from accelet.kube.errors import KubeError
from accelet.kubelet.api import dra_v1_pb2 as v1
from accelet.kubelet.api import dra_v1_pb2_grpc as v1_grpc
from accelet.kubelet.api import drahealth_v1_pb2 as health_v1
from accelet.kubelet.api import drahealth_v1_pb2_grpc as health_grpc
from accelet.kubelet.api import drahealth_v1alpha1_pb2 as v1alpha1
from accelet.kubelet.api import drahealth_v1alpha1_pb2_grpc as v1alpha1_grpc
from accelet.kubelet.api import pluginregistration_pb2 as registration
from accelet.kubelet.api import pluginregistration_pb2_grpc as registration_grpc

POLL_S: Final = 0.1
"""How often it looks whether its ResourceSlice is still there."""

DRIVER: Final = "sample.example.com"
KIND: Final = "sample.example.com/claim"
Json = dict[str, Any]
_Context = grpc.aio.ServicerContext[Any, Any]


class RefusedClaimError(Exception):
    """A claim cannot be prepared. The text goes to the user of the pod."""


@dataclass(frozen=True, slots=True)
class DriverPlaces:
    """Where everything is: the kubelet's folder, the devices, the CDI folder, and the node's name."""

    root: Path
    devices: Path
    cdi: Path
    node: str

    @property
    def folder(self) -> Path:
        return self.root / "plugins" / DRIVER

    @property
    def checkpoint(self) -> Path:
        return self.folder / "claims.json"

    @property
    def registry(self) -> Path:
        return self.root / "plugins_registry"


class SampleDriver(
    v1_grpc.DRAPluginServicer, registration_grpc.RegistrationServicer, health_grpc.DRAResourceHealthServicer
):
    """`run` serves and publishes until it is cancelled."""

    services: tuple[str, ...] = ("v1.DRAPlugin", "v1.DRAResourceHealth", "v1alpha1.DRAResourceHealth")

    def __init__(self, places: DriverPlaces, client: Client) -> None:
        self.places, self.client = places, client
        self.lock = asyncio.Lock()

    # What the kubelet asks.

    async def GetInfo(self, request: Any, context: _Context) -> registration.PluginInfo:  # noqa: N802 - the wire's name
        return registration.PluginInfo(
            type="DRAPlugin",
            name=DRIVER,
            endpoint=str(self.places.folder / "dra.sock"),
            supported_versions=self.services,
        )

    async def NotifyRegistrationStatus(  # noqa: N802 - the wire's name
        self, request: registration.RegistrationStatus, context: _Context
    ) -> registration.RegistrationStatusResponse:
        return registration.RegistrationStatusResponse()

    async def NodePrepareResources(  # noqa: N802 - the wire's name
        self, request: v1.NodePrepareResourcesRequest, context: _Context
    ) -> v1.NodePrepareResourcesResponse:
        response = v1.NodePrepareResourcesResponse()
        for claim in request.claims:
            entry = response.claims[claim.uid]
            entry.SetInParent()
            try:
                entry.devices.extend(await self.prepare(ClaimRef(claim.namespace, claim.name, claim.uid)))
            except (RefusedClaimError, KubeError) as error:
                entry.error = str(error)
        return response

    async def NodeUnprepareResources(  # noqa: N802 - the wire's name
        self, request: v1.NodeUnprepareResourcesRequest, context: _Context
    ) -> v1.NodeUnprepareResourcesResponse:
        response = v1.NodeUnprepareResourcesResponse()
        for claim in request.claims:
            entry = response.claims[claim.uid]
            entry.SetInParent()
            try:
                await self.unprepare(ClaimRef(claim.namespace, claim.name, claim.uid))
            except (RefusedClaimError, KubeError) as error:
                entry.error = str(error)
        return response

    async def NodeWatchResources(  # noqa: N802 - the wire's name
        self, request: health_v1.NodeWatchResourcesRequest, context: _Context
    ) -> AsyncIterator[health_v1.NodeWatchResourcesResponse]:
        while True:
            report = health_v1.NodeWatchResourcesResponse()
            for name in self.told_healthy():
                one = report.devices.add(health=health_v1.HEALTHY)
                one.device.pool_name, one.device.device_name = self.places.node, name
            yield report
            await asyncio.sleep(10)

    def names(self) -> list[str]:
        """All devices there are."""
        return sorted(path.name for path in self.places.devices.iterdir())

    def told_healthy(self) -> Sequence[str]:
        return self.names()

    # Claims.

    async def prepare(self, ref: ClaimRef) -> list[v1.Device]:
        """Holds a claim's devices, and writes what containers get, also if it has been done before.

        Raises:
            RefusedClaimError: it cannot be.
            KubeError: the claim cannot be read.
        """
        results = await self.results(ref)
        async with self.lock:
            held = self.held()
            self.refuse(ref, results, held)
            held[ref.uid] = [result["device"] for result in results]
            self.write(self.places.checkpoint, held)
            self.write_cdi(ref, results)
        return [
            v1.Device(
                request_names=[result["request"].partition("/")[0]],
                pool_name=result["pool"],
                device_name=result["device"],
                cdi_device_ids=[self.cdi_id(ref, result)],
            )
            for result in results
        ]

    async def results(self, ref: ClaimRef) -> list[Json]:
        """What was allocated to the claim of this driver."""
        claim = msgspec.json.decode(await self.client.get(CLAIMS, ref.namespace, ref.name))
        if claim["metadata"]["uid"] != ref.uid:
            raise RefusedClaimError(f"the claim {ref.name} is another one now")
        allocation = claim.get("status", {}).get("allocation") or {}
        results = allocation.get("devices", {}).get("results") or ()
        return [result for result in results if result["driver"] == DRIVER]

    def refuse(self, ref: ClaimRef, results: Sequence[Json], held: dict[str, list[str]]) -> None:
        """Raises RefusedClaimError if a device is not there, or another claim's."""
        taken = {device: uid for uid, devices in held.items() for device in devices if uid != ref.uid}
        for result in results:
            if result["device"] not in self.names():
                raise RefusedClaimError(f"there is no device {result['device']} on this node")
            if result["device"] in taken:
                raise RefusedClaimError(f"another claim holds the device {result['device']}")

    async def unprepare(self, ref: ClaimRef) -> None:
        """Gives a claim's devices back, from the driver's own record alone."""
        async with self.lock:
            self.cdi_file(ref).unlink(missing_ok=True)
            held = self.held()
            if held.pop(ref.uid, None) is not None:
                self.write(self.places.checkpoint, held)

    def held(self) -> dict[str, list[str]]:
        """Devices by the uids of the claims that hold them; from the file, which outlives the process."""
        try:
            held: dict[str, list[str]] = json.loads(self.places.checkpoint.read_bytes())
        except FileNotFoundError:
            return {}
        return held

    def cdi_id(self, ref: ClaimRef, result: Json) -> str:
        return f"{KIND}={ref.uid}-{result['device']}"

    def cdi_file(self, ref: ClaimRef) -> Path:
        return self.places.cdi / f"sample.example.com-claim_{ref.uid}.json"

    def write_cdi(self, ref: ClaimRef, results: Sequence[Json]) -> None:
        devices = [
            {
                "name": self.cdi_id(ref, result).partition("=")[2],
                "containerEdits": {"env": [f"SAMPLE_{number}={result['device']}"]},
            }
            for number, result in enumerate(results)
        ]
        self.write(self.cdi_file(ref), {"cdiVersion": "0.5.0", "kind": KIND, "devices": devices})

    @staticmethod
    def write(path: Path, content: object) -> None:
        """Under another name first, so that nobody reads half of it."""
        path.parent.mkdir(parents=True, exist_ok=True)
        descriptor, temporary = tempfile.mkstemp(prefix=".", dir=path.parent)
        with os.fdopen(descriptor, "w") as file:
            json.dump(content, file)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).rename(path)

    # ResourceSlices.

    async def publish(self) -> None:
        """Keeps its ResourceSlices at the API server, whoever removes them."""
        selector = f"spec.nodeName={self.places.node},spec.driver={DRIVER}"
        while True:
            with suppress(KubeError):
                page = await self.client.list_page(SLICES, None, {"fieldSelector": selector})
                if not page.items:
                    for one in self.slices():
                        await self.client.create(SLICES, None, one)
            await asyncio.sleep(POLL_S)

    def slices(self) -> list[Json]:
        """All of its pool."""
        return [self.slice()]

    def slice(self) -> Json:
        return {
            "apiVersion": SLICES.api_version,
            "kind": SLICES.kind,
            "metadata": {"generateName": f"{DRIVER}-{self.places.node}-"},
            "spec": {
                "driver": DRIVER,
                "nodeName": self.places.node,
                "pool": {"name": self.places.node, "generation": 1, "resourceSliceCount": 1},
                "devices": [{"name": name} for name in self.names()],
            },
        }

    # Its life.

    async def run(self) -> None:
        """Serves the services first, then the registration, by which the kubelet finds them."""
        services, announced = grpc.aio.server(), grpc.aio.server()
        v1_grpc.add_DRAPluginServicer_to_server(self, services)
        health_grpc.add_DRAResourceHealthServicer_to_server(self, services)
        v1alpha1_grpc.add_DRAResourceHealthServicer_to_server(OlderHealth(self), services)
        registration_grpc.add_RegistrationServicer_to_server(self, announced)
        for folder in (self.places.folder, self.places.registry, self.places.cdi):
            folder.mkdir(parents=True, exist_ok=True)
        services.add_insecure_port(f"unix:{self.places.folder / 'dra.sock'}")
        announced.add_insecure_port(f"unix:{self.places.registry / f'{DRIVER}-reg.sock'}")
        try:
            await services.start()
            await announced.start()
            await self.publish()
        finally:
            await self.end(services, announced)

    async def end(self, services: grpc.aio.Server, announced: grpc.aio.Server) -> None:
        """The registration ends first. ResourceSlices stay, for the next one of a rolling update."""
        await announced.stop(None)
        await services.stop(None)


class OlderHealth(v1alpha1_grpc.DRAResourceHealthServicer):
    """The same by the name that kubelets 1.36 ask for."""

    def __init__(self, driver: SampleDriver) -> None:
        self._driver = driver

    async def NodeWatchResources(  # noqa: N802 - the wire's name
        self, request: v1alpha1.NodeWatchResourcesRequest, context: _Context
    ) -> AsyncIterator[v1alpha1.NodeWatchResourcesResponse]:
        async for report in self._driver.NodeWatchResources(health_v1.NodeWatchResourcesRequest(), context):
            yield v1alpha1.NodeWatchResourcesResponse.FromString(report.SerializeToString())


async def main(driver: type[SampleDriver], words: Sequence[str] | None = None) -> None:
    """Runs a driver until SIGTERM."""
    parser = argparse.ArgumentParser()
    for option in ("--root", "--devices", "--cdi", "--kubeconfig"):
        parser.add_argument(option, type=Path, required=True)
    parser.add_argument("--node", required=True)
    options = parser.parse_args(words)
    client = await Client.connect(options.kubeconfig)
    places = DriverPlaces(options.root, options.devices, options.cdi, options.node)
    running = asyncio.create_task(driver(places, client).run())
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, running.cancel)
    with suppress(asyncio.CancelledError):
        await running
    client.close()


if __name__ == "__main__":
    asyncio.run(main(SampleDriver))
