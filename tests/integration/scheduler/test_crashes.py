"""Replicas that die or are cut off at every step, and what the next one makes of it."""

import os
import time
from collections.abc import Callable
from random import Random

import pytest

from accelet.fakeapi import SeenRequest
from tests.integration.kube.waiting import eventually
from tests.integration.scheduler.conftest import Start
from tests.integration.scheduler.world import World
from tests.integration.terms import QUICK

RUNS = 200 if os.environ.get("ACCELET_HYPOTHESIS_PROFILE") == "soak" else 12


class Severed(list[SeenRequest]):
    """The API server's notes of requests; calls `cut` at the `at`-th write of a path, before it is done."""

    def __init__(self, at: int, cut: Callable[[], None], path: str = "") -> None:
        super().__init__()
        self._left, self._cut, self._path = at, cut, path

    def append(self, seen: SeenRequest) -> None:
        super().append(seen)
        if _is_write(seen) and self._path in seen.path:
            self._left -= 1
            if self._left == 0:
                self._cut()


def _is_write(seen: SeenRequest) -> bool:
    return seen.method != "GET" and ("/pods/" in seen.path or "/configmaps" in seen.path)


def _allow(world: World, token: str) -> None:
    """From now on, the API server knows no other token: who has another might as well be dead."""
    world.api.token = token


@pytest.mark.parametrize("seed", range(RUNS))
async def test_after_a_crash_at_any_step_every_plan_is_carried_out(
    world: World, start: Start, seed: int
) -> None:
    random = Random(seed)
    world.add_nodes(1, 2, 3)
    sizes = [random.randint(1, 5) for _ in range(2)]
    # One write for the plan, one rehearsal, one for each pod, one to clear the plan away.
    step = random.randint(1, sum(sizes) + 3 * len(sizes))
    _allow(world, "first")
    world.api.seen = Severed(step, lambda: _allow(world, "second"))
    async with start("first", terms=QUICK):
        for number, size in enumerate(sizes):
            world.add_job(f"job{number}", size)
        await eventually(lambda: world.api.token == "second")
    released = {pod["metadata"]["name"] for pod in world.pods()} - set(world.gated())
    began_s = time.monotonic()
    async with start("second"):
        await eventually(
            lambda: all(world.is_bound(f"job{n}", size) for n, size in enumerate(sizes)) and not world.plans()
        )
    assert time.monotonic() - began_s < 10
    assert not world.gated()
    assert released <= set(world.where("job0")) | set(world.where("job1"))


async def test_a_change_of_leader_in_the_middle_of_a_release_finishes_the_same_plan(
    world: World, start: Start
) -> None:
    world.add_nodes(1, 2, 3)
    world.is_binding = False
    _allow(world, "first")
    async with start("first", terms=QUICK) as first:
        world.api.seen = Severed(10, lambda: _allow(world, "second"))
        world.add_job("train", 24, gpus=2)
        await eventually(lambda: world.api.token == "second")
        (plan,) = world.plans()
        assert 0 < len(world.gated("train")) < 24
        # The first still runs, and cannot know yet that it has lost.
        assert not first.done()
        async with start("second"):
            await eventually(lambda: len(world.pods("train")) == 24 and not world.gated("train"))
            (still,) = world.plans()
            assert still["data"] == plan["data"]
            world.is_binding = True
            await eventually(lambda: world.is_bound("train", 24) and not world.plans())


async def test_of_two_replicas_one_places_gangs_and_the_other_takes_over(world: World, start: Start) -> None:
    world.add_nodes(1, 2, 3)
    async with start("one"):
        world.add_job("first", 4)
        await eventually(lambda: world.is_bound("first", 4) and not world.plans())
        async with start("two"):
            world.add_job("second", 4)
            await eventually(lambda: world.is_bound("second", 4) and not world.plans())
            created = [seen for seen in world.api.seen if seen.method == "POST" and "configmaps" in seen.path]
            assert len(created) == 2, "nobody planned twice"


async def test_a_starving_large_gang_starts_though_small_ones_keep_coming(world: World, start: Start) -> None:
    world.add_nodes(1, 1, 4)
    for number in range(3):
        world.bind(f"old-{number}", f"n00{number}", 8)
    async with start(starving_after_s=0.0):
        world.add_job("large", 4, gpus=8)
        await eventually(lambda: any("needs 4 nodes" in note for note in world.notes()))
        world.delete_pod("old-0")
        for number in range(3):
            world.add_job(f"small{number}", 1, gpus=8)
        # Two nodes are free and each of these would fit on one.
        await eventually(lambda: sum("kept free for ml/large" in note for note in world.notes()) >= 3)
        world.delete_pod("old-1")
        world.delete_pod("old-2")
        await eventually(lambda: world.is_bound("large", 4))
        assert [len(world.gated(f"small{number}")) for number in range(3)] == [1, 1, 1]
