"""Slices that are put aside and taken over, by whole runs of the provisioner with the simulated provider."""

import asyncio

from accelet.provisioner.settings import LimitSettings
from tests.integration.kube.waiting import eventually
from tests.integration.provisioner.conftest import Start
from tests.integration.provisioner.world import JOB_SETS, MAPS, NODES, REQUESTS, World

WITHIN_S = 60.0


def _pools(world: World) -> set[str]:
    return {one["metadata"]["name"] for one in world.objects(MAPS)}


def _bound(world: World) -> set[str]:
    key = "alpha.jobset.sigs.k8s.io/namespaced-job"
    return {node["metadata"]["labels"].get(key, "") for node in world.objects(NODES)}


async def _park(world: World, name: str) -> set[str]:
    """A JobSet's slices once it is over and they are put aside."""
    world.ask(name)
    await eventually(lambda: world.phases(name) == ["Ready"] * 2 and world.running(name) == 8, WITHIN_S)
    pools = _pools(world)
    world.finish(name)
    await eventually(lambda: world.phases(name) == ["Parked"] * 2, WITHIN_S)
    assert all(node["spec"]["unschedulable"] for node in world.objects(NODES))
    return pools


async def test_the_next_job_set_takes_parked_slices_over(world: World, start: Start) -> None:
    async with start(park_s=600):
        pools = await _park(world, "one")
        world.ask("two")
        await eventually(lambda: world.running("two") == 8, WITHIN_S)
        assert (_pools(world), _bound(world)) == (pools, {"ml_two-w-0", "ml_two-w-1"})
        await eventually(lambda: world.phases("one") == [], WITHIN_S)
        assert {one["status"]["pool"] for one in world.objects(REQUESTS)} == pools
        await eventually(lambda: {"SliceParked", "SliceReused"} <= world.reasons())
        assert not any("asks for the parked pool" in note for note in world.notes()), "nothing is wrong"
    async with start():  # what is set to park nothing ends what is parked, also if it was another's
        world.finish("two")
        await eventually(lambda: not world.objects(REQUESTS) and not world.objects(MAPS), WITHIN_S)
    assert (world.partial, world.killed, world.objects(NODES)) == ([], [], [])


async def test_parked_slices_are_given_back_at_their_time(world: World, start: Start) -> None:
    async with start(park_s=1):
        await _park(world, "one")
        await eventually(lambda: not world.objects(REQUESTS) and not world.objects(MAPS), WITHIN_S)
        await eventually(lambda: any("no other job asked for it" in note for note in world.notes()))


async def test_who_deletes_a_job_gets_its_slices_given_back(world: World, start: Start) -> None:
    async with start(park_s=600):
        await _park(world, "one")
        world.state.delete(JOB_SETS, ("ml", "one"))
        for one in world.objects(REQUESTS):  # what the API server's garbage collector does
            world.state.delete(REQUESTS, ("ml", one["metadata"]["name"]))
        await eventually(lambda: not world.objects(REQUESTS) and not world.objects(MAPS), WITHIN_S)


async def test_parked_slices_count_below_the_limits_and_make_room(world: World, start: Start) -> None:
    async with start(park_s=600, limits=LimitSettings(slices=2)):
        pools = await _park(world, "one")
        world.ask("two")
        await eventually(lambda: world.running("two") == 8, WITHIN_S)
        assert _pools(world) == pools
        world.finish("two")
        await eventually(lambda: world.phases("two") == ["Parked"] * 2, WITHIN_S)
        world.ask("other", replicas=1, topology="2x4", pods=2)
        await eventually(lambda: world.running("other") == 2, WITHIN_S)
        assert world.phases("two") == ["Parked"], "one of the two was enough"


async def test_a_kill_while_slices_change_hands_loses_nothing(world: World, start: Start) -> None:
    async with start(park_s=600):
        pools = await _park(world, "one")
    world.ask("two")
    for pause_s in (0.1, 0.15, 0.2, 0.25, 0.3, 0.4):
        async with start(park_s=600):
            await asyncio.sleep(pause_s)
    async with start(park_s=600):
        await eventually(lambda: world.running("two") == 8, WITHIN_S)
        await eventually(lambda: world.phases("one") == [], WITHIN_S)
    assert (_pools(world), world.partial, world.killed) == (pools, [], [])
