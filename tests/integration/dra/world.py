"""A node with an API server, an agent in this process, and a fake kubelet."""

import asyncio
import json
import uuid
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from accelet.agent.configfile import ConfigFile
from accelet.agent.process import Agent, AgentOptions
from accelet.fakeapi import FakeApi
from accelet.fakekubelet import ClaimRef, DriverView, FakeKubelet, kube_claims
from accelet.fakekubelet.claims.driverclient import Answered
from accelet.kubelet.paths import KubeletPaths
from accelet.runtime.run import FatalError
from tests.fakes.clocks import QuickClock
from tests.fakes.manifests import claiming, raw_node, raw_pod

NODE = "node-1"
GPU = "gpu.accelet.dev"
SLICES = "apis/resource.k8s.io/v1/resourceslices"
CLAIMS = "apis/resource.k8s.io/v1/resourceclaims"
PODS = "api/v1/pods"

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


def _ref(claim: Mapping[str, Any]) -> ClaimRef:
    metadata = claim["metadata"]
    return ClaimRef(metadata["namespace"], metadata["name"], metadata["uid"])


@dataclass
class World:
    """Everything on one node. `folder` holds the kubelet's directory and the CDI folder.

    The kubelet does not run before it is waited for that the driver registers.
    """

    folder: Path
    api: FakeApi
    kubelet: FakeKubelet

    async def register(self) -> DriverView:
        """The driver as the kubelet knows it, once it is registered and connected."""
        await self.kubelet.start()
        return await self.kubelet.driver_registered(GPU)

    async def prepare(self, *claims: Mapping[str, Any]) -> dict[str, Answered]:
        """The driver's answers to one Prepare of these claims, by claim name, without a pod."""
        answers = await (await self.register()).client.prepare([_ref(claim) for claim in claims])
        return {claim["metadata"]["name"]: answers[claim["metadata"]["uid"]] for claim in claims}

    async def unprepare(self, *claims: Mapping[str, Any]) -> dict[str, str]:
        """The errors by claim name; empty where there is none."""
        answers = await (await self.register()).client.unprepare([_ref(claim) for claim in claims])
        return {claim["metadata"]["name"]: answers[claim["metadata"]["uid"]].error for claim in claims}

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

    def edits(self, prepared: Answered, *requests: str) -> dict[str, Any]:
        """What a runtime gives a container that names these requests, or with none the whole claim."""
        environment: dict[str, str] = {}
        nodes: set[str] = set()
        for device in prepared.devices:
            if requests and not set(device.requests) & set(requests):
                continue
            for cdi_id in device.cdi_ids:
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
async def a_node(
    folder: Path, config: str = CONFIG, *, version: str = "1.36", pace: float = 5
) -> AsyncIterator[World]:
    """A node with its API server; neither agent nor kubelet run yet. A second is `pace` of the kubelet's."""
    for name in ("device-plugins", "plugins_registry"):
        (folder / name).mkdir()
    (folder / "config.yaml").write_text(config)
    with FakeApi() as api:
        api.state.create("api/v1/nodes", "", raw_node(NODE))
        api.write_kubeconfig(folder / "kubeconfig")
        async with kube_claims(folder / "kubeconfig") as claims:
            kubelet = FakeKubelet(
                folder,
                version=version,
                clock=QuickClock(pace),
                node_name=NODE,
                claims=claims,
                cdi_dirs=[folder / "cdi"],
            )
            try:
                yield World(folder, api, kubelet)
            finally:
                await kubelet.stop()


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
