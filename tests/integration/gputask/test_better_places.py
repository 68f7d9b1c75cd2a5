"""Tasks that go to better places, with scheduler and task controller, and a cluster that is played."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from accelet.accelerators.device import UnitId
from accelet.assignments.nodecards import NodeCard
from accelet.cli.demotasks.standin import NODES, PODS, StandIn, make_node
from accelet.fakeapi import FakeApi, Json
from accelet.scheduler.cluster.topology import Scheme
from accelet.scheduler.process import Scheduler, SchedulerOptions
from accelet.scheduler.settings import MoveSettings, SchedulerSettings
from tests.integration.gputask.conftest import StartTasks
from tests.integration.kube.waiting import eventually as eventually_within
from tests.integration.terms import STEADY

TASKS, MOVES = "apis/accelet.dev/v1alpha1/gputasks", "apis/accelet.dev/v1alpha1/moves"
CARD = "gpu.intel.com/i915"
eventually = partial(eventually_within, within_s=150.0)
"""Longer than the minute after which all tasks are looked at again."""


def _node(api: FakeApi, name: str, block: str, cards: int) -> None:
    """A node of this block with so many cards of two tiles."""
    units = [UnitId(f"0000-{3 + slot:02x}-00.0") for slot in range(cards)]
    published = [NodeCard(unit, CARD, card=f"card{at}", tiles=2, shares=8) for at, unit in enumerate(units)]
    make_node(api, name, published)
    labels = dict(zip(Scheme().label_sets[0], (block, "s", name), strict=True))
    api.state.patch(NODES, ("", name), "merge-patch", {"metadata": {"labels": labels}})


def _submit(api: FakeApi, name: str, replicas: int, tiles: int) -> None:
    move = {"policy": "WhenItHelps", "minRunSeconds": 0, "maxMoves": 10}
    cards = {"resource": CARD, "cards": 1, "tiles": tiles}
    spec = {"container": {"image": "app"}, "replicas": replicas, "cards": cards, "move": move}
    api.state.create(TASKS, "ml", {"metadata": {"name": name, "generation": 1}, "spec": spec})


def _task(api: FakeApi, name: str) -> Json:
    status: Json = api.state.get(TASKS, ("ml", name)).get("status") or {}
    return status


def _runs(api: FakeApi, name: str) -> bool:
    return bool(_task(api, name).get("phase") == "Running")


def _on(api: FakeApi, name: str) -> list[str]:
    """The nodes of a task's pods."""
    pods = [
        pod for pod in api.state.list(PODS, {}, None)["items"] if pod["metadata"]["name"].startswith(name)
    ]
    return sorted(pod["spec"].get("nodeName", "") for pod in pods)


def _moves(api: FakeApi) -> list[tuple[str, str, str]]:
    """The Moves: what for, how far, and why."""
    found = api.state.list(MOVES, {}, None)["items"]
    said = [(one["spec"]["gain"]["kind"], one.get("status") or {}) for one in found]
    return [(kind, status.get("phase", "Proposed"), status.get("reason", "")) for kind, status in said]


@asynccontextmanager
async def _beside(api: FakeApi, folder: Path, moves: MoveSettings) -> AsyncIterator[None]:
    """A scheduler with these settings, and whoever plays the cluster."""
    options = SchedulerOptions(api.write_kubeconfig(folder / "scheduler"), terms=STEADY)
    settings = SchedulerSettings(version="v1", moves=moves)
    work: list[asyncio.Task[Any]] = [
        asyncio.create_task(StandIn(api).run()),
        asyncio.create_task(Scheduler(options, settings).run()),
    ]
    try:
        yield
    finally:
        for one in work:
            one.cancel()
        await asyncio.gather(*work, return_exceptions=True)


@pytest.mark.timeout(400)
async def test_ranks_that_were_placed_apart_are_brought_together_once_there_is_room(
    api: FakeApi, start: StartTasks, tmp_path: Path
) -> None:
    _node(api, "a", "b0", 1)
    _node(api, "b", "b1", 1)
    _submit(api, "train", 2, tiles=2)
    async with start():
        async with _beside(api, tmp_path, MoveSettings()):
            await eventually(lambda: _runs(api, "train"))
        assert _on(api, "train") == ["a", "b"]
        _node(api, "c", "b0", 2)
        async with _beside(api, tmp_path, MoveSettings(propose=True)):
            await eventually(lambda: _moves(api) == [("Nearer", "Done", "Arrived")])
            await eventually(lambda: _runs(api, "train"))
    assert _on(api, "train") == ["c", "c"]
    status = _task(api, "train")
    assert (status["attempt"], status.get("incidents", 0), status.get("disruptions", 0)) == (1, 0, 0)


@pytest.mark.timeout(400)
async def test_one_of_two_lone_tiles_leaves_its_node_free_and_the_other_stays(
    api: FakeApi, start: StartTasks, tmp_path: Path
) -> None:
    async with start():
        async with _beside(api, tmp_path, MoveSettings()):
            for name, task in (("a", "one"), ("b", "other")):
                _node(api, name, "b0", 1)
                _submit(api, task, 1, tiles=1)
                await eventually(partial(_runs, api, task))
                cordon = {"spec": {"unschedulable": True}}
                api.state.patch(NODES, ("", name), "merge-patch", cordon)
        assert (_on(api, "one"), _on(api, "other")) == (["a"], ["b"])
        for name in "ab":
            api.state.patch(NODES, ("", name), "merge-patch", {"spec": {"unschedulable": False}})
        async with _beside(api, tmp_path, MoveSettings(propose=True, packs=True)):
            await eventually(lambda: _moves(api) == [("Packs", "Done", "Arrived")])
            await eventually(lambda: _runs(api, "one") and _runs(api, "other"))
    assert _on(api, "one") == _on(api, "other")
