"""JobSet's exclusive placement on slices, in all its ways: one pool for each Job, and one Job on each pool.

`make e2e-provisioner` runs it. JobSet's own controller makes the Jobs, its own webhooks change the pods, and
kube-scheduler places them on simulated Nodes; a stand-in says for the kubelets that they run.
"""

import asyncio
import json
from collections import defaultdict
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from accelet.kinds.slicerequest import SLICE_REQUESTS
from accelet.kube.apiresources import CONFIG_MAPS, NODES, PODS, ApiResource
from accelet.kube.client import Client
from accelet.provisioner.demand.selectors import NAMESPACED_JOB, NODE_POOL, SLICE_LABELS
from accelet.provisioner.demand.slices import EXCLUSIVE_SELECTOR, EXCLUSIVE_TOPOLOGY
from accelet.provisioner.watching import JOB_SETS
from tests.e2e.cluster.binaries import Binaries
from tests.e2e.cluster.control_plane import ControlPlane
from tests.e2e.slices.jobset import HOSTS, SLICES, controller, job_set
from tests.e2e.slices.world import FAST_SETTINGS, Kubelets, count, is_served, provisioner, until

NAMES = ("first", "second")
_TAINT = {"key": "alpha.jobset.sigs.k8s.io/no-schedule", "effect": "NoSchedule"}
_OWN_LABEL = SLICE_LABELS[0]

pytestmark = pytest.mark.timeout(900)


@pytest.fixture
async def webhooks(
    cluster: ControlPlane, client: Client, kubeconfig: Path, jobset_binaries: Binaries, tmp_path: Path
) -> AsyncIterator[Path]:
    """Has JobSet's controller and its webhooks serve the cluster; gives the provisioner's kubeconfig."""
    async with controller(cluster, client, jobset_binaries, tmp_path, has_webhooks=True):
        await until(lambda: is_served(client, SLICE_REQUESTS))
        yield kubeconfig


async def _objects(client: Client, resource: ApiResource, namespace: str | None) -> list[dict[str, Any]]:
    page = await client.list_page(resource, namespace)
    return [json.loads(bytes(raw)) for raw in page.items]


def _is_leader(pod: dict[str, Any]) -> bool:
    return bool(pod["metadata"]["annotations"]["batch.kubernetes.io/job-completion-index"] == "0")


def _selected(pod: dict[str, Any], key: str) -> str | None:
    found: str | None = (pod["spec"].get("nodeSelector") or {}).get(key)
    return found


@pytest.mark.parametrize(
    "exclusive",
    [
        {EXCLUSIVE_TOPOLOGY: NODE_POOL},
        {EXCLUSIVE_TOPOLOGY: _OWN_LABEL},
        {EXCLUSIVE_TOPOLOGY: NODE_POOL, EXCLUSIVE_SELECTOR: "true"},
    ],
    ids=["affinity-by-pool", "affinity-by-slice", "node-selector"],
)
async def test_each_job_has_a_pool_of_its_own(
    webhooks: Path, client: Client, namespace: str, tmp_path: Path, exclusive: Mapping[str, str]
) -> None:
    kubelets = Kubelets(client, namespace)
    kubelets.may_end.clear()
    running = asyncio.create_task(kubelets.run())

    async def are_bound() -> bool:
        assert not running.done(), running
        pods = await _objects(client, PODS, namespace)
        return [bool(pod["spec"].get("nodeName")) for pod in pods] == [True] * len(NAMES) * SLICES * HOSTS

    async def are_completed() -> bool:
        found = await _objects(client, JOB_SETS, namespace)
        states = [(one.get("status") or {}).get("terminalState") for one in found]
        return states == ["Completed"] * len(NAMES)

    async def is_clean() -> bool:
        pools = await count(client, CONFIG_MAPS, "kube-system", "accelet.dev/simulated-pool")
        left = await count(client, SLICE_REQUESTS, namespace)
        return pools + left + await count(client, NODES, None, NODE_POOL) == 0

    for name in NAMES:
        await client.create(JOB_SETS, namespace, job_set(name, exclusive=exclusive))
    async with provisioner(webhooks, tmp_path, FAST_SETTINGS):
        try:
            await until(are_bound, 300)
        finally:
            pods = await _objects(client, PODS, namespace)
            nodes = {node["metadata"]["name"]: node for node in await _objects(client, NODES, None)}
            requests = await _objects(client, SLICE_REQUESTS, namespace)
            (tmp_path / "seen.json").write_text(json.dumps([pods, [*nodes.values()], requests], indent=1))
        kubelets.may_end.set()
        await until(are_completed, 120)
        for name in NAMES:
            await client.delete(JOB_SETS, namespace, name)
        await until(is_clean, 120)
    running.cancel()

    assert kubelets.killed == []
    pools_of: dict[str, set[str]] = defaultdict(set)
    nodes_of: dict[str, set[str]] = defaultdict(set)
    for pod in pods:
        job = pod["metadata"]["labels"]["batch.kubernetes.io/job-name"]
        node = nodes[pod["spec"]["nodeName"]]
        pools_of[job].add(node["metadata"]["labels"][NODE_POOL])
        nodes_of[job].add(pod["spec"]["nodeName"])
    booked = {one["spec"]["owner"]["job"]: one["status"]["pool"] for one in requests}
    assert pools_of.keys() == booked.keys() == {f"{name}-w-{n}" for name in NAMES for n in range(SLICES)}
    assert all(len(pools) == 1 for pools in pools_of.values()), pools_of
    assert {pool for pools in pools_of.values() for pool in pools} == {*booked.values()}
    assert all(len(used) == HOSTS for used in nodes_of.values())
    members = [node for node in nodes.values() if NODE_POOL in node["metadata"]["labels"]]
    tainted = [node for node in members if _TAINT in (node["spec"].get("taints") or ())]
    key = exclusive[EXCLUSIVE_TOPOLOGY]
    if EXCLUSIVE_SELECTOR in exclusive:
        assert pools_of == {job: {pool} for job, pool in booked.items()}, "its own one, not just one"
        assert all(_selected(pod, NAMESPACED_JOB) for pod in pods)
        assert not any(_selected(pod, key) for pod in pods)
        assert len(tainted) == len(members)
    else:
        for pod in pods:
            domain = nodes[pod["spec"]["nodeName"]]["metadata"]["labels"][key]
            assert _selected(pod, key) == (None if _is_leader(pod) else domain)
            assert ("affinity" in pod["spec"]) == _is_leader(pod)
        assert tainted == []
