"""A JobSet, the provisioner and an API server in this process: what `accelet demo provisioner` shows."""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from accelet.cli.demo_run import DemoError
from accelet.cli.forms.demoforms import ProvisionerReport, ShownWorker
from accelet.fakeapi import FakeApi
from accelet.provisioner.choice import choose_provider
from accelet.provisioner.demand.selectors import ACCELERATOR, NAMESPACED_JOB, TOPOLOGY
from accelet.provisioner.identity.children import job_of_set, pod_of_job, worker_environment
from accelet.provisioner.pools.tiers import SPOT_TAINT
from accelet.provisioner.process import Provisioner, ProvisionerOptions
from accelet.provisioner.settings import ProvisionerSettings, SimulatedCapacity, SimulatedPools

_JOB_SETS: Final = "apis/jobset.x-k8s.io/v1alpha2/jobsets"
_REQUESTS: Final = "apis/accelet.dev/v1alpha1/slicerequests"
_EVENTS: Final = "apis/events.k8s.io/v1/events"
_NODES, _PODS, _POOLS = "api/v1/nodes", "api/v1/pods", "api/v1/configmaps"
_PATIENCE_S: Final = 45.0
_NAMESPACE, _REPLICATED_JOB, _SLICES, _HOSTS = "demo", "workers", 2, 2

JOB_SET: Final[Mapping[str, Any]] = {
    "apiVersion": "jobset.x-k8s.io/v1alpha2",
    "kind": "JobSet",
    "metadata": {"name": "train", "annotations": {"accelet.dev/provision": "true"}},
    "spec": {
        "replicatedJobs": [
            {
                "name": _REPLICATED_JOB,
                "replicas": _SLICES,
                "template": {
                    "spec": {
                        "parallelism": _HOSTS,
                        "completions": _HOSTS,
                        "template": {
                            "spec": {
                                "nodeSelector": {ACCELERATOR: "tpu-v6e-slice", TOPOLOGY: "2x4"},
                                "tolerations": [{"key": SPOT_TAINT, "operator": "Exists"}],
                                "containers": [
                                    {"name": "main", "resources": {"limits": {"google.com/tpu": "4"}}}
                                ],
                            }
                        },
                    }
                },
            }
        ]
    },
}

SETTINGS: Final = ProvisionerSettings(
    version="v1",
    tiers=("spot", "on-demand"),
    poll_s=0.2,
    grace_s=0.2,
    settle_s=0.1,
    lag_s=0.5,
    simulated=SimulatedPools(
        create_s=0.3,
        join_s=0.2,
        delete_s=0.1,
        capacity=(SimulatedCapacity(tier="spot", slices=_SLICES - 1),),
    ),
)
"""Spot machines for one slice of two: the set falls back to the next tier as a whole."""


async def run_demo(folder: Path) -> ProvisionerReport:
    """Runs the demo in `folder`.

    Raises:
        DemoError: the slices did not come, or did not go.
    """
    with FakeApi(bookmark_s=1.0) as api:
        api.state.create("api/v1/namespaces", "", {"metadata": {"name": "kube-system"}})
        options = ProvisionerOptions(api.write_kubeconfig(folder / "kubeconfig"))
        make_provider, pool_label = choose_provider(SETTINGS)
        running = asyncio.create_task(Provisioner(options, SETTINGS, make_provider, pool_label).run())
        watching = asyncio.create_task(_watch(api))
        try:
            await asyncio.wait((running, watching), return_when=asyncio.FIRST_COMPLETED)
            if not watching.done():
                raise DemoError(f"the provisioner ended: {running.exception() or 'without a reason'}")
            return watching.result()
        finally:
            running.cancel()
            watching.cancel()
            await asyncio.gather(running, watching, return_exceptions=True)


async def _watch(api: FakeApi) -> ProvisionerReport:
    began_s = time.monotonic()
    job_set = api.state.create(_JOB_SETS, _NAMESPACE, dict(JOB_SET))
    await _until("the slices did not become ready", lambda: _phases(api) == ["Ready"] * _SLICES)
    ready_s = time.monotonic() - began_s
    tiers = tuple(one["status"]["tier"] for one in _objects(api, _REQUESTS))
    workers = _start_workers(api, job_set)
    ended_s = time.monotonic()
    for worker in workers:
        done = {"status": {"phase": "Succeeded"}}
        api.state.patch(_PODS, (_NAMESPACE, worker.pod), "merge-patch", done)
    completed = {"status": {"conditions": [{"type": "Completed", "status": "True"}]}}
    api.state.patch(_JOB_SETS, (_NAMESPACE, "train"), "merge-patch", completed)
    await _until("the slices were not given back", lambda: _is_clean(api))
    released_s = time.monotonic() - ended_s
    await _until("no Event tells of the stock-out", lambda: "SliceFailed" in _reasons(api))
    events = sorted(_objects(api, _EVENTS), key=lambda one: str(one["eventTime"]))
    told = tuple(dict.fromkeys(f"{one['reason']}: {one['note']}" for one in events))
    return ProvisionerReport(round(ready_s, 2), tiers, told, tuple(workers), round(released_s, 2))


def _start_workers(api: FakeApi, job_set: dict[str, Any]) -> Sequence[ShownWorker]:
    """Puts a pod on each Node of the slice that is bound to its Job."""
    workers: list[ShownWorker] = []
    for index in range(_SLICES):
        job = job_of_set(job_set, _REPLICATED_JOB, index)
        bound = f"{_NAMESPACE}_{job['metadata']['name']}"
        nodes = sorted(
            one["metadata"]["name"]
            for one in _objects(api, _NODES)
            if one["metadata"]["labels"].get(NAMESPACED_JOB) == bound
        )
        if len(nodes) != _HOSTS:
            raise DemoError(f"the slice of {bound} has {len(nodes)} nodes")
        for number, node in enumerate(nodes):
            pod = pod_of_job(job, number)
            told = dict(worker_environment(pod))
            pod["spec"]["nodeName"] = node
            api.state.create(_PODS, _NAMESPACE, pod)
            workers.append(ShownWorker(pod["metadata"]["name"], node, told))
    return workers


def _phases(api: FakeApi) -> list[str]:
    return [(one.get("status") or {}).get("phase", "Pending") for one in _objects(api, _REQUESTS)]


def _reasons(api: FakeApi) -> set[str]:
    return {one["reason"] for one in _objects(api, _EVENTS)}


def _is_clean(api: FakeApi) -> bool:
    return not any(_objects(api, resource) for resource in (_REQUESTS, _NODES, _POOLS))


def _objects(api: FakeApi, resource: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = api.state.list(resource, {}, None)["items"]
    return found


async def _until(problem: str, condition: Callable[[], bool]) -> None:
    try:
        async with asyncio.timeout(_PATIENCE_S):
            while not condition():  # noqa: ASYNC110 - the API server's threads change it
                await asyncio.sleep(0.02)
    except TimeoutError:
        raise DemoError(f"{problem} within {_PATIENCE_S:.0f} s") from None
