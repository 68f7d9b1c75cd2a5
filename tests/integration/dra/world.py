"""A node with an API server, an agent in this process, and the kubelet's side of the DRA sockets."""

import asyncio
import json
import uuid
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc

from accelet.agent.configfile import ConfigFile
from accelet.agent.process import Agent, AgentOptions
from accelet.fakeapi import FakeApi
from accelet.kubelet.api import dra_v1_pb2 as v1
from accelet.kubelet.api import dra_v1_pb2_grpc as v1_grpc
from accelet.kubelet.api import dra_v1beta1_pb2 as v1beta1
from accelet.kubelet.api import dra_v1beta1_pb2_grpc as v1beta1_grpc
from accelet.kubelet.api import pluginregistration_pb2 as registration
from accelet.kubelet.api import pluginregistration_pb2_grpc as registration_grpc
from accelet.kubelet.paths import KubeletPaths
from accelet.runtime.run import FatalError
from tests.fakes.manifests import claiming, raw_node, raw_pod

NODE = "node-1"
GPU = "gpu.accelet.dev"
SLICES = "apis/resource.k8s.io/v1/resourceslices"
CLAIMS = "apis/resource.k8s.io/v1/resourceclaims"
PODS = "api/v1/pods"
_CHANNEL = (("grpc.default_authority", "localhost"),)

CONFIG = """\
version: v1
resources:
  - name: gpu.intel.com/i915
    backend: simulated
    serve: dra
    cards:
      - pci: "0000:03:00.0"
        tiles: 2
        memory_mib: 131072
        nodes: [{path: /dev/null, mount_path: /dev/dri/card0}]
      - pci: "0000:04:00.0"
        tiles: 2
        memory_mib: 131072
        nodes: [{path: /dev/null, mount_path: /dev/dri/card1}]
"""


def result(device: str, request: str = "gpu", *, share: str | None = None, **amounts: str) -> dict[str, Any]:
    """One entry of an allocation's results."""
    shared = {"shareID": share, "consumedCapacity": amounts} if share else {}
    return {"request": request, "driver": GPU, "pool": NODE, "device": device, **shared}


@dataclass
class Kubelet:
    """What a kubelet does with the sockets of a driver: finds, registers, calls."""

    folder: Path
    driver: str = GPU

    async def register(self) -> registration.PluginInfo:
        """Finds the driver's registration socket and asks it who it is, as a kubelet does each second."""
        async with asyncio.timeout(10):
            while True:
                for path in sorted((self.folder / "plugins_registry").glob(f"{self.driver}-*-reg.sock")):
                    with suppress(grpc.aio.AioRpcError):
                        return await self._ask(path)
                await asyncio.sleep(0.02)

    async def _ask(self, path: Path) -> registration.PluginInfo:
        async with grpc.aio.insecure_channel(f"unix:{path}", options=_CHANNEL) as channel:
            stub: Any = registration_grpc.RegistrationStub(channel)
            info: registration.PluginInfo = await stub.GetInfo(registration.InfoRequest(), timeout=1)
            await stub.NotifyRegistrationStatus(registration.RegistrationStatus(plugin_registered=True))
            return info

    async def prepare(self, *claims: Mapping[str, Any]) -> dict[str, v1.NodePrepareResourceResponse]:
        """The answers by claim name."""
        info = await self.register()
        async with grpc.aio.insecure_channel(f"unix:{info.endpoint}", options=_CHANNEL) as channel:
            stub: Any = v1_grpc.DRAPluginStub(channel)
            request = v1.NodePrepareResourcesRequest(claims=[_ref(claim) for claim in claims])
            response = await stub.NodePrepareResources(request, timeout=45)
        return {claim["metadata"]["name"]: response.claims[claim["metadata"]["uid"]] for claim in claims}

    async def prepare_v1beta1(self, claim: Mapping[str, Any]) -> v1beta1.NodePrepareResourceResponse:
        info = await self.register()
        async with grpc.aio.insecure_channel(f"unix:{info.endpoint}", options=_CHANNEL) as channel:
            stub: Any = v1beta1_grpc.DRAPluginStub(channel)
            ref = _ref(claim)
            wanted = v1beta1.Claim(namespace=ref.namespace, name=ref.name, uid=ref.uid)
            response: v1beta1.NodePrepareResourcesResponse = await stub.NodePrepareResources(
                v1beta1.NodePrepareResourcesRequest(claims=[wanted]), timeout=45
            )
        return response.claims[ref.uid]

    async def unprepare(self, *claims: Mapping[str, Any]) -> dict[str, str]:
        """The errors by claim name; empty where there is none."""
        info = await self.register()
        async with grpc.aio.insecure_channel(f"unix:{info.endpoint}", options=_CHANNEL) as channel:
            stub: Any = v1_grpc.DRAPluginStub(channel)
            request = v1.NodeUnprepareResourcesRequest(claims=[_ref(claim) for claim in claims])
            response = await stub.NodeUnprepareResources(request, timeout=45)
        return {
            claim["metadata"]["name"]: response.claims[claim["metadata"]["uid"]].error for claim in claims
        }


def _ref(claim: Mapping[str, Any]) -> v1.Claim:
    metadata = claim["metadata"]
    return v1.Claim(namespace=metadata["namespace"], name=metadata["name"], uid=metadata["uid"])


@dataclass
class World:
    """Everything on one node. `folder` holds the kubelet's directory and the CDI folder."""

    folder: Path
    api: FakeApi
    kubelet: Kubelet

    @property
    def cdi(self) -> Path:
        return self.folder / "cdi"

    def slices(self) -> list[dict[str, Any]]:
        return list(self.api.state.list(SLICES, {}, None)["items"])

    def devices(self) -> dict[str, dict[str, Any]]:
        return {d["name"]: d for one in self.slices() for d in one["spec"].get("devices", ())}

    def claim(
        self,
        name: str,
        *results: Mapping[str, Any],
        pod: Mapping[str, Any] | None = None,
        owned: bool = True,
        config: Sequence[Mapping[str, Any]] = (),
    ) -> dict[str, Any]:
        """An allocated claim, reserved for a pod that uses it (by default of one container, whole)."""
        made = pod or self.pod(f"pod-of-{name}", {"main": [(name, None)]})
        reference = {
            "apiVersion": "v1",
            "kind": "Pod",
            "name": made["metadata"]["name"],
            "uid": made["metadata"]["uid"],
            "controller": True,
        }
        body = {
            "metadata": {"name": name, "ownerReferences": [reference] if owned else []},
            "spec": {},
            "status": {
                "allocation": {"devices": {"results": list(results), "config": list(config)}},
                "reservedFor": [
                    {"resource": "pods", "name": reference["name"], "uid": reference["uid"]},
                ],
            },
        }
        return self.api.state.create(CLAIMS, "ml", body)

    def pod(self, name: str, containers: Mapping[str, Sequence[tuple[str, str | None]]]) -> dict[str, Any]:
        """A pod whose containers use claims, each as a whole (None) or one of its requests."""
        return self.api.state.create(PODS, "ml", raw_pod(name, on=NODE, **claiming(containers)))

    def edits(self, prepared: v1.NodePrepareResourceResponse, *requests: str) -> dict[str, Any]:
        """What a runtime gives a container that names these requests, or with none the whole claim."""
        environment: dict[str, str] = {}
        nodes: set[str] = set()
        for device in prepared.devices:
            if requests and not set(device.request_names) & set(requests):
                continue
            for cdi_id in device.cdi_device_ids:
                edits = self.cdi_devices()[cdi_id]
                environment |= dict(line.split("=", 1) for line in edits.get("env", ()))
                nodes |= {node["path"] for node in edits.get("deviceNodes", ())}
        return {"nodes": sorted(nodes), "env": environment}

    def cdi_devices(self) -> dict[str, dict[str, Any]]:
        found = {}
        for path in sorted(self.cdi.glob("*.json")):
            document = json.loads(path.read_text())
            for device in document["devices"]:
                found[f"{document['kind']}={device['name']}"] = device["containerEdits"]
        return found


@asynccontextmanager
async def a_node(folder: Path, config: str = CONFIG) -> AsyncIterator[World]:
    """A node with its API server; no agent runs yet."""
    (folder / "device-plugins").mkdir()
    (folder / "config.yaml").write_text(config)
    with FakeApi() as api:
        api.state.create("api/v1/nodes", "", raw_node(NODE))
        api.write_kubeconfig(folder / "kubeconfig")
        yield World(folder, api, Kubelet(folder))


@asynccontextmanager
async def an_agent(world: World) -> AsyncIterator[Agent]:
    """Runs an agent until the end of the block, then ends it as SIGTERM does."""
    folder = world.folder
    paths, kubeconfig = KubeletPaths(folder), folder / "kubeconfig"
    options = AgentOptions(Path("/"), paths, NODE, None, kubeconfig, cdi=folder / "cdi")
    made = Agent(options, ConfigFile(folder / "config.yaml"))
    running = asyncio.create_task(made.run())
    async with AsyncExitStack() as stack:
        stack.push_async_callback(_end, running)
        yield made


async def _end(running: asyncio.Task[None]) -> None:
    running.cancel()
    with suppress(asyncio.CancelledError, FatalError):
        await running


async def until(condition: Callable[[], bool], *, timeout_s: float = 15.0) -> None:
    async with asyncio.timeout(timeout_s):
        while not condition():  # noqa: ASYNC110 - what is asked for is asked for, as a kubelet does
            await asyncio.sleep(0.02)


def new_uid() -> str:
    return str(uuid.uuid4())
