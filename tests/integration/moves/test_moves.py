"""Moves with both of their parties at work: the scheduler and the task controller, against an API server."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import pytest

from accelet.control.lease import Terms
from accelet.fakeapi import FakeApi, SeenRequest
from accelet.gputask.process import TaskOptions, run_task_controller
from accelet.gputask.settings import TaskSettings
from accelet.kinds.wish import render_wish
from accelet.scheduler.process import Scheduler, SchedulerOptions
from accelet.scheduler.settings import MoveSettings, SchedulerSettings
from tests.integration.kube.waiting import eventually
from tests.integration.moves.world import MovesWorld, open_moves_world
from tests.integration.scheduler.test_crashes import Severed
from tests.integration.scheduler.world import JOBS, NODES
from tests.integration.terms import QUICK, STEADY

BUDGETS = "apis/policy/v1/poddisruptionbudgets"
until = partial(eventually, within_s=60.0)


@pytest.fixture
def world() -> Iterator[MovesWorld]:
    with FakeApi(bookmark_s=1.0) as api, open_moves_world(api) as world:
        api.state.create("api/v1/namespaces", "", {"metadata": {"name": "kube-system"}})
        yield world


@asynccontextmanager
async def both(
    world: MovesWorld, folder: Path, token: str = "a-token", terms: Terms = STEADY, **said: Any
) -> AsyncIterator[None]:
    """Runs a scheduler that proposes moves, and a task controller."""
    kubeconfig = world.api.write_kubeconfig(folder / f"kubeconfig-{token}", token)
    moves = MoveSettings(**{"propose": True, "waits_s": 0.0, **said})
    scheduler = Scheduler(
        SchedulerOptions(kubeconfig, terms=terms), SchedulerSettings(version="v1", moves=moves)
    )
    settings = TaskSettings(version="v1", first_pause_s=0.1)
    tasks = [
        asyncio.create_task(scheduler.run()),
        asyncio.create_task(run_task_controller(TaskOptions(kubeconfig, terms=terms), settings)),
    ]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def small_one_in_the_way(world: MovesWorld, **spec: Any) -> None:
    """A task with 3 of the 8 GPUs of n0; others have 5 of the 8 of n1."""
    world.add_node("n0", "b0/s0/h0")
    world.add_node("n1", "b0/s0/h1")
    world.set_node("n1", unschedulable=True)
    world.bind("other", "n1", 5)
    world.add_task("small", 3, **spec)
    await until(lambda: world.runs_on("small") == ["n0"])
    await until(lambda: not world.plans())
    world.set_node("n1", unschedulable=False)


async def test_a_task_is_moved_and_the_gang_that_waits_gets_the_room_that_it_leaves(
    world: MovesWorld, tmp_path: Path
) -> None:
    """Others of a higher priority come while the task is on its way: neither place is theirs."""
    async with both(world, tmp_path):
        await small_one_in_the_way(world)
        world.is_binding = False
        world.add_job("big", 1, gpus=8)
        await until(lambda: world.phases() == ["Arriving"])
        for number in range(3):
            world.add_job(f"late{number}", 1, gpus=2, spec={"priority": 9})
        await until(lambda: sum("waiting: " in note for note in world.notes()) >= 3)
        world.is_binding = True
        await until(lambda: world.is_bound("big", 1))
        await until(lambda: world.phases() == ["Done"] and not world.plans())
        await until(lambda: world.task("small")["status"]["phase"] == "Running")
    assert not any(world.where(f"late{number}") for number in range(3))
    assert set(world.where("big").values()) == {"n0"}
    assert world.runs_on("small") == ["n1"]
    (move,) = world.moves()
    assert (
        move["spec"]["gain"]["text"] == "would let in a gang of 1 pod that waits, by moving 1 rank of 1 task"
    )
    assert [one["type"] for one in move["status"]["conditions"]] == [
        *("Approved", "Held", "Leaving", "Arriving", "Done")
    ]
    job = world.state.collection(JOBS).objects["ml", "small-1"]
    assert job["spec"]["suspend"] is False
    assert world.task("small")["status"].get("incidents", 0) == 0


@pytest.mark.thorough
async def test_nobody_is_moved_unless_that_is_switched_on_nor_who_never_is(
    world: MovesWorld, tmp_path: Path
) -> None:
    async with both(world, tmp_path, propose=False):
        await small_one_in_the_way(world)
        world.add_job("big", 1, gpus=8)
        await until(lambda: any(note.startswith("waiting: ") for note in world.notes()))
        assert not any("/moves" in seen.path and seen.method != "GET" for seen in world.api.seen)
    world.state.patch(
        "apis/accelet.dev/v1alpha1/gputasks",
        ("ml", "small"),
        "merge-patch",
        {"spec": {"move": {"policy": "Never"}}},
    )
    async with both(world, tmp_path, token="a-token"):
        world.ask("small", move_to=render_wish("n9", datetime.now(UTC)))
        await until(lambda: any("there is no node n9" in note for note in world.notes()))
    assert world.moves() == []
    assert world.runs_on("small") == ["n0"]


@pytest.mark.thorough
async def test_a_move_that_a_disruption_budget_forbids_is_withdrawn_with_its_sentence(
    world: MovesWorld, tmp_path: Path
) -> None:
    selector = {"matchLabels": {"accelet.dev/task": "small"}}
    body = {"metadata": {"name": "keep"}, "spec": {"selector": selector}, "status": {"disruptionsAllowed": 0}}
    world.state.create(BUDGETS, "ml", body)
    async with both(world, tmp_path):
        await small_one_in_the_way(world)
        (before,) = [pod["metadata"]["uid"] for pod in world.pods() if "small" in pod["metadata"]["name"]]
        world.add_job("big", 1, gpus=8)
        await until(lambda: world.phases() == ["Withdrawn"])
        (move,) = world.moves()
        assert move["status"]["why"] == "the disruption budget keep lets 0 of its 1 pods be disrupted now"
        await until(lambda: not world.plans())
        await until(lambda: world.gated("big") == ["big-0"])
    assert [pod["metadata"]["uid"] for pod in world.pods() if "small" in pod["metadata"]["name"]] == [before]


async def wish_elsewhere_until_it_is_moved(world: MovesWorld, task: str) -> None:
    """Asks again and again: a task rests as long as its last Move held two places."""
    before = len(world.moves())
    async with asyncio.timeout(60):
        while len(world.moves()) == before:
            world.ask(task, move_to=render_wish(None, datetime.now(UTC)))
            with suppress(TimeoutError):
                await eventually(lambda: len(world.moves()) > before, within_s=1.0)
    world.ask(task, move_to=None)


async def test_a_person_has_a_task_moved_and_a_proposal_waits_for_one_where_it_says_so(
    world: MovesWorld, tmp_path: Path
) -> None:
    async with both(world, tmp_path):
        terms = {"policy": "Ask", "minRunSeconds": 0, "maxMoves": 9}
        await small_one_in_the_way(world, move=terms, graceSeconds=0)
        world.ask("small", move_to=render_wish("n1", datetime.now(UTC)))
        await until(lambda: world.runs_on("small") == ["n1"] and world.phases() == ["Done"])
        await wish_elsewhere_until_it_is_moved(world, "small")
        await until(lambda: world.runs_on("small") == ["n0"] and world.phases() == ["Done", "Done"])
        world.add_job("big", 1, gpus=8)
        await until(lambda: sorted(world.phases()) == ["Done", "Done", "Proposed"])
        (waits,) = [move for move in world.moves() if not (move.get("status") or {}).get("phase")]
        assert world.runs_on("small") == ["n0"]
        world.ask("small", approve=waits["metadata"]["name"])
        await until(lambda: world.is_bound("big", 1))
    assert world.runs_on("small") == ["n1"]


@pytest.mark.thorough
async def test_a_node_that_is_drained_is_left(world: MovesWorld, tmp_path: Path) -> None:
    async with both(world, tmp_path):
        await small_one_in_the_way(world)
        said = {"metadata": {"annotations": {"accelet.dev/drain": "true"}}}
        world.state.patch(NODES, ("", "n0"), "merge-patch", said)
        await until(lambda: world.runs_on("small") == ["n1"] and world.phases() == ["Done"])


async def test_where_the_new_place_is_lost_the_task_goes_back_to_where_it_was(
    world: MovesWorld, tmp_path: Path
) -> None:
    async with both(world, tmp_path):
        await small_one_in_the_way(world)

        def lose(seen: SeenRequest) -> None:
            if seen.method == "PATCH" and seen.path.endswith("/jobs/small-1"):
                world.set_node("n1", unschedulable=True)

        world.api.seen = Watched(lose)
        world.add_job("big", 1, gpus=8)
        await until(lambda: world.phases() == ["Done"])
        (move,) = world.moves()
        assert move["status"]["reason"] == "ArrivedElsewhere"
        await until(lambda: world.task("small")["status"]["phase"] == "Running")
    assert world.runs_on("small") == ["n0"]
    assert world.gated("big") == ["big-0"]


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.thorough) for seed in range(1, 24))]
)
async def test_after_a_crash_of_both_at_any_step_the_task_is_there_once_and_the_gang_gets_in(
    world: MovesWorld, tmp_path: Path, seed: int
) -> None:
    """At a write of a Move, a plan, a Job or a pod both are cut off; others take over."""
    world.api.token = "first"

    def cut() -> None:
        world.api.token = "second"

    async with both(world, tmp_path, "first", QUICK):
        await small_one_in_the_way(world)
        world.api.seen = Cut(Random(seed).randint(1, 18), cut)
        world.add_job("big", 1, gpus=8)
        await until(lambda: world.api.token == "second" or world.is_bound("big", 1))
        cut()
    async with both(world, tmp_path, "second"):
        await until(lambda: world.is_bound("big", 1))
        await until(lambda: world.runs_on("small") == ["n1"] and not world.plans())
        await until(lambda: world.phases()[-1:] == ["Done"] and "Leaving" not in world.phases())
    assert world.task("small")["status"].get("incidents", 0) == 0


class Watched(list[SeenRequest]):
    """The API server's notes of requests; each is told, before it is done."""

    def __init__(self, tell: Any) -> None:
        super().__init__()
        self._tell = tell

    def append(self, seen: SeenRequest) -> None:
        super().append(seen)
        self._tell(seen)


class Cut(Severed):
    """As `Severed`, at writes of Moves and Jobs too."""

    def append(self, seen: SeenRequest) -> None:
        list.append(self, seen)
        if seen.method != "GET" and any(
            f"/{kind}" in seen.path for kind in ("moves", "jobs", "pods/", "configmaps")
        ):
            self._left -= 1
            if self._left == 0:
                self._cut()
