"""Slices of a RayCluster, whose replicas come and go while it lives."""

from typing import Any

from tests.integration.kube.waiting import eventually
from tests.integration.provisioner.conftest import Start
from tests.integration.provisioner.world import EVENTS, NODES, REQUESTS, World
from tests.unit.provisioner.manifests import kept_apart, ray_cluster, ray_group

CLUSTERS = "apis/ray.io/v1/rayclusters"


def _ask(world: World, *groups: dict[str, Any], **spec: Any) -> None:
    raw = ray_cluster(*groups, **spec)
    del raw["metadata"]["uid"]
    world.state.create(CLUSTERS, "ml", raw)


def _change(world: World, **spec: Any) -> None:
    world.state.patch(CLUSTERS, ("ml", "ray"), "merge-patch", {"spec": spec})


def _ready(world: World) -> list[str]:
    """The replicas whose slices are Ready, and a dash for each other slice."""
    found = [
        (one["spec"]["owner"], (one.get("status") or {}).get("phase")) for one in world.objects(REQUESTS)
    ]
    return sorted(owner["job"] if phase == "Ready" else "-" for owner, phase in found)


def _tpus(replicas: int) -> dict[str, Any]:
    return ray_group("tpus", replicas, 2, topology="2x4", chips=4, affinity=kept_apart())


async def test_slices_follow_the_replicas_and_what_is_suspended_has_none(world: World, start: Start) -> None:
    _ask(world, _tpus(1), ray_group("large"))
    async with start():
        await eventually(lambda: _ready(world) == ["ray-large-0", "ray-tpus-0"], within_s=60)
        assert len(world.objects(NODES)) == 6

        _change(world, workerGroupSpecs=[_tpus(2)])
        await eventually(lambda: _ready(world) == ["ray-tpus-0", "ray-tpus-1"], within_s=60)

        _change(world, suspend=True)
        await eventually(lambda: not world.objects(NODES), within_s=60)
        assert "-" in _ready(world), "its SliceRequests wait until it is resumed"


async def test_a_group_that_is_refused_is_told_and_the_others_have_their_slices(
    world: World, start: Start
) -> None:
    _ask(world, ray_group("tpus", 2, 2, topology="2x4", chips=4), ray_group("large"))
    async with start():
        await eventually(lambda: _ready(world) == ["ray-large-0"], within_s=60)
        await eventually(
            lambda: any("tpus: nothing would keep each replica" in note for note in world.notes()),
            within_s=60,
        )
        (event,) = (one for one in world.objects(EVENTS) if "nothing would keep" in one["note"])
        assert (event["regarding"]["kind"], event["regarding"]["apiVersion"]) == ("RayCluster", "ray.io/v1")

        _change(world, workerGroupSpecs=[_tpus(2), ray_group("large")])
        await eventually(lambda: _ready(world) == ["ray-large-0", "ray-tpus-0", "ray-tpus-1"], within_s=60)
