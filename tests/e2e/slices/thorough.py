"""What `make e2e-provisioner` runs: many JobSets at once, JobSet's own controller, faults and kills.

Named so that `make e2e` does not collect it. ACCELET_SLICES_JOB_SETS and ACCELET_SLICES_KILLS make it
smaller.
"""

import asyncio
import json
import os
import random
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from accelet.kinds.slicerequest import SLICE_REQUESTS
from accelet.kube.apiresources import CONFIG_MAPS, NODES, PODS, ApiResource
from accelet.kube.client import Client
from accelet.provisioner.demand.selectors import NODE_POOL
from accelet.provisioner.demand.slices import TPU
from accelet.provisioner.watching import JOB_SETS
from tests.e2e.cluster.building import Progress
from tests.e2e.cluster.control_plane import ControlPlane
from tests.e2e.slices.faulty_proxy import FaultyProxy
from tests.e2e.slices.jobset import HOSTS, SLICES, job_set
from tests.e2e.slices.world import Kubelets, count, provisioner, until

JOB_SET_COUNT = int(os.environ.get("ACCELET_SLICES_JOB_SETS", "50"))
KILLS = int(os.environ.get("ACCELET_SLICES_KILLS", "50"))
ROOM, FAULTS, SEED = 10, 0.1, 15
WITHIN_S = 600.0 + 60.0 * JOB_SET_COUNT
HELD = frozenset(("Joined", "Ready", "Repairing", "Releasing"))
SETTINGS = f"""
version: v1
provider: simulated
poll_s: 0.5
grace_s: 0.5
settle_s: 1
lag_s: 5
rest_s: 1
limits: {{slices: {SLICES * ROOM}}}
simulated: {{create_s: 1, join_s: 0.5, delete_s: 0.5}}
"""

pytestmark = pytest.mark.timeout(7200)


@dataclass(frozen=True)
class Site:
    """A cluster with JobSet's controller, and a namespace in it; `kubeconfig` is the provisioner's own."""

    cluster: ControlPlane
    client: Client
    kubeconfig: Path
    namespace: str


@pytest.fixture
def site(job_sets: ControlPlane, client: Client, kubeconfig: Path, namespace: str) -> Site:
    return Site(job_sets, client, kubeconfig, namespace)


@dataclass
class Observer:
    """Looks at requests, pods and nodes a few times a second.

    `partial`: sets of which a pod was bound before all were there. `whole_s`, `ready_s`: when a set's last
    machine was seen to offer its chips, and when all of it was seen Ready.
    """

    client: Client
    namespace: str
    partial: list[str] = field(default_factory=list)
    whole_s: dict[str, float] = field(default_factory=dict)
    ready_s: dict[str, float] = field(default_factory=dict)
    most_pools: int = 0
    _seen: set[str] = field(default_factory=set)

    async def run(self) -> None:
        while True:
            await self._look()
            await asyncio.sleep(0.2)

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
            if len(members) == SLICES and all(offering[one.get("pool")] == HOSTS for one in members):
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


def _faulty(kubeconfig: Path, server: str, path: Path) -> Path:
    """The same account's kubeconfig by way of the proxy."""
    document = json.loads(kubeconfig.read_text())
    document["clusters"][0]["cluster"] = {"server": server}
    path.write_text(json.dumps(document))
    return path


@pytest.mark.parametrize("kills", [0, KILLS], ids=["undisturbed", "killed"])
async def test_every_job_set_gets_its_slices_whole_or_waits(
    site: Site, tmp_path: Path, say: Progress, kills: int
) -> None:
    """With `kills`, a tenth of the provisioner's requests fail too."""
    client, namespace, chance = site.client, site.namespace, random.Random(SEED)
    ca = site.cluster.authority.keys.certificate
    proxy = FaultyProxy(site.cluster.url, ca, chance, FAULTS if kills else 0.0)
    kubelets, observer = Kubelets(client, namespace), Observer(client, namespace)
    running = [asyncio.create_task(one.run()) for one in (kubelets, observer)]
    began_s = time.monotonic()
    for index in range(JOB_SET_COUNT):
        await client.create(JOB_SETS, namespace, job_set(f"train-{index}"))

    async def is_done() -> bool:
        assert not any(task.done() for task in running), running
        page = await client.list_page(JOB_SETS, namespace)
        states = [(json.loads(bytes(raw)).get("status") or {}).get("terminalState") for raw in page.items]
        return states == ["Completed"] * JOB_SET_COUNT

    async def is_clean() -> bool:
        places = ((SLICE_REQUESTS, namespace, ""), (NODES, None, NODE_POOL))
        pools = await count(client, CONFIG_MAPS, "kube-system", "accelet.dev/simulated-pool")
        return pools + sum([await count(client, *place) for place in places]) == 0

    async with proxy.serve() as server:
        faulty = _faulty(site.kubeconfig, server, tmp_path / "faulty.kubeconfig")
        for _ in range(kills):
            async with provisioner(faulty, tmp_path, SETTINGS) as process:
                await asyncio.sleep(chance.uniform(3.0, 15.0))
                process.kill()
        async with provisioner(faulty, tmp_path, SETTINGS):
            await until(is_done, WITHIN_S)
            await until(is_clean, 300)
    for task in running:
        task.cancel()
    say(
        f"{JOB_SET_COUNT} JobSets, {kills} kills, {proxy.failed} of {proxy.requests} requests failed: "
        f"done in {time.monotonic() - began_s:.0f} s; {observer.report()}"
    )
    assert observer.partial == []
    assert kubelets.killed == []
    assert observer.most_pools <= SLICES * ROOM
