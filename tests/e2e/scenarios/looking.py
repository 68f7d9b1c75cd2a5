"""What a kubelet shows: its folder, its node's status, its checkpoint, podresources, its containers."""

import asyncio
import base64
import json
import socket
import stat
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import grpc
import grpc.aio

from accelet.fakekubelet.scenario import Outcome, Target
from accelet.fakekubelet.scenario.format import Admit
from accelet.kubelet.api import deviceplugin_pb2 as deviceplugin
from accelet.kubelet.api import podresources_pb2 as api
from accelet.kubelet.api import podresources_pb2_grpc as rpc
from tests.e2e.scenarios.plugin import RecordingPlugin
from tests.e2e.scenarios.script import Look
from tests.e2e.scenarios.transcript import Transcript

PLUGINS_DIR = "device-plugins"
CHECKPOINT = "kubelet_internal_checkpoint"
BURST = 200
"""More calls than podresources takes at once, by far."""
BURST_ALLOWED = 10


@dataclass(frozen=True, slots=True)
class Seen:
    """What a container found in itself: variables that a plugin gave, with their ids, and device files."""

    variables: Mapping[str, frozenset[str]]
    files: frozenset[str]


class Kubelet(Target, Protocol):
    """A kubelet that scripts can be played on: what the file format asks of it, and a look into it."""

    @property
    def root(self) -> Path:
        """Its /var/lib/kubelet."""
        ...

    def without_haste(self) -> AbstractContextManager[None]:
        """Meanwhile its clock does not outrun those who call it."""
        ...

    def meet(self, plugins: Mapping[str, RecordingPlugin]) -> None:
        """Tells it whom it may ask what the API server does not show."""

    async def bind(self, action: Admit) -> None: ...

    async def fate(self, pod: str, expect: str) -> Outcome: ...

    async def outlives(self, pod: str) -> bool:
        """Waits until the pod is decided about, or the kubelet has ended; whether it still runs."""
        ...

    def pod_name(self, uid: str) -> str: ...

    async def seen(self, pod: str) -> Mapping[str, Seen]: ...

    async def status(self) -> Mapping[str, tuple[int, int]]:
        """Capacity and allocatable by resource, of the resources of plugins only."""
        ...


@dataclass(frozen=True, slots=True)
class Looking:
    """Writes down what `kubelet` shows of `resources`."""

    kubelet: Kubelet
    transcript: Transcript
    resources: set[str]

    async def look(self, action: Look) -> None:
        if action.folder:
            self._look_at_folder()
        for resource, (capacity, allocatable) in sorted((await self.kubelet.status()).items()):
            if resource in self.resources:
                self.transcript.add("status", f"{resource}: capacity {capacity}, allocatable {allocatable}")
        if action.checkpoint:
            self._look_at_checkpoint()
        for pod in action.seen:
            for container, seen in (await self.kubelet.seen(pod)).items():
                for name, ids in sorted(seen.variables.items()):
                    self.transcript.add("seen", f"{pod}/{container} {name}=<ids>", ids)
                self.transcript.add("seen", f"{pod}/{container} has files <ids>", seen.files)
        await self._look_at_podresources(action)

    def _look_at_folder(self) -> None:
        folder = self.kubelet.root / PLUGINS_DIR
        self.transcript.add("folder", f"mode {stat.S_IMODE(folder.stat().st_mode):o}")
        for path in sorted(folder.rglob("*")):
            mode = path.lstat().st_mode
            kind = {stat.S_IFSOCK: "socket", stat.S_IFDIR: "folder", stat.S_IFLNK: "link"}
            extra = f" {stat.S_IMODE(mode):o}" if path.name == CHECKPOINT else ""
            self.transcript.add(
                "folder", f"{kind.get(stat.S_IFMT(mode), 'file')} {path.relative_to(folder)}{extra}"
            )
        with socket.socket(socket.AF_UNIX) as client:
            try:
                client.connect(str(folder / "kubelet.sock"))
                answer = "takes connections"
            except OSError as error:
                answer = error.strerror or str(error)
        self.transcript.add("folder", f"kubelet.sock: {answer}")

    def _look_at_checkpoint(self) -> None:
        text = (self.kubelet.root / PLUGINS_DIR / CHECKPOINT).read_text()
        data = json.loads(text)["Data"]
        entries: list[tuple[str, list[frozenset[str]]]] = []
        for entry in data["PodDeviceEntries"] or ():
            if entry["ResourceName"] not in self.resources:
                continue
            response = deviceplugin.ContainerAllocateResponse.FromString(base64.b64decode(entry["AllocResp"]))
            given = frozenset(",".join(response.envs.values()).split(","))
            where = f"{self.kubelet.pod_name(entry['PodUID'])}/{entry['ContainerName']}"
            by_node = {node: frozenset(ids) for node, ids in entry["DeviceIDs"].items()}
            nodes = ", ".join(f"node {node}: <ids>" for node in by_node)
            answer = f"was answered <ids> in {len(response.devices)} files"
            line = f"{where} holds {entry['ResourceName']} {nodes}, {answer}"
            entries.append((line, [*by_node.values(), given]))
        for line, sets in sorted(entries, key=lambda each: each[0]):
            self.transcript.add("checkpoint", line, *sets)
        for resource, ids in sorted((data["RegisteredDevices"] or {}).items()):
            if resource in self.resources:
                self.transcript.add("checkpoint", f"{resource} is registered with <ids>", ids or ())

    def _podresources(self) -> grpc.aio.Channel:
        return grpc.aio.insecure_channel(f"unix:{self.kubelet.root / 'pod-resources' / 'kubelet.sock'}")

    async def _look_at_podresources(self, action: Look) -> None:
        async with self._podresources() as channel:
            stub = rpc.PodResourcesListerStub(channel)
            for pod in action.get:
                try:
                    got = await stub.Get(
                        api.GetPodResourcesRequest(pod_name=pod, pod_namespace="default"), timeout=10
                    )
                    self._show_pod("get", got.pod_resources)
                except grpc.aio.AioRpcError as error:
                    self.transcript.add("get", f"{pod}: {error.code().name}: {error.details()}")
            if action.podresources:
                listed = await stub.List(api.ListPodResourcesRequest(), timeout=10)
                for each in sorted(listed.pod_resources, key=lambda pod: pod.name):
                    self._show_pod("list", each)
                free = await stub.GetAllocatableResources(api.AllocatableResourcesRequest(), timeout=10)
                self._show_devices("allocatable", "", free.devices)

    def _show_pod(self, lane: str, pod: api.PodResources) -> None:
        self.transcript.add(lane, f"{pod.namespace}/{pod.name}")
        for container in sorted(pod.containers, key=lambda each: each.name):
            self.transcript.add(lane, f"  {pod.name}/{container.name}")
            self._show_devices(lane, f"    {pod.name}/{container.name} ", container.devices)

    def _show_devices(self, lane: str, where: str, devices: Sequence[api.ContainerDevices]) -> None:
        """An entry names one device each time, which is worth a word only where it does not."""
        by_kind: dict[tuple[str, str], set[str]] = {}
        for each in devices:
            if each.resource_name not in self.resources:
                continue
            nodes = [node.ID for node in each.topology.nodes] if each.HasField("topology") else "none"
            kind = f"{len(each.device_ids)} an entry, nodes {nodes}"
            by_kind.setdefault((each.resource_name, kind), set()).update(each.device_ids)
        for (resource, kind), ids in sorted(by_kind.items()):
            self.transcript.add(lane, f"{where}{resource} <ids>, {kind}", ids)

    async def burst(self) -> None:
        """Which answers come when far more calls are made at once than are allowed."""
        async with self._podresources() as channel:
            await channel.channel_ready()
            stub = rpc.PodResourcesListerStub(channel)

            async def call() -> str:
                try:
                    await stub.GetAllocatableResources(api.AllocatableResourcesRequest(), timeout=10)
                except grpc.aio.AioRpcError as error:
                    return f"{error.code().name}: {error.details()}"
                return "an answer"

            with self.kubelet.without_haste():
                answers = await asyncio.gather(*(call() for _ in range(BURST)))
        for answer in sorted(set(answers)):
            self.transcript.add("burst", answer)
        first = sum(answer == "an answer" for answer in answers)
        self.transcript.add("burst", "ten answers or more" if first >= BURST_ALLOWED else f"{first} answers")
