"""Ranks find each other by what launchers read in their environment; kubelets are played.

`make e2e-tasks` has the same with a real torchrun (`tasks/torchrun.py`).
"""

# ruff: noqa: F811 - fixtures of other modules

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from accelet.kinds.gputask import GPU_TASKS
from accelet.kube.apiresources import NODES
from accelet.kube.client import Client
from tests.e2e import test_scheduler as site
from tests.e2e.cluster.control_plane import ControlPlane
from tests.e2e.tasks import torchrun_standin
from tests.e2e.tasks.processes import ProcessKubelets
from tests.e2e.tasks.waiting import until
from tests.e2e.test_tasks import (  # noqa: F401 - fixtures
    client,
    controller_words,
    kubeconfig,
    make_task,
    namespace,
    running,
    user,
)

_TILES = 2


class Ranks:
    """The ranks of tasks on nodes that have room for one rank each, and what they print."""

    def __init__(self, client: Client, namespace: str, kubelets: ProcessKubelets) -> None:
        self.client, self.namespace, self.kubelets = client, namespace, kubelets
        self.nodes: list[str] = []

    async def add_node(self, name: str) -> None:
        whole = f"{name}-{self.namespace}"
        await site._make_node(self.client, whole, [f"{part}-{whole}" for part in ("b", "s", "h")])
        self.nodes.append(whole)

    async def submit(self, **spec: Any) -> None:
        task = make_task("train", cards={"resource": site.GPU, "cards": _TILES}, **spec)
        program = [sys.executable, str(Path(torchrun_standin.__file__))]
        task["spec"]["container"] |= {"command": program, "cpu": "40"}
        await self.client.create(GPU_TASKS, self.namespace, task)

    async def told(self) -> dict[str, list[dict[str, Any]]]:
        """What each rank has printed, by its host name."""
        pods = await self.kubelets.pods("train")
        begun = {pod["spec"]["hostname"]: pod for pod in pods if self.kubelets.has_begun(pod)}
        return {
            name: [json.loads(line) for line in self.kubelets.log(pod).splitlines()]
            for name, pod in begun.items()
        }

    async def meet(self, nodes: int, ranks: int) -> None:
        """Waits until so many ranks have met last as so many nodes."""

        async def have_met() -> bool:
            last = [said[-1].get("nodes") for said in (await self.told()).values() if said]
            return last == [nodes] * ranks

        try:
            await until(f"{ranks} ranks meet as {nodes} nodes", have_met)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.kubelets.logs()}") from None


@pytest.fixture
async def ranks(
    *, cluster: ControlPlane, client: Client, namespace: str, kubeconfig: Path, tmp_path: Path
) -> AsyncIterator[Ranks]:
    kubelets = ProcessKubelets(cluster, client, namespace, Path("/"), tmp_path, tmp_path / "pods")
    ranks = Ranks(client, namespace, kubelets)
    beating = asyncio.create_task(site._beat(client, ranks.nodes))
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(kubelets.running())
        scheduler = ["scheduler", "--kubeconfig", str(cluster.kubeconfig)]
        await stack.enter_async_context(running(tmp_path, *scheduler))
        await stack.enter_async_context(running(tmp_path, *controller_words(kubeconfig, tmp_path)))
        yield ranks
    beating.cancel()
    await asyncio.gather(beating, return_exceptions=True)
    await asyncio.gather(*(client.delete(NODES, None, name) for name in ranks.nodes))


@pytest.mark.timeout(600)
async def test_an_elastic_task_begins_with_fewer_ranks_and_meets_the_others_when_they_come(
    ranks: Ranks,
) -> None:
    await ranks.add_node("a")
    await ranks.submit(replicas=2, minReplicas=1)
    await ranks.meet(1, 1)
    await ranks.add_node("b")
    await ranks.meet(2, 2)
    for said in (await ranks.told()).values():
        assert said[-1] == {"nodes": 2, "processes": 2 * _TILES}


@pytest.mark.timeout(600)
async def test_a_task_that_needs_all_ranks_meets_once_with_a_process_for_each_device(ranks: Ranks) -> None:
    await ranks.add_node("a")
    await ranks.add_node("b")
    await ranks.submit(replicas=2)
    await ranks.meet(2, 2)
    for said in (await ranks.told()).values():
        assert [one for one in said if "nodes" in one] == [{"nodes": 2, "processes": 2 * _TILES}]
