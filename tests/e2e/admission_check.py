"""Kueue's own controller asks the scheduler before it lets a Job run; `make e2e-kueue` runs it."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from accelet.kube.apiresources import CONFIG_MAPS, JOBS, NODES, PODS
from accelet.kube.client import Client
from accelet.scheduler.admission.judging import FIRST_RETRY_S, LAST_RETRY_S
from tests.e2e import test_scheduler as site
from tests.e2e.cluster.binaries import Binaries
from tests.e2e.cluster.control_plane import ControlPlane
from tests.e2e.cluster.kubeconfig import Token, write_kubeconfig
from tests.e2e.shipped_kinds import RESOURCES
from tests.e2e.slices.kueue import CHECKS, QUEUE_LABEL, WORKLOADS, kueue, make_placed_queue
from tests.e2e.slices.world import until

_BLOCK = site._LABELS[0]
_DEPLOY = Path(__file__).parents[2] / "deploy"
_QUOTA = {site.GPU: "40", "cpu": "100"}


@pytest.fixture
async def client(cluster: ControlPlane) -> AsyncIterator[Client]:
    client = await Client.connect(Path(cluster.kubeconfig), threads=8)
    yield client
    client.close()


@pytest.fixture
async def run(client: Client) -> AsyncIterator[str]:
    """The name of a block of four open nodes of 8 GPUs in two sub-blocks, and of a namespace."""
    name = f"placed-{time.time_ns():x}"
    places = {f"{name}-{n}": (name, f"s{n // 2}", f"h{n}") for n in range(4)}
    await client.create(site.NAMESPACES, None, {"metadata": {"name": name}})
    for node, place in places.items():
        await site._make_node(client, node, place)
    beating = asyncio.create_task(site._beat(client, list(places)))

    async def are_open() -> bool:
        nodes = [json.loads(await client.get(NODES, None, node)) for node in places]
        return not any(node["spec"].get("taints") for node in nodes)

    await until(are_open)
    yield name
    beating.cancel()
    await asyncio.gather(beating, return_exceptions=True)
    await client.delete(site.NAMESPACES, None, name)
    await asyncio.gather(*(client.delete(NODES, None, node) for node in places))


@pytest.fixture
async def kubeconfig(cluster: ControlPlane, client: Client, tmp_path: Path) -> Path:
    """That of the account, and with no more than the rights, which the two files give."""
    for file in ("scheduler.yaml", "admission.yaml"):
        for manifest in yaml.safe_load_all((_DEPLOY / file).read_text()):
            resource, metadata = RESOURCES[manifest["kind"]], manifest["metadata"]
            is_tried = manifest["kind"] == "Deployment"
            await client.patch(
                resource, metadata.get("namespace"), metadata["name"], manifest, "apply", dry_run=is_tried
            )
    path = "/api/v1/namespaces/kube-system/serviceaccounts/accelet-scheduler/token"
    answer = json.loads(cluster.client.send("POST", path, {"spec": {}}))
    ca, token = cluster.authority.keys.certificate, Token(answer["status"]["token"])
    return write_kubeconfig(tmp_path / "kubeconfig", server=cluster.url, ca=ca, credentials=token)


def _queued(name: str, pods: int, queue: str) -> dict[str, Any]:
    job = site.gang_job(name, pods, 8)
    job["metadata"]["labels"] = {QUEUE_LABEL: queue}
    job["spec"]["suspend"] = True
    return job


async def _workload(client: Client, namespace: str, job: str) -> dict[str, Any]:
    """The Workload of a Job, empty while there is none."""
    page = await client.list_page(WORKLOADS, namespace)
    found = [json.loads(bytes(raw)) for raw in page.items]
    owned = [one for one in found if one["metadata"]["ownerReferences"][0]["name"] == job]
    return dict(owned[0]) if owned else {}


async def _conditions(client: Client, namespace: str, job: str) -> dict[str, str]:
    status = (await _workload(client, namespace, job)).get("status") or {}
    return {one["type"]: one["status"] for one in status.get("conditions") or ()}


async def _check(client: Client, namespace: str, job: str) -> dict[str, Any]:
    status = (await _workload(client, namespace, job)).get("status") or {}
    return dict((status.get("admissionChecks") or [{}])[0])


async def test_kueue_lets_a_job_run_that_has_a_place_and_takes_its_quota_from_one_that_has_none(
    cluster: ControlPlane,
    client: Client,
    kueue_binaries: Binaries,
    kubeconfig: Path,
    run: str,
    *,
    tmp_path: Path,
    say: Any,
) -> None:
    began_s = time.monotonic()
    config, log = tmp_path / "config.yaml", tmp_path / "scheduler.log"
    config.write_text("version: v1\nadmission: {kueue: true}\n")
    async with kueue(cluster, client, kueue_binaries, tmp_path):
        await make_placed_queue(client, run, run, quota=_QUOTA, node_labels={_BLOCK: run})
        # Its queue is inactive while nobody evaluates the check.
        await client.create(JOBS, run, _queued("train", 3, run))

        async def has_quota() -> bool:
            return (await _conditions(client, run, "train")).get("QuotaReserved") == "True"

        async with site.running_scheduler(kubeconfig, log, config):
            await until(has_quota)
            await until(partial(site._is_bound, client, run, "train", 3))
            said = await _check(client, run, "train")
            assert said["state"] == "Ready"
            # How far apart they are depends on which nodes are ready at that moment.
            assert said["message"].startswith("there is a place for 3 pods on 3 nodes, distance ")
            check = json.loads(await client.get(CHECKS, None, run))
            assert [(one["type"], one["status"]) for one in check["status"]["conditions"]] == [
                ("Active", "True")
            ]
            await until(lambda: _has_no_plans(client, run))

            # All quota is taken with this one, but one node is free; that is for who comes after it.
            await client.create(JOBS, run, _queued("large", 2, run))

            async def is_told() -> bool:
                return bool((await _check(client, run, "large")).get("state") == "Retry")

            await until(is_told)
            await client.create(JOBS, run, _queued("small", 1, run))
            await until(partial(site._is_bound, client, run, "small", 1))
            told = await _check(client, run, "large")
            assert int(told["retryCount"]) > 0
            assert FIRST_RETRY_S <= int(told["requeueAfterSeconds"]) <= LAST_RETRY_S
            assert await site._pods(client, run, "large") == []

            # There is no kubelet that would end its pods.
            await client.delete(JOBS, run, "train", propagation="Orphan")
            for pod in await site._pods(client, run, "train"):
                path = PODS.path(run, pod.name)
                await asyncio.to_thread(cluster.client.send, "DELETE", path, {"gracePeriodSeconds": 0})
            await until(partial(site._is_bound, client, run, "large", 2))
            assert (await _check(client, run, "large"))["state"] == "Ready"
    say(f"Kueue and three Jobs: {time.monotonic() - began_s:.0f} s")


async def _has_no_plans(client: Client, namespace: str) -> bool:
    query = {"labelSelector": "accelet.dev/placement-plan=v1"}
    return not (await client.list_page(CONFIG_MAPS, namespace, query)).items
