"""Exclusive placement of gated gangs, by the controllers that make pods once their leader has a node.

Named so that `make e2e` does not collect it: `make e2e-provisioner`. Those of JobSet
and LeaderWorkerSet are the real ones, with their webhooks. kube-scheduler binds; nothing runs on the nodes.
"""

# ruff: noqa: F811 - fixtures of other modules

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from accelet.kinds.waiting import WAITING_ANNOTATION
from accelet.kube.apiresources import JOBS, PODS, ApiResource
from accelet.kube.client import Client
from accelet.kube.errors import ApiError
from accelet.kube.podparser import parse_pod
from accelet.kube.pods import Pod
from accelet.provisioner.watching import JOB_SETS
from accelet.scheduler.cluster.topology import Scheme
from accelet.scheduler.gangs.grouping import GATE_PREFIX
from accelet.scheduler.gangs.withheld import JOB_SET_EXCLUSIVE
from accelet.scheduler.gangs.workload import LEADER_WORKER_EXCLUSIVE
from tests.e2e.cluster.binaries import Binaries
from tests.e2e.cluster.control_plane import ControlPlane
from tests.e2e.slices.jobset import controller
from tests.e2e.slices.kueue import CRDS, define, module_folder
from tests.e2e.slices.webhooks import Webhooks, applied, write_certificate
from tests.e2e.slices.world import is_served
from tests.e2e.test_scheduler import (  # noqa: F401 - fixtures
    GPU,
    Where,
    client,
    gang_job,
    kubeconfig,
    log,
    namespace,
    nodes,
    running_scheduler,
    until,
)
from tests.free_ports import free_port

LABEL = Scheme().label_sets[0][1]
"""Of sub-blocks, of which there are ten of five nodes of eight GPUs."""

LEADER_WORKER_SETS = ApiResource("LeaderWorkerSet", "leaderworkersets", "leaderworkerset.x-k8s.io")

pytestmark = pytest.mark.timeout(600)


def _pod_spec(gate: str, gpus: int, **fields: Any) -> dict[str, Any]:
    resources = {"limits": {GPU: str(gpus), "cpu": "100m"}}
    container = {"name": "main", "image": "none", "resources": resources}
    return {"schedulingGates": [{"name": f"{GATE_PREFIX}{gate}"}], "containers": [container], **fields}


def _job_set(name: str, jobs: int, pods: int, gpus: int) -> dict[str, Any]:
    template = {"spec": _pod_spec(name, gpus, restartPolicy="Never")}
    spec = {
        "parallelism": pods,
        "completions": pods,
        "completionMode": "Indexed",
        "backoffLimit": 6,
        "template": template,
    }
    return {
        "apiVersion": JOB_SETS.api_version,
        "kind": "JobSet",
        "metadata": {"name": name, "annotations": {JOB_SET_EXCLUSIVE: LABEL}},
        "spec": {"replicatedJobs": [{"name": "w", "replicas": jobs, "template": {"spec": spec}}]},
    }


def _leader_worker_set(name: str, groups: int, size: int) -> dict[str, Any]:
    """Leaders ask for one GPU, workers for all eight of a node: only their own template tells."""
    return {
        "apiVersion": LEADER_WORKER_SETS.api_version,
        "kind": "LeaderWorkerSet",
        "metadata": {"name": name, "annotations": {LEADER_WORKER_EXCLUSIVE: LABEL}},
        "spec": {
            "replicas": groups,
            "leaderWorkerTemplate": {
                "size": size,
                "leaderTemplate": {"spec": _pod_spec(name, 1)},
                "workerTemplate": {"spec": _pod_spec(name, 8)},
            },
        },
    }


@asynccontextmanager
async def _leader_worker_controller(
    cluster: ControlPlane, client: Client, binaries: Binaries, folder: Path
) -> AsyncIterator[None]:
    """Defines LeaderWorkerSets and runs their controller with its webhooks; the kind is gone afterwards."""
    module = await asyncio.to_thread(module_folder, "leaderworkerset", "sigs.k8s.io/lws")
    await define(client, [module / "config/crd/bases/leaderworkerset.x-k8s.io_leaderworkersets.yaml"])
    await until(partial(is_served, client, LEADER_WORKER_SETS))
    port, certificates = free_port(), folder / "lws"
    write_certificate(cluster, "lws", certificates)
    words = [
        f"--kubeconfig={cluster.kubeconfig}",
        f"--webhook-port={port}",
        f"--webhook-cert-dir={certificates}",
    ]
    with (folder / "lws.log").open("wb") as out:
        process = await asyncio.create_subprocess_exec(
            binaries.path("leaderworkerset"), *words, stdout=out, stderr=out
        )
    async with AsyncExitStack() as stack:
        stack.push_async_callback(process.wait)
        stack.callback(process.terminate)
        manifests = module / "config/webhook/manifests.yaml"
        served = Webhooks("lws", manifests, {"leaderworkersets", "pods"})
        await stack.enter_async_context(applied(cluster, client, served, port))
        yield
        assert process.returncode is None, (folder / "lws.log").read_text()[-2000:]
    await client.delete(CRDS, None, f"{LEADER_WORKER_SETS.plural}.{LEADER_WORKER_SETS.group}")


async def _insist(create: Callable[[], Awaitable[object]]) -> None:
    """Until webhooks that have just been set up answer."""

    async def is_made() -> bool:
        try:
            await create()
        except ApiError as error:
            if "failed calling webhook" not in str(error):
                raise
            return False
        return True

    await until(is_made)


async def _pods(client: Client, namespace: str) -> list[Pod]:
    return [parse_pod(raw) for raw in (await client.list_page(PODS, namespace)).items]


async def _are_bound(client: Client, namespace: str, count: int) -> bool:
    pods = await _pods(client, namespace)
    return len(pods) == count and all(pod.node_name for pod in pods)


def _domains(pods: list[Pod], nodes: Where, label: str) -> dict[str, set[str]]:
    """The sub-blocks of each Job, or group, by what its pods have for this label."""
    found: defaultdict[str, set[str]] = defaultdict(set)
    for pod in pods:
        found[pod.labels.get(label, "")].add(nodes[pod.node_name or ""][1])
    return found


async def test_each_job_of_a_job_set_has_a_sub_block_alone_through_a_change_of_leaders(
    cluster: ControlPlane,
    client: Client,
    kubeconfig: Path,
    nodes: Where,
    namespace: str,
    *,
    jobset_binaries: Binaries,
    log: Path,
    tmp_path: Path,
) -> None:
    """Four Jobs of ten pods of four GPUs fill four of ten sub-blocks; a gang that comes between gets none.

    The scheduler is killed once the leaders are on nodes, while the other 36 pods are being made.
    """
    async with controller(cluster, client, jobset_binaries, tmp_path, has_webhooks=True):

        async def leads() -> bool:
            pods = await _pods(client, namespace)
            return sum(pod.node_name is not None for pod in pods) >= 2

        async with running_scheduler(kubeconfig, log) as first:
            for name in ("one", "two"):
                await client.create(JOB_SETS, namespace, _job_set(name, jobs=2, pods=10, gpus=4))
            await until(leads)
            first.kill()
            await first.wait()
        await client.create(JOBS, namespace, gang_job("between", 6, 8))
        async with running_scheduler(kubeconfig, log):
            await until(lambda: _are_bound(client, namespace, 46), 180)
            pods = await _pods(client, namespace)
            domains = _domains(pods, nodes, "jobset.sigs.k8s.io/job-key")
            between = domains.pop("")
            assert [len(used) for used in domains.values()] == [1] * 4, domains
            alone = set().union(*domains.values())
            assert len(alone) == 4
            assert not between & alone

            leader = next(pod for pod in pods if pod.name.startswith("one-w-0-0-"))
            status = {"status": {"phase": "Failed"}}
            await client.patch(PODS, namespace, leader.name, status, "strategic", subresource="status")

            async def is_replaced() -> bool:
                found = [pod for pod in await _pods(client, namespace) if pod.name.startswith("one-w-0-0-")]
                return any(pod.uid != leader.uid and pod.node_name for pod in found)

            await until(is_replaced, 120)
            again = _domains(
                [pod for pod in await _pods(client, namespace) if not pod.is_terminal],
                nodes,
                "jobset.sigs.k8s.io/job-key",
            )
            again.pop("")
            assert again == domains, "a leader that is made anew joins the pods that are there"
        for name in ("one", "two"):
            await client.delete(JOB_SETS, namespace, name)


async def test_each_group_has_a_sub_block_alone_with_room_for_its_workers(
    cluster: ControlPlane,
    client: Client,
    kubeconfig: Path,
    nodes: Where,
    namespace: str,
    *,
    leader_worker_binaries: Binaries,
    log: Path,
    tmp_path: Path,
) -> None:
    """A group of a leader and four workers needs five nodes, and eight gangs leave two sub-blocks whole."""
    async with (
        _leader_worker_controller(cluster, client, leader_worker_binaries, tmp_path),
        running_scheduler(kubeconfig, log),
    ):
        for number in range(8):
            block, subblock = divmod(number, 5)
            job = gang_job(f"there-{number}", 1, 8)
            place = next(where for where in nodes.values() if where[0].endswith(f"b{block}"))
            selector = dict(zip(Scheme().label_sets[0], (place[0], f"s{block}{subblock}"), strict=False))
            job["spec"]["template"]["spec"]["nodeSelector"] = selector
            await _insist(partial(client.create, JOBS, namespace, job))
        await until(lambda: _are_bound(client, namespace, 8), 120)
        await _insist(
            partial(client.create, LEADER_WORKER_SETS, namespace, _leader_worker_set("serve", 3, 5))
        )
        await until(lambda: _two_run(client, namespace), 180)
        pods = [pod for pod in await _pods(client, namespace) if pod.name.startswith("serve-")]
        bound = [pod for pod in pods if pod.node_name]
        domains = _domains(bound, nodes, "leaderworkerset.sigs.k8s.io/group-index")
        assert sorted(map(sorted, domains.values())) == [["s13"], ["s14"]]
        (waiting,) = [pod for pod in pods if not pod.node_name]
        note = waiting.annotations[WAITING_ANNOTATION]
        assert "group serve-" in note, note
        assert "is to have one" in note, note
        await client.delete(LEADER_WORKER_SETS, namespace, "serve")


async def _two_run(client: Client, namespace: str) -> bool:
    """Whether two groups are bound, and the leader of the third is there and says why it waits."""
    pods = [pod for pod in await _pods(client, namespace) if pod.name.startswith("serve-")]
    waiting = [pod for pod in pods if not pod.node_name]
    is_noted = [pod for pod in waiting if WAITING_ANNOTATION in pod.annotations]
    return len(pods) - len(waiting) == 10 and len(is_noted) == len(waiting) == 1
