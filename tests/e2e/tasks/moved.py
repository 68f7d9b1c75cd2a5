"""Twenty moves on a real kubelet, controller and scheduler killed thirty times each: `make e2e-tasks`.

Named so that `make e2e` does not collect it. ACCELET_TASKS_SHARE makes it smaller.
"""

# ruff: noqa: F811 - fixtures of other modules

import asyncio
import json
import os
import time
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import pytest

from accelet.assignments.ownform import ASSIGNMENT_ANNOTATION
from accelet.kinds.gputask import GPU_TASKS
from accelet.kinds.move import MOVES
from accelet.kube.apiresources import JOBS, PODS, ApiResource
from accelet.runtime.tasks import task_group
from accelet.scheduler.gangs.grouping import GangKey
from accelet.scheduler.moves.proposing import lets_in_key
from tests.e2e.cluster.building import Progress
from tests.e2e.cluster.control_plane import ControlPlane
from tests.e2e.cluster.node import Node
from tests.e2e.tasks.killing import Killer
from tests.e2e.tasks.oracle import TASK, Run, read_runs
from tests.e2e.tasks.programs import RECORD, SORTS, task_of
from tests.e2e.tasks.scene import Scene, scene  # noqa: F401 - fixtures
from tests.e2e.test_tasks import (  # noqa: F401 - fixtures
    client,
    controller_words,
    kubeconfig,
    namespace,
    user,
)
from tests.e2e.test_tasks_moves import proposing, published  # noqa: F401 - fixtures

SHARE = float(os.environ.get("ACCELET_TASKS_SHARE", "1"))
MOVED, KILLS = round(20 * SHARE), round(30 * SHARE)
SEED = int(os.environ.get("ACCELET_TASKS_SEED", "16"))
CARDS, LIVES_S = 10, 6.0
STEP_S, ROUND_S = 120.0, 300.0


@dataclass
class _Tally:
    """What was seen of all rounds, which is gone from the API server when the next one begins."""

    moved: int = 0
    ends: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)


async def _objects(scene: Scene, resource: ApiResource) -> list[dict[str, Any]]:
    page = await scene.user.list_page(resource, scene.namespace)
    return [json.loads(bytes(item)) for item in page.items]


async def _until(what: str, condition: Callable[[], Awaitable[object]], within_s: float = STEP_S) -> None:
    """Waits until there is nothing left that `condition` tells of."""
    left: object = None
    try:
        async with asyncio.timeout(within_s):
            while left := await condition():  # noqa: ASYNC110 - the cluster is other processes
                await asyncio.sleep(0.3)
    except TimeoutError:
        raise AssertionError(f"{what}: {left}") from None


async def _not_running(scene: Scene, names: Iterable[str]) -> dict[str, Any]:
    found = await scene.statuses()
    return {
        name: (found.get(name, {}).get("phase"), found.get(name, {}).get("why"))
        for name in names
        if found.get(name, {}).get("phase") != "Running"
    }


async def _pods_but(scene: Scene, names: Iterable[str]) -> set[str]:
    pods = await _objects(scene, PODS)
    return {pod["metadata"]["labels"][TASK] for pod in pods} - set(names)


async def _remove(scene: Scene, names: Iterable[str]) -> None:
    for name in names:
        await scene.client.delete(GPU_TASKS, scene.namespace, name, propagation="Background")


async def _make(scene: Scene, names: Iterable[str], tiles: int) -> None:
    for name in names:
        task = task_of(name, SORTS["saves"], 1, tiles)
        task["spec"] |= {"graceSeconds": 10, "move": {"policy": "WhenItHelps", "minRunSeconds": 0}}
        await scene.user.create(GPU_TASKS, scene.namespace, task)


async def _play(scene: Scene, number: int, tally: _Tally) -> None:
    """Fills every card, frees a tile of each, and has half as many tasks let in that ask for a whole card."""
    small = [f"small{number}-{one}" for one in range(2 * CARDS)]
    big = [f"big{number}-{one}" for one in range(CARDS // 2)]
    await _make(scene, small, tiles=1)
    await _until("small tasks do not run", lambda: _not_running(scene, small))
    left = await _one_a_card(scene)
    await _remove(scene, set(small) - left)
    await _until("pods stay", lambda: _pods_but(scene, left))
    await _make(scene, big, tiles=2)
    everyone = {*left, *big}
    await _until("not all run", lambda: _not_running(scene, everyone), ROUND_S)
    await _until("moves go on", lambda: _going_on(scene))
    await _count(scene, everyone, big, tally)
    await _remove(scene, everyone)
    await _until("pods stay", lambda: _pods_but(scene, ()))
    await _until("tasks stay", lambda: _objects(scene, GPU_TASKS))


async def _one_a_card(scene: Scene) -> set[str]:
    """A task on each card."""
    on: dict[str, str] = {}
    for pod in await _objects(scene, PODS):
        said = pod["metadata"]["annotations"][ASSIGNMENT_ANNOTATION]
        (piece,) = json.loads(said)["containers"]["main"]["gpu.intel.com/i915"]
        on[piece["unit"]] = pod["metadata"]["labels"][TASK]
    assert len(on) == CARDS
    return set(on.values())


async def _going_on(scene: Scene) -> list[str]:
    moves = await _objects(scene, MOVES)
    phases = [(move.get("status") or {}).get("phase", "Proposed") for move in moves]
    return [phase for phase in phases if phase not in ("Done", "Withdrawn")]


async def _count(scene: Scene, names: set[str], big: Sequence[str], tally: _Tally) -> None:
    """What became of the Moves of a round, and of its tasks, all of which run."""
    keys = {lets_in_key(GangKey(scene.namespace, f"{name}-1", "Job")): name for name in big}
    let_in = Counter[str]()
    for move in await _objects(scene, MOVES):
        gain, status = move["spec"]["gain"], move["status"]
        tally.ends[f"{status['phase']}/{status.get('reason', '')}"] += 1
        if status["phase"] == "Done":
            tally.moved += 1
            let_in[keys.get(gain.get("letsIn", ""), gain["text"])] += 1
    tally.wrong += [f"{name} was promised room, and is not there" for name in set(let_in) - set(big)]
    tally.wrong += [f"{name} got in without a move" for name in set(big) - set(let_in)]
    statuses, seen = await scene.statuses(), scene.seen()
    for name in names:
        status = statuses[name]
        counted = status["attempt"], status.get("incidents", 0), status.get("disruptions", 0)
        refused = sum(bool(one.refused) for one in seen.attempts[name].values())
        if counted != (1 + refused, 0, refused):
            tally.wrong.append(f"{name}: attempts, incidents and disruptions are {counted}")
    held = [job["metadata"]["name"] for job in await _objects(scene, JOBS) if job["spec"].get("suspend")]
    tally.wrong += [f"{name} is left suspended" for name in held]


def _overlaps(runs: Sequence[Run]) -> list[str]:
    """Ranks of which two runs were there at once: each ends when it is told to, and writes that down."""
    by_task: defaultdict[str, list[Run]] = defaultdict(list)
    for run in runs:
        by_task[run.task].append(run)
    return [
        f"{name} began again before it had ended"
        for name, own in by_task.items()
        for before, after in pairwise(sorted(own, key=lambda run: run.began_s))
        if before.ended_s is None or before.ended_s > after.began_s
    ]


@asynccontextmanager
async def _killing(killers: Sequence[Killer]) -> AsyncIterator[None]:
    async with task_group() as group:
        work = [group.create_task(one.run()) for one in killers]
        yield
        for one in work:
            one.cancel()


@pytest.mark.timeout(1200)
async def test_every_move_lets_in_what_it_promised_whoever_is_killed(
    *,
    cluster: ControlPlane,
    node: Node,
    scene: Scene,
    kubeconfig: Path,
    proposing: Sequence[str],
    say: Progress,
    tmp_path: Path,
) -> None:
    words = controller_words(kubeconfig, tmp_path), proposing
    killers = [
        Killer(each, tmp_path, scene.client, Random(SEED + number), KILLS, LIVES_S)
        for number, each in enumerate(words)
    ]
    tally, began_s, number = _Tally(), time.monotonic(), 0
    with published(cluster, node, tmp_path, CARDS):
        async with _killing(killers):
            while tally.moved < MOVED or any(one.kills < KILLS for one in killers):
                await _play(scene, number, tally)
                number += 1
    took_s = time.monotonic() - began_s
    _report(say, tally, killers, took_s)
    assert not tally.wrong + scene.seen().beside
    assert not _overlaps(read_runs((scene.record / RECORD).read_text()))


def _report(say: Progress, tally: _Tally, killers: Sequence[Killer], took_s: float) -> None:
    ends: Mapping[str, int] = dict(sorted(tally.ends.items()))
    kills = ", ".join(f"{one.words[0]} {one.kills} times" for one in killers)
    say(f"{tally.moved} moves in {took_s:.0f} s: {ends}; killed {kills}")
