"""What is seen of JobSets' slices from outside, and how long they took."""

import asyncio
import json
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from accelet.kinds.slicerequest import SLICE_REQUESTS
from accelet.kube.apiresources import CONFIG_MAPS, NODES, PODS, ApiResource
from accelet.kube.client import Client
from accelet.provisioner.demand.selectors import NODE_POOL
from accelet.provisioner.demand.slices import TPU
from tests.e2e.slices.jobset import SLICES
from tests.e2e.slices.world import count

HELD = frozenset(("Joined", "Ready", "Repairing", "Releasing"))


@dataclass
class Observer:
    """Looks at requests, pods and nodes about twice a second.

    `partial`: sets of which a pod was bound before all were there. `whole_s`, `ready_s`: when a set's last
    machine was seen to offer its chips, and when all of it was seen Ready.
    """

    client: Client
    namespace: str
    hosts: int
    partial: list[str] = field(default_factory=list)
    whole_s: dict[str, float] = field(default_factory=dict)
    ready_s: dict[str, float] = field(default_factory=dict)
    most_pools: int = 0
    _seen: set[str] = field(default_factory=set)

    async def run(self) -> None:
        while True:
            await self._look()
            await asyncio.sleep(0.4)

    async def _look(self) -> None:
        pods, nodes = await self._list(PODS, self.namespace), await self._list(NODES, None)
        requests = await self._list(SLICE_REQUESTS, self.namespace)
        self.most_pools = max(
            self.most_pools,
            await count(self.client, CONFIG_MAPS, "kube-system", "accelet.dev/simulated-pool"),
        )
        offering = Counter(
            node["metadata"]["labels"].get(NODE_POOL)
            for node in nodes
            if (node["status"].get("allocatable") or {}).get(TPU) == "4"
        )
        sets: dict[str, list[dict[str, Any]]] = {}
        for one in requests:
            sets.setdefault(one["spec"]["owner"]["name"], []).append(one.get("status") or {})
        now_s = time.monotonic()
        for name, members in sets.items():
            if len(members) == SLICES and all(offering[one.get("pool")] == self.hosts for one in members):
                self.whole_s.setdefault(name, now_s)
            if len(members) == SLICES and all(one.get("phase") == "Ready" for one in members):
                self.ready_s.setdefault(name, now_s)
        for pod in pods:
            self._judge(pod, sets)

    def _judge(self, pod: dict[str, Any], sets: dict[str, list[dict[str, Any]]]) -> None:
        name, owner = pod["metadata"]["name"], pod["metadata"]["labels"]["jobset.sigs.k8s.io/jobset-name"]
        is_over = pod["status"].get("phase") in ("Succeeded", "Failed")
        if name in self._seen or not pod["spec"].get("nodeName") or is_over:
            return
        self._seen.add(name)
        phases = [one.get("phase") for one in sets.get(owner, [])]
        if len(phases) != SLICES or not HELD.issuperset(phases):
            self.partial.append(f"{name}: {phases}")

    async def _list(self, resource: ApiResource, namespace: str | None) -> list[dict[str, Any]]:
        page = await self.client.list_page(resource, namespace)
        return [json.loads(bytes(raw)) for raw in page.items]

    def report(self) -> str:
        both = self.ready_s.keys() & self.whole_s.keys()
        waits_s = sorted(self.ready_s[name] - self.whole_s[name] for name in both)
        return (
            f"from a set's last machine to Ready {waits_s[len(waits_s) // 2]:.1f} s in the middle, "
            f"{waits_s[-1]:.1f} s at most, of {len(waits_s)} sets seen; at most {self.most_pools} pools"
        )
