"""Slices of flex-start on a fake GKE, whose autoscaler makes the machines for pods that wait for them."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from accelet.fakeapi import FakeApi
from accelet.provisioner.demand.selectors import NAMESPACED_JOB
from accelet.provisioner.pools.pool import Failure, Trouble
from accelet.provisioner.pools.tiers import FLEX_START, Attempt
from accelet.provisioner.providers.gke.provider import GkeProvider
from accelet.provisioner.providers.gke.transport import NoTokens, Transport
from tests.fakegke.autoscaler import fill_pools
from tests.fakegke.machines import machines
from tests.fakegke.server import FakeGke
from tests.fakegke.state import RefusedError
from tests.integration.kube.waiting import eventually
from tests.integration.provisioner.gke_runs import SETTINGS, provisioner_on_gke
from tests.integration.provisioner.plans import plan
from tests.integration.provisioner.world import NODES, PODS, REQUESTS, World, open_world

FLEX = {"cloud.google.com/gke-flex-start": "true"}


@pytest.fixture
def gke() -> Iterator[FakeGke]:
    with FakeGke() as gke:
        yield gke


@pytest.fixture
def world() -> Iterator[World]:
    with FakeApi(bookmark_s=1.0) as api, open_world(api) as world:
        yield world


def _wait_at_scheduler(world: World, reason: str, **selector: str) -> None:
    """A pod of the job of which kube-scheduler has said why it is on no node."""
    labels = {
        "cloud.google.com/gke-tpu-accelerator": "tpu-v6e-slice",
        "cloud.google.com/gke-tpu-topology": "2x4",
    }
    spec = {"nodeSelector": {**labels, **FLEX, **selector}, "containers": []}
    status = {"conditions": [{"type": "PodScheduled", "status": "False", "reason": reason}]}
    body: dict[str, Any] = {"metadata": {"generateName": "waits-"}, "spec": spec, "status": status}
    world.state.create(PODS, "ml", body)


def _whys(world: World) -> list[str]:
    return [(one.get("status") or {}).get("why", "") for one in world.objects(REQUESTS)]


async def test_machines_come_for_pods_that_wait_for_them_and_come_again_when_their_run_has_ended(
    world: World, gke: FakeGke, tmp_path: Path
) -> None:
    gke.state.flex_slices = 0
    with machines(gke.state, world.state):
        async with provisioner_on_gke(world, gke, tmp_path, repair_s=60.0):
            world.ask("train", replicas=1, topology="2x4", pods=2, selector=FLEX)
            await eventually(lambda: any("waits for flex-start machines" in why for why in _whys(world)))
            assert world.phases() == ["Joining"]
            _wait_at_scheduler(world, "SchedulingGated", **{"job-key": "0" * 40})
            _wait_at_scheduler(world, "Unschedulable", **{NAMESPACED_JOB: "ml_train-w-0"})
            fill_pools(gke.state, world.objects(PODS))
            assert (gke.state.filled, world.objects(NODES)) == (set(), []), "there is no room yet"

            gke.state.flex_slices = 1
            await eventually(lambda: world.phases() == ["Ready"] and world.running("train") == 2, within_s=30)
            assert {one["status"]["tier"] for one in world.objects(REQUESTS)} == {"flex-start"}
            assert [node["spec"].get("taints") or [] for node in world.objects(NODES)] == [[], []]

            (pool,) = gke.state.pools
            world.end_pods("train")
            gke.state.flex_slices = 0
            gke.state.end_run(pool)
            await eventually(lambda: world.phases() == ["Repairing"] and not world.objects(NODES))
            gke.state.flex_slices = 1
            await eventually(lambda: world.phases() == ["Ready"] and len(world.objects(NODES)) == 2)
            world.finish("train")
            await eventually(lambda: not world.objects(REQUESTS) and not gke.state.pools, within_s=30)


async def test_machines_that_wait_for_their_set_do_not_count_as_starting(
    world: World, gke: FakeGke, tmp_path: Path
) -> None:
    """Where too many machines start, GKE's autoscaler makes no more."""
    gke.state.flex_slices = 1
    with machines(gke.state, world.state):
        async with provisioner_on_gke(world, gke, tmp_path):
            world.ask("train", replicas=2, topology="2x4", pods=2, selector=FLEX)
            _wait_at_scheduler(world, "Unschedulable")

            def kept() -> list[set[str]]:
                taints = [node["spec"].get("taints") or () for node in world.objects(NODES)]
                return [{taint["key"] for taint in each} for each in taints]

            await eventually(lambda: kept() == [{"accelet.dev/slice-not-ready"}] * 2, within_s=30)
            await eventually(lambda: sorted(world.phases()) == ["Joined", "Joining"])
            gke.state.flex_slices = 2
            await eventually(lambda: world.phases() == ["Ready"] * 2, within_s=30)
            assert kept() == [set()] * 4
    assert world.partial == []


async def test_nobody_fills_a_pool_for_pods_at_a_gate_or_for_those_of_others(
    world: World, gke: FakeGke, tmp_path: Path
) -> None:
    with machines(gke.state, world.state):
        async with provisioner_on_gke(world, gke, tmp_path):
            world.ask("train", replicas=1, topology="2x4", pods=2, selector=FLEX)
            _wait_at_scheduler(world, "SchedulingGated")
            _wait_at_scheduler(world, "Unschedulable", **{"job-key": "0" * 40})
            await eventually(lambda: world.phases() == ["Joining"])
            fill_pools(gke.state, world.objects(PODS))
            assert gke.state.filled == set()
            _wait_at_scheduler(world, "Unschedulable")
            await eventually(lambda: world.phases() == ["Ready"], within_s=30)


async def test_gke_takes_our_pool_of_flex_start_and_tells_of_its_tier(gke: FakeGke) -> None:
    provider = GkeProvider(Transport(gke.url, NoTokens()), SETTINGS, "a-cluster", lambda: True)
    assert await provider.create(plan(attempt=Attempt(FLEX_START, "us-east5-a"))) is None
    (pool,) = (await provider.list_pools()).pools
    assert (pool.tier, pool.zone) == ("flex-start", "us-east5-a")


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"initialNodeCount": 4}, "initial node count 0"),
        ({"autoscaling": {"enabled": False}}, "requires autoscaling"),
        ({"management": {"autoRepair": True}}, "auto-repair"),
        ({"config": {"flexStart": True}}, "NO_RESERVATION"),
        ({"upgradeSettings": {"strategy": "SURGE"}}, "SHORT_LIVED"),
    ],
)
async def test_what_gke_refuses_of_flex_start_is_an_attempt_that_is_not_made_again(
    gke: FakeGke, change: dict[str, Any], word: str
) -> None:
    """The provider's own body passes; each of its fields is needed."""
    provider = GkeProvider(Transport(gke.url, NoTokens()), SETTINGS, "a-cluster", lambda: True)
    await provider.create(plan(attempt=Attempt(FLEX_START, "us-east5-a")))
    (made,) = gke.state.list()["nodePools"]
    with pytest.raises(RefusedError, match=word):
        gke.state.create({"nodePool": {**made, "name": "another", **change}})


async def test_flex_start_of_old_machines_is_refused_in_gkes_words(gke: FakeGke) -> None:
    provider = GkeProvider(Transport(gke.url, NoTokens()), SETTINGS, "a-cluster", lambda: True)
    wanted = plan(attempt=Attempt(FLEX_START, "us-east5-a"))
    failure = await provider.create(
        replace(wanted, machines=replace(wanted.machines, machine_type="ct4p-hightpu-4t"))
    )
    assert failure == Failure(Trouble.INVALID, "GKE: Flex start is not supported for this machine type.")
