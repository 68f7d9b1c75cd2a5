"""A node with an API server: pods are made there, bound here, and told of by the kubelet's status."""

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from accelet.agent.process import Agent
from accelet.fakeapi import FakeApi, Json
from accelet.fakekubelet import Container, FakeKubelet, Phase, Pod, PodRecord, a_pod
from tests.integration.agent.running import GPU, agent, config

PODS = "api/v1/pods"
EVENTS = "apis/events.k8s.io/v1/events"
NODE = "node"
REPLICA_SET = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "rs", "controller": True}
STATEFUL_SET = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db", "uid": "ss", "controller": True}
TOKEN: Json = {"name": "token", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}}
GENERATED = "web-7d9c5-x2bqt"
"""A name that no other pod will have, if its owner is a ReplicaSet."""


def tiles_config(cards: int = 2, *, tiles: int = 2, shares: int = 10, options: str = "") -> str:
    """A resource of simulated cards that follows assignments."""
    lines = [
        f"- name: {GPU}",
        "  backend: simulated",
        f"  shares: {shares}",
        "  assignment: annotations",
        *([f"  {options}"] if options else []),
        "  cards:",
    ]
    for index in range(cards):
        node = f"[{{path: /dev/null, mount_path: /dev/dri/card{index}}}]"
        lines.append(
            f'  - {{pci: "0000:{index + 3:02x}:00.0", card: card{index}, tiles: {tiles}, nodes: {node}}}'
        )
    return "\n".join(lines) + "\n"


def manifest(
    pod: Pod, environment: Mapping[str, Mapping[str, str]], owner: Json | None, *, token: bool
) -> Json:
    """The pod as the API server has it, which gives nearly all a token."""

    def containers(some: Iterable[Container]) -> list[Json]:
        return [
            {
                "name": one.name,
                "resources": {"limits": {name: str(amount) for name, amount in one.limits.items()}},
                "env": [{"name": k, "value": v} for k, v in environment.get(one.name, {}).items()],
                "volumeMounts": [{"name": TOKEN["name"], "mountPath": "/token"}] if token else [],
                **({"restartPolicy": one.restart_policy} if one.restart_policy else {}),
            }
            for one in some
        ]

    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": pod.name,
            "annotations": dict(pod.annotations),
            "ownerReferences": [owner] if owner else [],
        },
        "spec": {
            "nodeName": NODE,
            "containers": containers(pod.containers),
            "initContainers": containers(pod.init_containers),
            "volumes": [TOKEN] if token else [],
        },
        "status": {"phase": "Pending"},
    }


@dataclass
class World:
    api: FakeApi
    kubelet: FakeKubelet
    kubeconfig: Path
    records: list[PodRecord] = field(default_factory=list)

    def create(
        self,
        pod: Pod,
        *,
        environment: Mapping[str, Mapping[str, str]] | None = None,
        owner: Json | None = None,
        token: bool = True,
    ) -> Pod:
        """Makes the pod at the API server, bound to the node; the kubelet has not heard of it yet."""
        body = manifest(pod, environment or {}, owner, token=token)
        made = self.api.state.create(PODS, pod.namespace, body)
        return replace(pod, uid=made["metadata"]["uid"])

    async def admit(
        self,
        pod: Pod,
        *,
        environment: Mapping[str, Mapping[str, str]] | None = None,
        owner: Json | None = None,
    ) -> PodRecord:
        """Makes the pod, and returns when the kubelet has decided and its status has arrived."""
        record = self.kubelet.bind(self.create(pod, environment=environment, owner=owner))
        await self.kubelet.decided(record)
        self.post_status(record)
        return record

    def post_status(self, record: PodRecord) -> None:
        phase = Phase.RUNNING if record.admitted and not record.is_over else record.phase
        self.patch(record.pod, {"status": {"phase": phase.value}})

    def patch(self, pod: Pod, change: Json) -> None:
        self.api.state.patch(PODS, (pod.namespace, pod.name), "merge-patch", change)

    def delete(self, pod: Pod) -> None:
        self.api.state.delete(PODS, (pod.namespace, pod.name))

    async def remove(self, record: PodRecord) -> None:
        """The pod is gone, for the API server and for the kubelet."""
        await self.kubelet.remove(record)
        self.patch(record.pod, {"status": {"phase": "Succeeded"}})  # as a kubelet does before it lets it go
        self.delete(record.pod)

    def events(self) -> list[tuple[str, str, str]]:
        """Pod, reason and note of every Event."""
        found: list[Any] = list(self.api.state.collection(EVENTS).objects.values())
        return [(one["regarding"]["name"], one["reason"], one["note"]) for one in found]

    def requests_for_pods(self, since: int = 0) -> list[str]:
        return [
            f"{seen.method} {seen.path}"
            for seen in self.api.seen[since:]
            if "/pods" in seen.path and not seen.is_watch
        ]


@asynccontextmanager
async def node(folder: Path, version: str = "1.36", *, lag_s: float = 0.0) -> AsyncIterator[World]:
    """An API server and a kubelet, without an agent yet."""
    with FakeApi() as api:
        api.lag_s = lag_s
        async with FakeKubelet(folder, version=version, seed=1) as kubelet:
            yield World(api, kubelet, api.write_kubeconfig(folder / "kubeconfig"))


@asynccontextmanager
async def served(world: World, folder: Path, *resources: str, devices: int) -> AsyncIterator[Agent]:
    """An agent on the node, with its list taken by the kubelet and its pods known."""
    path = folder / "config.yaml"
    path.write_text(config(*resources))
    async with agent(folder, path, world.kubeconfig) as running:
        await world.kubelet.resource(GPU).devices(healthy=devices)
        await asyncio.wait_for(running.knows_pods(), 10)
        yield running


def gas(cards: str, tiles: str | None = None) -> dict[str, str]:
    """The annotations of GPU Aware Scheduling."""
    annotations = {"gas-ts": "1700000000000000000", "gas-container-cards": cards}
    return annotations if tiles is None else {**annotations, "gas-container-tiles": tiles}


def gpu_pod(name: str, cards: str, tiles: str | None = None, *, count: int = 1) -> Pod:
    return a_pod(name, limits={GPU: count}, annotations=gas(cards, tiles))


def sample(running: Agent, name: str, **labels: str) -> float:
    """A metric's value, 0 where it has none yet."""
    return running.metrics.registry.get_sample_value(name, {"resource": GPU, **labels}) or 0.0
