"""A task in the queue of Kueue's own controller: held for its quota, let go, taken back; `make e2e-kueue`."""

# ruff: noqa: F811 - fixtures of other modules

import asyncio
import json
import sys
import time
from asyncio.subprocess import PIPE
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from accelet.kinds.gputask import GPU_TASKS
from accelet.kube.client import Client
from tests.e2e.admission_check import run  # noqa: F401 - fixture
from tests.e2e.cluster.binaries import Binaries
from tests.e2e.cluster.building import Progress
from tests.e2e.cluster.control_plane import ControlPlane
from tests.e2e.slices.kueue import WORKLOADS, kueue, make_plain_queue
from tests.e2e.tasks import scene
from tests.e2e.tasks.scene import scheduler_words  # noqa: F401 - fixture
from tests.e2e.tasks.standin import StandInKubelets
from tests.e2e.tasks.waiting import status_of, until
from tests.e2e.test_scheduler import _LABELS, GPU
from tests.e2e.test_tasks import client, controller_words, kubeconfig, make_task, running  # noqa: F401

_BLOCK = _LABELS[0]
_QUOTA = {GPU: "24", "cpu": "100", "memory": "100Gi"}
_ACCELET = Path(sys.executable).with_name("accelet")


def _task(name: str, ranks: int, queue: str) -> dict[str, Any]:
    """Ranks that take a node each."""
    failure = {"restart": "All", "retries": 1}
    cards = {"resource": GPU, "cards": 8}
    return make_task(name, replicas=ranks, cards=cards, queue=queue, onFailure=failure)


async def _why(cluster: ControlPlane, namespace: str, name: str) -> list[str]:
    words = ["task", "why", "--kubeconfig", str(cluster.kubeconfig), "-n", namespace, name]
    process = await asyncio.create_subprocess_exec(_ACCELET, *words, stdout=PIPE, stderr=PIPE)
    out, problem = await process.communicate()
    assert process.returncode == 0, problem.decode()
    return out.decode().splitlines()


async def _switch(client: Client, namespace: str, job: str, *, active: bool) -> None:
    """Has Kueue take back what it let go, or let it go again."""
    page = await client.list_page(WORKLOADS, namespace)
    found = [json.loads(bytes(item))["metadata"] for item in page.items]
    (name,) = (one["name"] for one in found if one["ownerReferences"][0]["name"] == job)
    await client.patch(WORKLOADS, namespace, name, {"spec": {"active": active}}, "merge")


def _events(file: Path, name: str) -> list[dict[str, Any]]:
    """The versions of an object that a watch has shown."""
    read = (json.loads(line)["object"] for line in file.read_text().splitlines())
    return [one for one in read if one["metadata"].get("name") == name]


def _suspended(file: Path, job: str) -> list[bool]:
    """What a Job's `suspend` was, one after the other."""
    return [said for said, _ in groupby(one["spec"]["suspend"] for one in _events(file, job))]


@pytest.mark.timeout(900)
async def test_kueue_holds_a_task_for_its_quota_lets_it_go_and_nobody_fights_over_its_job(
    *,
    cluster: ControlPlane,
    client: Client,
    binaries: Binaries,
    kueue_binaries: Binaries,
    kubeconfig: Path,
    scheduler_words: Sequence[str],
    run: str,
    tmp_path: Path,
    say: Progress,
) -> None:
    began_s = time.monotonic()
    kubelets = StandInKubelets(cluster, client, run)

    async def is_in(name: str, phase: str, attempt: int = 1) -> bool:
        status = await status_of(client, run, name)
        return (status.get("phase"), status.get("attempt")) == (phase, attempt)

    async def runs_nothing() -> bool:
        phases = [pod["status"].get("phase", "Pending") for pod in await kubelets.pods("train")]
        return not {"Pending", "Running"} & {*phases}

    jobs, tasks = tmp_path / "jobs.watch", tmp_path / "tasks.watch"
    async with (
        kueue(cluster, client, kueue_binaries, tmp_path),
        scene._watching(cluster, binaries, f"/apis/batch/v1/namespaces/{run}/jobs?watch=1", jobs),
        scene._watching(cluster, binaries, f"{GPU_TASKS.path(run)}?watch=1", tasks),
        kubelets.running(),
        running(tmp_path, *scheduler_words),
        running(tmp_path, *controller_words(kubeconfig, tmp_path)) as controller,
    ):
        await make_plain_queue(client, run, run, quota=_QUOTA, node_labels={_BLOCK: run})
        await client.create(GPU_TASKS, run, _task("holder", 3, run))
        await until("the first has the quota", lambda: is_in("holder", "Running"))

        await client.create(GPU_TASKS, run, _task("train", 2, run))

        async def says(text: str) -> bool:
            return any(text in line for line in await _why(cluster, run, "train"))

        need = f"insufficient unused quota for {GPU} in flavor {run}, 16 more needed"
        await until("Kueue's sentence is told", lambda: says(need))
        assert await _why(cluster, run, "train") == [
            f"{run}/train  Queued",
            "  its Job is made",
            f"  not yet: it may have pods  Queued: waits in the queue {run}",
            f"  Kueue: it has no quota: couldn't assign flavors to pod set main: {need}",
        ]
        assert await kubelets.pods("train") == []
        assert _suspended(jobs, "train-1") == [True]

        await kubelets.end("holder", 0)
        await until("the quota is given back", lambda: is_in("holder", "Completed"))
        await until("it is let go", lambda: is_in("train", "Running"))
        pods = await kubelets.pods("train")
        assert {pod["spec"]["nodeSelector"][_BLOCK] for pod in pods} == {run}, "those of Kueue's flavor"
        assert len({pod["spec"]["nodeName"] for pod in pods}) == 2
        assert (await _why(cluster, run, "train"))[:4] == [
            f"{run}/train  Running",
            "  its Job is made",
            "  it may have pods",
            "  every rank has a node",
        ]

        await kubelets.end("train", 3, frozenset({1}))
        await until("the next attempt has its quota", lambda: is_in("train", "Running", 2))

        await _switch(client, run, "train-2", active=False)
        await until("Kueue takes it back", lambda: is_in("train", "Queued", 2))
        await until("its pods have ended", runs_nothing)
        await until(
            "that is told", lambda: says("Kueue: its Workload is not active: The workload is deactivated")
        )
        await _switch(client, run, "train-2", active=True)
        await until("it is let go again", lambda: is_in("train", "Running", 2))
        await kubelets.end("train", 0)
        await until("it ends", lambda: is_in("train", "Completed", 2))
        status = await status_of(client, run, "train")
        assert controller.returncode is None

    assert (status["incidents"], status.get("disruptions", 0)) == (1, 0)
    assert _suspended(jobs, "holder-1") == _suspended(jobs, "train-1") == [True, False]
    assert _suspended(jobs, "train-2") == [True, False, True, False]
    generations = [_events(jobs, job)[-1]["metadata"]["generation"] for job in ("train-1", "train-2")]
    written = len(_events(tasks, "train"))
    say(
        f"Kueue, 2 tasks and 3 Jobs in {time.monotonic() - began_s:.0f} s: of train-1 and train-2 the spec "
        f"was written {generations} times, of the task {written} versions were seen"
    )
    assert written < 60
    assert b"Traceback" not in (tmp_path / "task-controller.log").read_bytes()
