"""Plans as they are written down, where another may have written one already."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from prometheus_client import CollectorRegistry

from accelet.kube.client import Client
from accelet.kube.errors import UnavailableError
from accelet.scheduler.gangs import GangKey
from accelet.scheduler.hand import Hand
from accelet.scheduler.metrics import SchedulerMetrics
from accelet.scheduler.picture import Picture
from accelet.scheduler.record import Placement, Record
from accelet.scheduler.topology import Scheme
from tests.integration.kube.fakeapi import Drop, Fault
from tests.integration.scheduler.world import World


def plan(node: str) -> Record:
    return Record(GangKey("ml", "train", "Job"), (Placement("p", "u", node),), 0, 0)


@pytest.fixture
def picture() -> Picture:
    return Picture(Scheme(), "gke.io/topology-aware-auto-")


@pytest.fixture
async def hand(world: World, picture: Picture, tmp_path: Path) -> AsyncIterator[Hand]:
    client = await Client.connect(world.api.write_kubeconfig(tmp_path / "kubeconfig", "a-token"))
    yield Hand(client, picture, SchedulerMetrics(CollectorRegistry()), lambda: True)
    client.close()


async def test_a_plan_that_is_there_already_is_taken_over(hand: Hand, picture: Picture) -> None:
    assert await hand.write(plan("n1"))
    assert not await hand.write(plan("n0"))
    assert [one.placements for one in picture.records.values()] == [plan("n1").placements]


async def test_a_plan_whose_answer_was_lost_is_the_own_one(
    world: World, hand: Hand, picture: Picture
) -> None:
    world.api.faults.append(Fault(Drop(after=True), method="POST", path="/configmaps"))
    with pytest.raises(UnavailableError):
        await hand.write(plan("n0"))
    assert await hand.write(plan("n0"))
    assert [one.placements for one in picture.records.values()] == [plan("n0").placements]
