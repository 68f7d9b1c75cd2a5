"""The provisioner with a fake GKE, killed between any two of its writes."""

import random
import threading
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from accelet.fakeapi import Drop, FakeApi, Fault
from tests.fakegke.machines import machines
from tests.fakegke.server import FakeGke
from tests.integration.kube.waiting import eventually
from tests.integration.provisioner.gke_runs import provisioner_on_gke
from tests.integration.provisioner.world import REQUESTS, open_world

SCHEDULES, PARKING_SCHEDULES, KILLS, MOST_WRITES, WITHIN_S = 200, 25, 4, 30, 120.0


class Cut:
    """Lets so many writes through, of which the last one's answer may be lost, and then nothing more.

    That is what a kill between two writes leaves: to the process that is killed a moment later nothing else
    can happen. Writes of leases are not counted, and end with the others.
    """

    def __init__(self) -> None:
        self._lock, self._left, self._is_lost = threading.Lock(), -1, False
        self.is_done = threading.Event()

    def after(self, writes: int, *, is_lost: bool) -> None:
        """From now on; a negative number of writes cuts nothing."""
        with self._lock:
            self._left, self._is_lost = writes, is_lost
            self.is_done.clear()

    def judge(self, *, counts: bool) -> str:
        """What becomes of a request: nothing, "lost" or "drop"."""
        with self._lock:
            if self.is_done.is_set():
                return "drop"
            if self._left < 0 or not counts:
                return ""
            self._left -= 1
            if self._left >= 0:
                return ""
            self.is_done.set()
            return "lost" if self._is_lost else "drop"


@dataclass
class _CutApi(Fault):
    """The cut on the way to the API server."""

    cut: Cut = field(default_factory=Cut)

    def strikes(self, method: str, path: str, *, is_watch: bool) -> bool:
        found = self.cut.judge(counts=method != "GET" and "leases" not in path and "events" not in path)
        self.action = Drop(after=found == "lost")
        return found != ""


class _CutGke(FakeGke):
    """The same on the way to GKE, for what is written there."""

    def __init__(self, cut: Cut) -> None:
        super().__init__()
        self._cut = cut

    def take_fault(self) -> str:
        return self._cut.judge(counts=True)


@pytest.mark.thorough
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", range(SCHEDULES))
async def test_a_kill_between_any_two_writes_loses_nothing(seed: int, tmp_path: Path) -> None:
    chance, cut = random.Random(seed), Cut()
    with FakeApi(bookmark_s=1.0) as api, open_world(api) as world, _CutGke(cut) as gke:
        api.faults.append(_CutApi(Drop(), cut=cut))
        gke.state.lag_s = chance.choice((0.0, 0.2))
        gke.state.capacity = {(False, "us-east5-a"): chance.randrange(4)}
        with machines(gke.state, world.state):
            world.ask("one")
            world.ask("two")
            for kill in range(KILLS):
                cut.after(chance.randrange(MOST_WRITES), is_lost=chance.random() < 0.5)
                async with provisioner_on_gke(world, gke, tmp_path):
                    if kill == KILLS // 2:
                        world.finish("one")
                    await eventually(lambda: cut.is_done.is_set() or _is_settled(world.phases()), WITHIN_S)
            cut.after(-1, is_lost=False)
            async with provisioner_on_gke(world, gke, tmp_path):
                await eventually(lambda: world.phases("two") == ["Ready"] * 2, WITHIN_S)
                world.finish("two")
                await eventually(lambda: not world.objects(REQUESTS) and not gke.state.pools, WITHIN_S)
    assert world.partial == []
    assert world.killed == []


@pytest.mark.thorough
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", range(PARKING_SCHEDULES))
async def test_a_kill_while_slices_change_hands_leaves_each_in_one(seed: int, tmp_path: Path) -> None:
    chance, cut = random.Random(seed), Cut()
    with FakeApi(bookmark_s=1.0) as api, open_world(api) as world, _CutGke(cut) as gke:
        api.faults.append(_CutApi(Drop(), cut=cut))
        with machines(gke.state, world.state):
            world.ask("one")
            async with provisioner_on_gke(world, gke, tmp_path, park_s=600):
                await eventually(lambda: world.phases() == ["Ready"] * 2, WITHIN_S)
                world.finish("one")
                await eventually(lambda: world.phases() == ["Parked"] * 2, WITHIN_S)
            pools = set(gke.state.pools)
            world.ask("two")
            for _ in range(KILLS):
                cut.after(chance.randrange(MOST_WRITES // 3), is_lost=chance.random() < 0.5)
                async with provisioner_on_gke(world, gke, tmp_path, park_s=600):
                    await eventually(lambda: cut.is_done.is_set() or _is_settled(world.phases()), WITHIN_S)
            cut.after(-1, is_lost=False)
            async with provisioner_on_gke(world, gke, tmp_path, park_s=600):
                await eventually(lambda: world.phases() == ["Ready"] * 2, WITHIN_S)
                assert set(gke.state.pools) == pools
                world.finish("two")
                await eventually(lambda: world.phases() == ["Parked"] * 2, WITHIN_S)
            async with provisioner_on_gke(world, gke, tmp_path):
                await eventually(lambda: not world.objects(REQUESTS) and not gke.state.pools, WITHIN_S)
    assert (world.partial, world.killed) == ([], [])


def _is_settled(phases: list[str]) -> bool:
    """Nothing is left to write, so that the next kill comes earlier in the next life."""
    return bool(phases) and set(phases) == {"Ready"}
