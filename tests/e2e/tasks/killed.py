"""Thirty tasks on a real kubelet, controller and scheduler killed thirty times each: `make e2e-tasks`.

Named so that `make e2e` does not collect it. ACCELET_TASKS_SHARE makes it smaller.
"""

# ruff: noqa: F811 - fixtures of other modules

import asyncio
import json
import os
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest

from accelet.kinds.gputask import GPU_TASKS
from accelet.kube.apiresources import JOBS, PODS, SERVICES, eviction_of
from accelet.kube.errors import ApiError
from accelet.runtime.tasks import task_group
from tests.e2e.cluster.building import Progress
from tests.e2e.cluster.node_namespace import NodeProcess
from tests.e2e.tasks.killing import Killer
from tests.e2e.tasks.oracle import judge, read_runs
from tests.e2e.tasks.programs import EVICTED, RECORD, draw_tasks, sort_of
from tests.e2e.tasks.scene import Scene, scene, scheduler_words  # noqa: F401 - fixtures
from tests.e2e.test_sharing import agent, config  # noqa: F401 - fixtures
from tests.e2e.test_tasks import (  # noqa: F401 - fixtures
    client,
    controller_words,
    kubeconfig,
    make_task,
    namespace,
    user,
)

SHARE = float(os.environ.get("ACCELET_TASKS_SHARE", "1"))
KILLS = round(30 * SHARE)
SEED = int(os.environ.get("ACCELET_TASKS_SEED", "16"))
WITHIN_S = 900.0
ARRIVES_S = 6.0


async def _make_foreign(scene: Scene, task: str) -> None:
    """Objects of names and labels as of tasks that are nobody's, and tasks in whose way they are."""
    pod = {"restartPolicy": "Never", "containers": [{"name": "main", "image": "none"}]}
    job = {"metadata": {"name": "taken-1"}, "spec": {"suspend": True, "template": {"spec": pod}}}
    await scene.user.create(JOBS, scene.namespace, job)
    service = {"metadata": {"name": "serves"}, "spec": {"clusterIP": "None", "selector": {"a": "b"}}}
    await scene.user.create(SERVICES, scene.namespace, service)
    labels = {"accelet.dev/task": task, "accelet.dev/task-uid": "nobody", "accelet.dev/attempt": "1"}
    held = {**pod, "schedulingGates": [{"name": "example.com/held"}]}
    stray = {"metadata": {"name": "stray", "labels": labels}, "spec": held}
    await scene.user.create(PODS, scene.namespace, stray)
    for name, ranks in (("taken", 1), ("serves", 2)):
        await scene.user.create(GPU_TASKS, scene.namespace, make_task(name, replicas=ranks))


async def _foreign(scene: Scene) -> list[dict[str, Any]]:
    """Those objects, with all that anybody wrote to them."""
    named = ((JOBS, "taken-1"), (SERVICES, "serves"), (PODS, "stray"))
    return [json.loads(await scene.user.get(resource, scene.namespace, name)) for resource, name in named]


async def _evict_when_whole(scene: Scene) -> None:
    """Has one rank of each task that saves evicted, once all of its ranks run."""
    evicted: set[str] = set()
    while True:
        page = await scene.client.list_page(PODS, scene.namespace, {"labelSelector": "accelet.dev/task"})
        pods = [json.loads(bytes(item)) for item in page.items]
        for name, status in (await scene.statuses()).items():
            if name in ("taken", "serves") or not sort_of(name).is_evicted or name in evicted:
                continue
            own = [pod for pod in pods if pod["metadata"]["labels"]["accelet.dev/task"] == name]
            runs = [pod["metadata"]["name"] for pod in own if _is_ready(pod)]
            if runs and len(runs) == status.get("replicas") and await _evict(scene, name, min(runs)):
                evicted.add(name)
        await asyncio.sleep(0.3)


def _is_ready(pod: Mapping[str, Any]) -> bool:
    conditions = pod["status"].get("conditions") or ()
    is_ready = any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)
    return is_ready and "deletionTimestamp" not in pod["metadata"]


async def _evict(scene: Scene, task: str, pod: str) -> bool:
    """Whether the API server took it. What the task is told by the file holds for the next attempt."""
    told = scene.record / f"{EVICTED}-{task}"
    told.touch()
    body = {"metadata": {"name": pod}}
    try:
        await scene.client.create(eviction_of(pod), scene.namespace, body)
    except ApiError:
        told.unlink()
        return False
    return True


async def _wait_until_over(scene: Scene, tasks: Mapping[str, Any], killers: Sequence[Killer]) -> None:
    async def open_tasks() -> dict[str, Any]:
        found = await scene.statuses()
        return {
            name: found[name] for name in tasks if found[name].get("phase") not in ("Completed", "Failed")
        }

    try:
        async with asyncio.timeout(WITHIN_S):
            while await open_tasks() or any(one.kills < KILLS for one in killers):  # noqa: ASYNC110
                await asyncio.sleep(0.5)
    except TimeoutError:
        late = {name: (one.get("phase"), one.get("why")) for name, one in (await open_tasks()).items()}
        raise AssertionError([[one.kills for one in killers], late]) from None


@pytest.mark.timeout(1300)
async def test_every_task_ends_as_its_program_says_whoever_is_killed(  # noqa: PLR0917 - fixtures
    agent: NodeProcess,
    scene: Scene,
    kubeconfig: Path,
    scheduler_words: Sequence[str],
    say: Progress,
    tmp_path: Path,
) -> None:
    chance = Random(SEED)
    tasks = draw_tasks(chance, SHARE)
    controller = controller_words(kubeconfig, tmp_path)
    killers = [
        Killer(words, tmp_path, scene.client, Random(SEED + number), KILLS)
        for number, words in enumerate((controller, scheduler_words), start=1)
    ]
    began_s = time.monotonic()
    await _make_foreign(scene, next(iter(tasks)))
    async with task_group() as group:
        work = [group.create_task(one.run()) for one in killers]
        await _until_foreign_is_told(scene)
        before = await _foreign(scene)
        work.append(group.create_task(_evict_when_whole(scene)))
        for task in tasks.values():
            await scene.user.create(GPU_TASKS, scene.namespace, task)
            await asyncio.sleep(chance.uniform(0, ARRIVES_S))
        await _wait_until_over(scene, tasks, killers)
        for one in work:
            one.cancel()
    _report(say, began_s, tasks, await scene.statuses(), killers)
    await _judge(scene, tasks)
    assert await _foreign(scene) == before


async def _until_foreign_is_told(scene: Scene) -> None:
    """The Job controller and the task controller have said all that they say of what is in the way."""

    async def is_told() -> bool:
        job, statuses = (await _foreign(scene))[0], await scene.statuses()
        told = ["is not this task's" in statuses.get(name, {}).get("why", "") for name in ("taken", "serves")]
        return bool(job["status"].get("conditions")) and all(told)

    async with asyncio.timeout(90):
        while not await is_told():  # noqa: ASYNC110 - another process
            await asyncio.sleep(0.2)


async def _judge(scene: Scene, tasks: Mapping[str, dict[str, Any]]) -> None:
    runs = read_runs((scene.record / RECORD).read_text())
    statuses, seen = await scene.statuses(), scene.seen()
    wrong = [
        sentence
        for name, task in tasks.items()
        for sentence in judge(
            task, statuses[name], [run for run in runs if run.task == name], seen.attempts[name]
        )
    ]
    assert not wrong + seen.beside
    assert {run.task for run in runs} == set(tasks)


def _report(
    say: Progress,
    began_s: float,
    tasks: Mapping[str, Any],
    statuses: Mapping[str, Mapping[str, Any]],
    killers: Sequence[Killer],
) -> None:
    counted = Counter[str]()
    for name in tasks:
        counted.update({key: statuses[name].get(key, 0) for key in ("attempt", "incidents", "disruptions")})
    ranks = sum(task["spec"]["replicas"] for task in tasks.values())
    kills = ", ".join(
        f"{one.words[0]} {one.kills} times after leading {sum(one.led) / max(1, len(one.led)):.1f} s"
        for one in killers
    )
    say(
        f"{len(tasks)} tasks of {ranks} ranks in {time.monotonic() - began_s:.0f} s: "
        f"{counted['attempt']} attempts, {counted['incidents']} incidents, "
        f"{counted['disruptions']} disruptions; killed {kills}"
    )
