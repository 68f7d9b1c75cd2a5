"""What is seen of JobSets' slices from outside, and how long they took."""

import asyncio
import json
import time
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

from accelet.kinds.slicerequest import SLICE_REQUESTS
from accelet.kube.apiresources import CONFIG_MAPS, NODES, PODS, ApiResource
from accelet.kube.client import Client
from accelet.kube.errors import UnavailableError
from accelet.provisioner.demand.selectors import NODE_POOL
from accelet.provisioner.demand.slices import TPU
from tests.e2e.slices.jobset import SLICES
from tests.e2e.slices.world import count

HELD = frozenset(("Joined", "Ready", "Repairing", "Releasing"))


@dataclass(frozen=True, slots=True)
class Change:
    """A pod was bound, or a request has another phase (None: is gone), as of a version of the cluster."""

    version: int
    set_name: str
    name: str
    phase: str | None = None
    is_pod: bool = False


@dataclass
class Observer:
    """Looks at requests, pods and nodes about twice a second, and at each change of requests and pods.

    `whole_s`, `ready_s`: when a set's last machine was seen to offer its chips, and when all of it was seen
    Ready.
    """

    client: Client
    namespace: str
    hosts: int
    slices: int = SLICES
    whole_s: dict[str, float] = field(default_factory=dict)
    ready_s: dict[str, float] = field(default_factory=dict)
    most_pools: int = 0
    _changes: list[Change] = field(default_factory=list)
    _bound: set[str] = field(default_factory=set)

    async def run(self) -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(self._follow_requests())
            group.create_task(self._follow_pods())
            while True:
                await self._look()
                await asyncio.sleep(0.4)

    @property
    def bound(self) -> int:
        """How many pods were bound."""
        return len(self._bound)

    @property
    def failed(self) -> set[str]:
        """Slices of which an attempt came to nothing."""
        return {change.name for change in self._changes if change.phase in ("Failing", "BackingOff")}

    @property
    def partial(self) -> list[str]:
        """Pods that were bound while not all slices of their set were there, in the order of all changes."""
        phases: dict[str, dict[str, str]] = {}
        found = []
        for change in sorted(self._changes, key=lambda change: change.version):
            of_set = phases.setdefault(change.set_name, {})
            if change.is_pod:
                if len(of_set) != self.slices or not HELD.issuperset(of_set.values()):
                    found.append(f"{change.name}, bound at {change.version}: {of_set}")
            elif change.phase is None:
                of_set.pop(change.name, None)
            else:
                of_set[change.name] = change.phase
        return found

    async def _follow_requests(self) -> None:
        async for is_there, request in self._follow(SLICE_REQUESTS):
            metadata, status = request["metadata"], request.get("status") or {}
            set_name = request["spec"]["owner"]["name"]
            phase = status.get("phase", "") if is_there else None
            self._changes.append(Change(_version(request), set_name, metadata["name"], phase))

    async def _follow_pods(self) -> None:
        async for _, pod in self._follow(PODS):
            metadata = pod["metadata"]
            if pod["spec"].get("nodeName") and metadata["uid"] not in self._bound:
                self._bound.add(metadata["uid"])
                set_name = metadata["labels"]["jobset.sigs.k8s.io/jobset-name"]
                self._changes.append(Change(_version(pod), set_name, metadata["name"], is_pod=True))

    async def _follow(self, resource: ApiResource) -> AsyncIterator[tuple[bool, dict[str, Any]]]:
        """Each object, and each change of one from now on: whether it is there still."""
        page = await self.client.list_page(resource, self.namespace)
        version = page.resource_version
        for raw in page.items:
            yield True, json.loads(bytes(raw))
        while True:
            try:
                async with self.client.watch(resource, self.namespace, {"resourceVersion": version}) as watch:
                    async for lines in watch:
                        for event in map(json.loads, lines):
                            assert event["type"] != "ERROR", event
                            version = event["object"]["metadata"]["resourceVersion"]
                            if event["type"] != "BOOKMARK":
                                yield event["type"] != "DELETED", event["object"]
            except UnavailableError:
                continue

    async def _look(self) -> None:
        nodes = await self._list(NODES, None)
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
            if len(members) == self.slices and all(
                offering[one.get("pool")] == self.hosts for one in members
            ):
                self.whole_s.setdefault(name, now_s)
            if len(members) == self.slices and all(one.get("phase") == "Ready" for one in members):
                self.ready_s.setdefault(name, now_s)

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


def _version(raw: dict[str, Any]) -> int:
    """The revision of etcd, which grows with each change of anything in the cluster."""
    return int(raw["metadata"]["resourceVersion"])
