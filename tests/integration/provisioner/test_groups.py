"""Slices of a LeaderWorkerSet, whose groups come and go while it lives."""

from typing import Any

from tests.integration.kube.waiting import eventually
from tests.integration.provisioner.conftest import Start
from tests.integration.provisioner.world import EVENTS, NODES, PODS, REQUESTS, World
from tests.unit.provisioner.manifests import leader_worker_set, pod_template

SETS = "apis/leaderworkerset.x-k8s.io/v1/leaderworkersets"


def _ask(world: World, replicas: int) -> None:
    raw = leader_worker_set(replicas=replicas, size=2, worker=pod_template(topology="2x4", chips=4))
    del raw["metadata"]["uid"]
    world.state.create(SETS, "ml", raw)


def _scale(world: World, replicas: int) -> None:
    world.state.patch(SETS, ("ml", "serve"), "merge-patch", {"spec": {"replicas": replicas}})


def _ready(world: World) -> list[int]:
    """The numbers of the groups whose slices are Ready, and -1 for each other slice."""
    return sorted(
        one["spec"]["owner"].get("index", 0) if (one.get("status") or {}).get("phase") == "Ready" else -1
        for one in world.objects(REQUESTS)
    )


def _run_on(world: World, index: int) -> None:
    """A group runs on the slice that was made for the group of that number."""
    (name,) = (
        one["metadata"]["name"]
        for one in world.objects(REQUESTS)
        if one["spec"]["owner"].get("index", 0) == index
    )
    for node in world.objects(NODES):
        if node["metadata"]["labels"].get("accelet.dev/slice") == name:
            body = {"nodeName": node["metadata"]["name"], "containers": []}
            pod = {"metadata": {"name": f"on-{node['metadata']['name']}"}, "spec": body}
            world.state.create(PODS, "ml", pod)


def _nodes_of_pods(world: World) -> set[Any]:
    return {pod["spec"]["nodeName"] for pod in world.objects(PODS)}


async def test_the_slice_on_which_no_group_runs_is_given_back(world: World, start: Start) -> None:
    _ask(world, replicas=2)
    # Pods and the smaller set come by watches of their own: the provisioner has the pods when it says so.
    async with start(unused_s=0.1):
        await eventually(
            lambda: _ready(world) == [0, 1] and len(world.conditions("Unused")) == 2, within_s=60
        )
        _run_on(world, 1)
        await eventually(lambda: len(world.conditions("Unused")) == 1, within_s=60)

        _scale(world, 1)
        await eventually(lambda: _ready(world) == [1], within_s=60)
        assert _nodes_of_pods(world) == {one["metadata"]["name"] for one in world.objects(NODES)}

        _scale(world, 3)
        await eventually(lambda: len(_ready(world)) == 3 and -1 not in _ready(world), within_s=60)


async def test_pods_that_are_seen_late_decide_which_slice_is_kept(world: World, start: Start) -> None:
    """The smaller set is seen first, and a slice is on its way out by the time its pods are seen."""
    _ask(world, replicas=2)
    async with start(grace_s=3600.0):
        await eventually(lambda: _ready(world) == [0, 1], within_s=60)
        _scale(world, 1)
        await eventually(lambda: _ready(world) == [-1, 0], within_s=60)
        _run_on(world, 1)
        await eventually(lambda: _ready(world) == [-1, 1])
        assert {one["metadata"]["name"] for one in world.objects(NODES)} >= _nodes_of_pods(world)


async def test_a_group_that_is_recreated_keeps_its_slice_and_a_set_that_goes_gives_all_back(
    world: World, start: Start
) -> None:
    _ask(world, replicas=1)
    async with start():
        await eventually(lambda: _ready(world) == [0], within_s=60)
        before = {one["metadata"]["name"] for one in world.objects(NODES)}
        _run_on(world, 0)
        for pod in world.objects(PODS):
            world.state.delete(PODS, ("ml", pod["metadata"]["name"]))
        _run_on(world, 0)
        assert {one["metadata"]["name"] for one in world.objects(NODES)} == before

        for pod in world.objects(PODS):
            world.state.delete(PODS, ("ml", pod["metadata"]["name"]))
        world.state.delete(SETS, ("ml", "serve"))
        await eventually(lambda: not world.objects(REQUESTS) and not world.objects(NODES), within_s=60)


async def test_a_template_that_asks_for_other_machines_is_told(world: World, start: Start) -> None:
    _ask(world, replicas=1)
    async with start():
        await eventually(lambda: _ready(world) == [0], within_s=60)
        changed = leader_worker_set(replicas=1, size=4)["spec"]
        world.state.patch(SETS, ("ml", "serve"), "merge-patch", {"spec": changed})

        await eventually(
            lambda: any("was made for other pods" in note for note in world.notes()), within_s=60
        )
        (event,) = (one for one in world.objects(EVENTS) if "was made for other pods" in one["note"])
        assert event["regarding"]["kind"] == "LeaderWorkerSet"
        (request,) = world.objects(REQUESTS)

        world.state.delete(REQUESTS, ("ml", request["metadata"]["name"]))
        await eventually(
            lambda: [one["spec"]["topology"] for one in world.objects(REQUESTS)] == ["4x4"], within_s=60
        )
        await eventually(lambda: _ready(world) == [0], within_s=60)
