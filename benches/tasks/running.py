"""The controller as a process beside an API server, and somebody who plays Job controller and kubelet."""

import asyncio
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from accelet.fakeapi import FakeApi
from benches.agent.processes import Measured

_NAMESPACE = "ml"
_TASKS, _JOBS, _PODS = "apis/accelet.dev/v1alpha1/gputasks", "apis/batch/v1/jobs", "api/v1/pods"
_PATIENCE_S, _SETTLE_S, _PAUSE_S, _STAGE_S = 300.0, 10.0, 0.05, 1.5


@dataclass(frozen=True, slots=True)
class Present:
    """With many tasks there: MiB that are resident, and how soon after a submit its Job was asked for."""

    memory_mib: float
    median_ms: float
    p99_ms: float


async def measure_present(tasks: int, ranks: int, more: int) -> Present:
    """With `tasks` that run, while `more` are submitted."""
    async with _running() as (api, process):
        names = [f"task-{number}" for number in range(tasks)]
        for name in names:
            _submit(api, name, ranks)
        await _until(lambda: len(_items(api, _JOBS)) == tasks)
        _advance(api, names, ranks, "Running")
        await _until(lambda: _phases(api)["Running"] == tasks)
        await asyncio.sleep(_SETTLE_S)
        memory_mib = process.memory().rss_kib / 1024
        submitted: dict[str, float] = {}
        for number in range(more):
            name = f"more-{number}"
            submitted[f"{name}-1"] = time.monotonic()
            _submit(api, name, ranks)
            await asyncio.sleep(_PAUSE_S)
        await _until(lambda: len(_items(api, _JOBS)) == tasks + more)
        asked = [seen for seen in api.seen if seen.method == "POST" and seen.path.endswith("/jobs")]
        made = {seen.body["metadata"]["name"]: seen.at_s for seen in asked}
        took = sorted(made[name] - at_s for name, at_s in submitted.items())
        return Present(memory_mib, 1000 * took[len(took) // 2], 1000 * took[int(len(took) * 0.99)])


async def measure_life(tasks: int, ranks: int) -> tuple[float, int]:
    """Status writes of tasks that wait, start, run and end: of one on average, and at most."""
    async with _running() as (api, _):
        names = [f"task-{number}" for number in range(tasks)]
        for name in names:
            _submit(api, name, ranks)
        await _until(lambda: len(_items(api, _JOBS)) == tasks)
        for stage in ("Gated", "Pending", "Running", "Succeeded"):
            _advance(api, names, ranks, stage)
            await asyncio.sleep(_STAGE_S)
        await _until(lambda: _phases(api)["Completed"] == tasks)
        await asyncio.sleep(_SETTLE_S)  # figures that wait are written after the end
        writes = Counter(
            seen.path for seen in api.seen if seen.method == "PATCH" and "/gputasks/" in seen.path
        )
        return sum(writes.values()) / tasks, max(writes.values())


@asynccontextmanager
async def _running() -> AsyncIterator[tuple[FakeApi, Measured]]:
    with FakeApi(bookmark_s=5.0) as api, tempfile.TemporaryDirectory() as folder:
        api.state.create("api/v1/namespaces", "", {"metadata": {"name": "kube-system"}})
        kubeconfig = api.write_kubeconfig(Path(folder) / "kubeconfig")
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "accelet", "task-controller", "--kubeconfig", str(kubeconfig)),
            stderr=subprocess.DEVNULL,
        )
        try:
            yield api, Measured(process.pid)
        finally:
            process.terminate()
            await process.wait()


def _submit(api: FakeApi, name: str, ranks: int) -> None:
    spec = {"container": {"image": "registry.example.com/train:1"}, "replicas": ranks, "cards": {"tiles": 1}}
    api.state.create(_TASKS, _NAMESPACE, {"metadata": {"name": name, "generation": 1}, "spec": spec})


def _advance(api: FakeApi, names: list[str], ranks: int, stage: str) -> None:
    """All ranks of these tasks come to a stage, and their Jobs say so."""
    for name in names:
        job = api.state.get(_JOBS, (_NAMESPACE, f"{name}-1"))
        for rank in range(ranks):
            _set_pod(api, job, rank, stage)
        is_done = stage == "Succeeded"
        status: dict[str, Any] = {"active": 0 if is_done else ranks}
        if is_done:
            status |= {"succeeded": ranks, "completedIndexes": f"0-{ranks - 1}"}
            status["conditions"] = [{"type": "Complete", "status": "True"}]
        key = _NAMESPACE, job["metadata"]["name"]
        api.state.patch(_JOBS, key, "merge-patch", {"status": status}, subresource="status")


def _set_pod(api: FakeApi, job: dict[str, Any], rank: int, stage: str) -> None:
    """The pod of a rank, made where there is none."""
    name, template = f"{job['metadata']['name']}-{rank}", job["spec"]["template"]
    if (_NAMESPACE, name) not in api.state.collection(_PODS).objects:
        owner = {"apiVersion": "batch/v1", "kind": "Job", "controller": True}
        owner |= {"name": job["metadata"]["name"], "uid": job["metadata"]["uid"]}
        metadata = {
            "name": name,
            "labels": template["metadata"]["labels"],
            "annotations": {"batch.kubernetes.io/job-completion-index": str(rank)},
            "ownerReferences": [owner],
        }
        body = {"metadata": metadata, "spec": template["spec"], "status": {"phase": "Pending"}}
        api.state.create(_PODS, _NAMESPACE, body)
    if stage == "Gated":
        return
    phase = "Succeeded" if stage == "Succeeded" else "Pending" if stage == "Pending" else "Running"
    ready = {"type": "Ready", "status": "True" if stage == "Running" else "False"}
    spec = {"nodeName": f"node-{rank}", "schedulingGates": None}
    patch = {"spec": spec, "status": {"phase": phase, "conditions": [ready]}}
    api.state.patch(_PODS, (_NAMESPACE, name), "merge-patch", patch)


def _items(api: FakeApi, resource: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = api.state.list(resource, {}, None)["items"]
    return found


def _phases(api: FakeApi) -> Counter[str]:
    return Counter((one.get("status") or {}).get("phase", "Pending") for one in _items(api, _TASKS))


async def _until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(_PATIENCE_S):
        while not await asyncio.to_thread(condition):  # noqa: ASYNC110  the server is on other threads
            await asyncio.sleep(0.5)
