"""Tasks that go to other nodes: nearer to each other, and from one that is drained. Kubelets are played.

API server, Job controller and kube-scheduler are real. Named so that `make e2e` does not collect it:
`make e2e-tasks`.
"""

# ruff: noqa: F811 - fixtures of other modules

import asyncio
import json
import time
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest

from accelet.kinds.gputask import GPU_TASKS
from accelet.kinds.move import HOLDS, MOVES
from accelet.kube.apiresources import JOBS, NODES, ApiResource
from accelet.kube.client import Client
from accelet.scheduler.moves.finding.relocating import DRAIN
from tests.e2e import test_scheduler as site
from tests.e2e.cluster.binaries import Binaries
from tests.e2e.cluster.building import Progress
from tests.e2e.cluster.control_plane import ControlPlane
from tests.e2e.tasks import scene
from tests.e2e.tasks.standin import StandInKubelets
from tests.e2e.tasks.waiting import status_of, until
from tests.e2e.test_tasks import (  # noqa: F401 - fixtures
    client,
    controller_words,
    kubeconfig,
    make_task,
    namespace,
    running,
    user,
)
from tests.e2e.test_tasks_moves import proposing  # noqa: F401 - fixture

_SAVE_S = 120
_GPUS = 8


class World:
    """Nodes of 8 GPUs that are well, in a namespace where a scheduler that proposes moves is at work."""

    def __init__(self, client: Client, namespace: str, kubelets: StandInKubelets, folder: Path) -> None:
        self.client, self.namespace, self.kubelets, self.folder = client, namespace, kubelets, folder
        self.nodes: list[str] = []

    async def add_node(self, name: str, *place: str) -> str:
        """A node at this block, sub-block and host, all of them of this test alone; its whole name."""
        whole = f"{name}-{self.namespace}"
        await site._make_node(self.client, whole, [f"{part}-{self.namespace}" for part in place])
        self.nodes.append(whole)

        async def is_open() -> bool:
            return not json.loads(await self.client.get(NODES, None, whole))["spec"].get("taints")

        await until(f"{whole} is open", is_open)
        return whole

    async def submit(self, name: str, ranks: int, gpus: int, policy: str) -> None:
        move = {"policy": policy, "minRunSeconds": 0, "saveSeconds": _SAVE_S}
        cards = {"resource": site.GPU, "cards": gpus}
        task = make_task(name, replicas=ranks, cards=cards, move=move)
        await self.client.create(GPU_TASKS, self.namespace, task)

    async def status(self, name: str) -> dict[str, Any]:
        return await status_of(self.client, self.namespace, name)

    async def all_run(self, *names: str) -> bool:
        return all([(await self.status(name)).get("phase") == "Running" for name in names])

    async def on(self, task: str) -> list[str]:
        """The nodes of a task's pods, by rank."""
        pods = await self.kubelets.pods(task)
        index = "batch.kubernetes.io/job-completion-index"
        ranked = sorted(pods, key=lambda pod: int(pod["metadata"]["annotations"][index]))
        return [pod["spec"].get("nodeName", "") for pod in ranked]

    async def moves(self) -> Counter[tuple[str, str, str]]:
        """How many Moves there are: what for, how far, and why."""
        found = await self._objects(MOVES)
        said = [(one["spec"]["gain"]["kind"], one.get("status") or {}) for one in found]
        return Counter((kind, one.get("phase", "Proposed"), one.get("reason", "")) for kind, one in said)

    async def judge_jobs(self) -> None:
        """Nobody's retries were used, and nobody was left suspended."""
        for job in await self._objects(JOBS):
            assert (job["spec"]["suspend"], job["status"].get("failed", 0)) == (False, 0)
        for task in await self._objects(GPU_TASKS):
            status = task["status"]
            counted = status["attempt"], status.get("incidents", 0), status.get("disruptions", 0)
            assert counted == (1, 0, 0), task

    def watched(self, name: str) -> list[dict[str, Any]]:
        """What a watch has shown, one version after the other."""
        lines = (self.folder / f"{name}.watch").read_text().splitlines()
        return [json.loads(line)["object"] for line in lines]

    async def _objects(self, resource: ApiResource) -> list[dict[str, Any]]:
        page = await self.client.list_page(resource, self.namespace)
        return [json.loads(bytes(item)) for item in page.items]


@pytest.fixture
async def world(
    *,
    cluster: ControlPlane,
    client: Client,
    binaries: Binaries,
    namespace: str,
    kubeconfig: Path,
    proposing: Sequence[str],
    tmp_path: Path,
) -> AsyncIterator[World]:
    kubelets = StandInKubelets(cluster, client, namespace)
    world = World(client, namespace, kubelets, tmp_path)
    beating = asyncio.create_task(site._beat(client, world.nodes))
    places = {
        "jobs": f"/apis/batch/v1/namespaces/{namespace}/jobs?watch=1",
        "moves": f"{MOVES.path(namespace)}?watch=1",
    }
    async with AsyncExitStack() as stack:
        for name, path in places.items():
            await stack.enter_async_context(
                scene._watching(cluster, binaries, path, tmp_path / f"{name}.watch")
            )
        await stack.enter_async_context(kubelets.running())
        await stack.enter_async_context(running(tmp_path, *proposing))
        await stack.enter_async_context(running(tmp_path, *controller_words(kubeconfig, tmp_path)))
        yield world
    beating.cancel()
    await asyncio.gather(beating, return_exceptions=True)
    await asyncio.gather(*(client.delete(NODES, None, name) for name in world.nodes))
    for log in ("scheduler.log", "task-controller.log"):
        assert b"Traceback" not in (tmp_path / log).read_bytes()


@pytest.mark.timeout(600)
async def test_ranks_that_are_far_from_each_other_save_and_come_together_once_there_is_room(
    world: World, say: Progress
) -> None:
    far = [await world.add_node("a", "b0", "s0", "h0"), await world.add_node("b", "b1", "s1", "h1")]
    await world.submit("train", 2, _GPUS, "WhenItHelps")
    await until("both ranks run", lambda: world.all_run("train"))
    before = {pod["metadata"]["uid"] for pod in await world.kubelets.pods("train")}
    assert sorted(await world.on("train")) == far

    began_s = time.monotonic()
    near = await world.add_node("c", "b0", "s0", "h2")
    await until("it is moved", lambda: _is(world, {("Nearer", "Done", "Arrived"): 1}))
    await until("it runs again", lambda: world.all_run("train"))
    say(f"from the new node to ranks that run beside each other: {time.monotonic() - began_s:.0f} s")

    assert sorted(await world.on("train")) == sorted([far[0], near])
    assert world.kubelets.saved.keys() == before, "each program was asked, and had saved before it ended"
    (leaving,) = {
        one["reason"]
        for move in world.watched("moves")
        for one in (move.get("status") or {}).get("conditions", ())
        if one["type"] == "Leaving"
    }
    assert leaving == "Saved"
    suspended = [said for said, _ in groupby(one["spec"]["suspend"] for one in world.watched("jobs"))]
    assert suspended == [False, True, False]
    await world.judge_jobs()


@pytest.mark.timeout(600)
async def test_a_node_that_is_drained_is_left_by_all_who_may_be_moved_one_after_the_other(
    world: World, say: Progress
) -> None:
    drained = await world.add_node("a", "b0", "s0", "h0")
    movers = [f"t{number}" for number in range(_GPUS - 1)]
    for name in movers:
        await world.submit(name, 1, 1, "WhenItHelps")
    await world.submit("stays", 1, 1, "Never")
    await until("the node is full", lambda: world.all_run(*movers, "stays"))
    other = await world.add_node("b", "b0", "s0", "h1")

    began_s = time.monotonic()
    said = {"metadata": {"annotations": {DRAIN: "true"}}}
    await world.client.patch(NODES, None, drained, said, "merge")
    arrived = {("Drain", "Done", "Arrived"): len(movers)}
    await until("all have left", lambda: _is(world, arrived), 400)
    await until("all run again", lambda: world.all_run(*movers, "stays"))
    say(f"{len(movers)} tasks had left a drained node after {time.monotonic() - began_s:.0f} s")

    assert [await world.on(name) for name in movers] == [[other]] * len(movers)
    assert await world.on("stays") == [drained], "who may not be moved stays"
    assert len(world.kubelets.saved) == len(movers)
    phases: dict[str, str] = {}
    for move in world.watched("moves"):
        phases[move["metadata"]["name"]] = (move.get("status") or {}).get("phase", "Proposed")
        assert sum(phase in HOLDS for phase in phases.values()) <= 1, phases
    await world.judge_jobs()


async def _is(world: World, wanted: dict[tuple[str, str, str], int]) -> bool:
    return await world.moves() == wanted
