"""The provisioner on a real control plane: real Jobs, kube-scheduler, simulated pools, and kills."""

import asyncio
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from accelet.kinds.slicerequest import SLICE_REQUESTS
from accelet.kube.apiresources import CONFIG_MAPS, JOBS, LEASES, NODES, Body
from accelet.kube.client import Client
from accelet.kube.errors import ApiError, ConflictError, InvalidError
from accelet.kube.nodes import Node as ApiNode
from accelet.kube.nodes import parse_node
from accelet.provisioner.demand.selectors import NODE_POOL
from accelet.provisioner.nodes import close_patch, open_patch
from accelet.provisioner.pools.plan import KEEPING_OUT, NOT_READY, NOT_READY_TO_FILL
from accelet.provisioner.providers.simulated.body import POOL_LABEL
from tests.e2e.slices.world import Kubelets, count, one_job, provisioner, until

_SETTINGS = """
version: v1
provider: simulated
poll_s: 0.5
grace_s: 0.5
settle_s: 1
lag_s: 2
rest_s: 1
simulated: {create_s: 1, join_s: 0.5, delete_s: 0.5, capacity: [{tier: on-demand, slices: 4}]}
"""
HOSTS, KILLS, COUNT = 2, 1, 5


async def test_jobs_get_their_slices_through_a_kill_and_give_them_back(
    kubeconfig: Path, client: Client, namespace: str, tmp_path: Path
) -> None:
    kubelets = Kubelets(client, namespace)
    running = asyncio.create_task(kubelets.run())
    chance = random.Random(7)
    for index in range(COUNT):
        await client.create(JOBS, namespace, one_job(namespace, f"train-{index}", "2x4", HOSTS))
    for _ in range(KILLS):
        async with provisioner(kubeconfig, tmp_path, _SETTINGS) as process:
            await asyncio.sleep(chance.uniform(2.0, 10.0))
            process.kill()

    async def is_done() -> bool:
        assert not running.done(), running
        page = await client.list_page(JOBS, namespace)
        return all(json.loads(bytes(raw))["status"].get("succeeded") == HOSTS for raw in page.items)

    async def is_clean() -> bool:
        places = ((SLICE_REQUESTS, namespace, ""), (NODES, None, NODE_POOL))
        pools = await count(client, CONFIG_MAPS, "kube-system", "accelet.dev/simulated-pool")
        return pools + sum([await count(client, *place) for place in places]) == 0

    async with provisioner(kubeconfig, tmp_path, _SETTINGS):
        await until(is_done, 300)
        await until(is_clean, 120)
    running.cancel()
    assert kubelets.killed == []


async def _patched(own: Client, patch_of: Callable[[ApiNode], Body]) -> ApiNode:
    """The Node after a patch of its newest version: the cluster's controllers write a new Node too."""
    async with asyncio.timeout(30):
        while True:
            node = parse_node(await own.get(NODES, None, "a-node"))
            try:
                return parse_node(await own.patch(NODES, None, "a-node", patch_of(node), "merge"))
            except ConflictError:
                continue


async def test_the_api_server_holds_requests_and_the_provisioner_to_their_limits(
    kubeconfig: Path, client: Client, namespace: str
) -> None:
    spec: dict[str, Any] = {
        "accelerator": "tpu-v6e-slice",
        "topology": "2x4",
        "chipsPerPod": 4,
        "set": {"name": "one"},
    }
    body = {"apiVersion": SLICE_REQUESTS.api_version, "kind": "SliceRequest", "metadata": {"name": "one"}}
    await client.create(SLICE_REQUESTS, namespace, {**body, "spec": spec})
    with pytest.raises(InvalidError, match="the spec cannot be changed"):
        await client.patch(SLICE_REQUESTS, namespace, "one", {"spec": {"topology": "4x4"}}, "merge")
    wrong = {**body, "metadata": {"name": "two"}, "spec": {**spec, "chipsPerPod": 99}}
    with pytest.raises(InvalidError, match="chipsPerPod"):
        await client.create(SLICE_REQUESTS, namespace, wrong)

    taint = {"key": NOT_READY_TO_FILL.key, "value": "true", "effect": "NoSchedule"}
    node = {"metadata": {"name": "a-node", "labels": {"team": "a"}}, "spec": {"taints": [taint]}}
    await client.create(NODES, None, node)
    own = await Client.connect(kubeconfig)

    async def is_held() -> bool:
        try:
            await own.patch(
                NODES, None, "a-node", {"metadata": {"labels": {"team": "b"}}}, "merge", dry_run=True
            )
        except ApiError as error:
            return "writes its own labels on Nodes, and no others" in str(error)
        return False

    try:
        await until(is_held)
        closed = await _patched(own, lambda node: close_patch(node, "a-uid", 1.0))
        assert closed.unschedulable
        assert {one.key for one in closed.taints} & KEEPING_OUT == {NOT_READY.key}
        labels = {"accelet.dev/slice": "one", "accelet.dev/slice-set": "one"}
        opened = await _patched(own, lambda node: open_patch(node, labels, None))
        assert not opened.unschedulable
        assert not {one.key for one in opened.taints} & KEEPING_OUT
        assert labels.items() <= opened.labels.items()
        foreign = {"spec": {"taints": [{"key": "mine", "effect": "NoExecute"}]}}
        with pytest.raises(ApiError, match="sets and lifts the taints of slices"):
            await own.patch(NODES, None, "a-node", foreign, "merge")
    finally:
        own.close()
        await client.delete(NODES, None, "a-node")


async def test_rights_for_simulated_pools_reach_nothing_else(kubeconfig: Path, client: Client) -> None:
    own = await Client.connect(kubeconfig)
    nobody = "the provisioner writes Nodes, ConfigMaps and leases of simulated pools, and no others"
    lease = {"metadata": {"name": "real"}, "spec": {"holderIdentity": "real"}}
    await client.create(NODES, None, {"metadata": {"name": "real"}})
    await client.create(CONFIG_MAPS, "kube-system", {"metadata": {"name": "others"}, "data": {"a": "b"}})
    await client.create(LEASES, "kube-node-lease", lease)
    marked = {"metadata": {"labels": {POOL_LABEL: "true"}}}

    async def is_held() -> bool:
        try:
            await own.create(NODES, None, {"metadata": {"name": "another"}}, dry_run=True)
        except ApiError as error:
            return nobody in str(error)
        return False

    try:
        await until(is_held)
        with pytest.raises(ApiError, match=nobody):
            await own.delete(NODES, None, "real")
        with pytest.raises(ApiError, match=nobody):
            await own.patch(NODES, None, "real", {"status": {"phase": "a"}}, "merge", subresource="status")
        with pytest.raises(ApiError, match=nobody):
            await own.patch(NODES, None, "real", marked, "merge", subresource="status")
        with pytest.raises(ApiError, match="writes its own labels on Nodes, and no others"):
            await own.patch(NODES, None, "real", marked, "merge")
        with pytest.raises(ApiError, match=nobody):
            await own.create(CONFIG_MAPS, "kube-system", {"metadata": {"name": "mine"}})
        with pytest.raises(ApiError, match=nobody):
            await own.patch(CONFIG_MAPS, "kube-system", "others", {"data": {"a": "c"}, **marked}, "merge")
        with pytest.raises(ApiError, match=nobody):
            await own.delete(CONFIG_MAPS, "kube-system", "others")
        with pytest.raises(ApiError, match=nobody):
            await own.patch(LEASES, "kube-node-lease", "real", {"spec": {"holderIdentity": "a"}}, "merge")
    finally:
        own.close()
        await client.delete(NODES, None, "real")
        await client.delete(CONFIG_MAPS, "kube-system", "others")
        await client.delete(LEASES, "kube-node-lease", "real")
