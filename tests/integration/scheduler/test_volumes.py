"""Gangs go where their volumes can be reached; without the right to read volumes, as before."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from prometheus_client import CollectorRegistry

from accelet.fakeapi import Answer, Fault
from accelet.kube.client import Client
from accelet.kube.podparser import parse_pod
from accelet.scheduler.cluster.topology import Scheme
from accelet.scheduler.gangs.grouping import GATE_PREFIX
from accelet.scheduler.metrics import SchedulerMetrics
from accelet.scheduler.state import SchedulerState
from accelet.scheduler.volumes.watching import VolumeWatching
from tests.fakes.manifests import raw_node, raw_pod
from tests.fakes.volumes import BIND_COMPLETED, in_zone, raw_claim, raw_volume, using
from tests.integration.kube.waiting import eventually
from tests.integration.scheduler.conftest import Start
from tests.integration.scheduler.world import GATE, NODES, World

CLAIMS, VOLUMES = "api/v1/persistentvolumeclaims", "api/v1/persistentvolumes"
CLASSES = "apis/storage.k8s.io/v1/storageclasses"
_ZONE = "topology.kubernetes.io/zone"


def _add_zones(world: World) -> None:
    """Two nodes each in zones `a` and `b`; those of `a` are the fuller ones."""
    for zone, gpus in (("a", 4), ("b", 8)):
        for number in range(2):
            where = f"{zone}/s{zone}/h{zone}{number}"
            labelled = raw_node(f"{zone}{number}", where, gpus=gpus, labels={_ZONE: zone})
            world.state.create(NODES, "", labelled)


def _bind(world: World, name: str, zone: str) -> None:
    """What the volume controller does for a claim."""
    world.state.create(VOLUMES, "", raw_volume(f"v-{name}", f"ml/{name}", terms=[in_zone(zone)]))
    bound = {
        "metadata": {"annotations": {BIND_COMPLETED: "yes"}},
        "spec": {"volumeName": f"v-{name}"},
        "status": {"phase": "Bound"},
    }
    world.state.patch(CLAIMS, ("ml", name), "merge-patch", bound)


async def test_a_gang_waits_for_its_claim_and_goes_where_its_volume_is(world: World, start: Start) -> None:
    _add_zones(world)
    world.state.create(CLAIMS, "ml", raw_claim("data"))
    async with start():
        world.add_job("train", 2, gpus=4, spec=using("data"))
        said = "waiting: pod train-0 waits for its volume claim data to be bound"
        await eventually(lambda: said in world.notes())
        _bind(world, "data", "b")
        await eventually(lambda: world.is_bound("train", 2))
    assert set(world.where("train").values()) <= {"b0", "b1"}


async def test_a_gang_that_does_not_fit_where_its_volume_is_is_told_so(world: World, start: Start) -> None:
    _add_zones(world)
    world.state.create(CLAIMS, "ml", raw_claim("data"))
    _bind(world, "data", "a")
    async with start():
        world.add_job("train", 2, gpus=8, spec=using("data"))
        said = (
            "waiting: needs 2 nodes, the cluster has 0; of 4 nodes: "
            "2 where volume v-data of claim data cannot be reached, 2 short of nvidia.com/gpu"
        )
        await eventually(lambda: said in world.notes())


async def test_without_the_right_to_read_volumes_gangs_are_placed_as_before(
    world: World, start: Start
) -> None:
    _add_zones(world)
    world.api.faults.append(Fault(Answer(403, "Forbidden"), path="/persistentvolumes", times=10_000))
    async with start():
        world.add_job("train", 2, gpus=8, spec=using("nowhere"))
        await eventually(lambda: world.is_bound("train", 2))


async def test_volumes_that_cannot_be_listed_hold_up_nobody(world: World, tmp_path: Path) -> None:
    world.api.faults.append(Fault(Answer(500, "InternalError"), path="/persistentvolumeclaims", times=10_000))
    async with _watching(world, tmp_path, read_within_s=0.1) as (watching, state, _):
        await asyncio.wait_for(watching.synced(), 30)
        assert _problem(state) is None


_POD = parse_pod(raw_pod("p", gates=(GATE,), labels={}, **using("data")))


@asynccontextmanager
async def _watching(
    world: World, folder: Path, read_within_s: float = 10.0
) -> AsyncIterator[tuple[VolumeWatching, SchedulerState, list[bool]]]:
    """What keeps a state up in which there is a pod that uses the claim `data`, and what was told."""
    client = await Client.connect(world.api.write_kubeconfig(folder / "kubeconfig"))
    state, told = SchedulerState(Scheme(), GATE_PREFIX), list[bool]()
    state.set_pod(_POD)
    watching = VolumeWatching(
        client,
        state,
        SchedulerMetrics(CollectorRegistry()),
        changed=lambda: told.append(True),
        read_within_s=read_within_s,
        look_again_s=0.05,
    )
    task = asyncio.create_task(watching.run())
    try:
        yield watching, state, told
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        client.close()


def _problem(state: SchedulerState) -> str | None:
    for _ in state.ask_anew():
        pass
    return state.asked_by(_POD).problem


async def test_rights_may_come_and_go_while_the_scheduler_runs(world: World, tmp_path: Path) -> None:
    missing = "pod p waits for its volume claim data, which is not there"
    lacking = Fault(Answer(403, "Forbidden"), path="/storageclasses", times=10_000)
    world.api.faults.append(lacking)
    async with _watching(world, tmp_path) as (watching, state, told):
        await asyncio.wait_for(watching.synced(), 30)
        assert _problem(state) is None
        world.api.faults.remove(lacking)
        await eventually(lambda: _problem(state) == missing)
        assert told, "the gang is planned anew"
        told.clear()
        world.api.faults.append(Fault(Answer(403, "Forbidden"), path="/persistentvolumes", times=10_000))

        def is_left_to_others() -> bool:
            world.api.end_watches()  # also one that had not begun at the last time
            return _problem(state) is None

        await eventually(is_left_to_others)
        assert told


async def test_only_claims_that_pods_use_are_told_of(world: World, tmp_path: Path) -> None:
    async with _watching(world, tmp_path) as (watching, state, told):
        await asyncio.wait_for(watching.synced(), 30)
        told.clear()
        late = {"metadata": {"name": "late"}, "volumeBindingMode": "WaitForFirstConsumer"}
        world.state.create(CLASSES, "", late)
        for number in range(300):
            world.state.create(CLAIMS, "others", raw_claim(f"c{number}"))
        world.state.create(CLAIMS, "others", raw_claim("data"))
        world.state.create(CLAIMS, "ml", raw_claim("data", volume_class="late"))
        await eventually(lambda: _problem(state) is None)
        assert len(told) <= 2, "of the class, and of its own claim"
