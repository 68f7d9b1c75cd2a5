"""A pod that was admitted without devices, of which nothing tells so, is taken for nobody else."""

from pathlib import Path

import pytest

from accelet.fakeapi import Answer
from accelet.fakeapi.faults import Fault
from accelet.fakekubelet import PodRecord
from tests.integration.agent.running import GPU, agent, config, until, write_config
from tests.integration.identity.test_assignments import cards, mask
from tests.integration.identity.test_policies import refusal
from tests.integration.identity.world import (
    GENERATED,
    REPLICA_SET,
    World,
    gpu_pod,
    node,
    sample,
    served,
    tiles_config,
)


async def admit_late(world: World) -> PodRecord:
    """A pod that waits for its image, so that the kubelet has written no status of its container yet.

    It changes once more, so that its version is newer than those of pods made after it.
    """
    late = await world.kubelet.admit(world.create(gpu_pod("late", "card1", "card1:gt1")), start=False)
    world.patch(late.pod, {"metadata": {"labels": {"changed": "yes"}}})
    return late


async def admit_other(world: World, number: int) -> PodRecord:
    """One whose name needs no read."""
    name = f"{GENERATED[:-1]}{number}"
    return await world.admit(gpu_pod(name, "card0", "card0:gt0"), owner=REPLICA_SET)


async def assert_it_is_known(world: World, late: PodRecord) -> None:
    """Who asks for as many devices is refused until it is gone, and then gets what it is assigned."""
    for number in (2, 4):
        assert "it cannot be told which container this call is for" in refusal(
            await admit_other(world, number)
        )
    await world.remove(late)
    last = await admit_other(world, 9)
    assert (cards(last), mask(last)) == (["card0"], "0")


@pytest.mark.parametrize("lives", [1, 2], ids=["first agent", "agent that began again"])
async def test_pod_admitted_before_any_agent_is_known_to_each_that_starts(folder: Path, lives: int) -> None:
    async with node(folder) as world:
        late = await admit_late(world)
        for _ in range(lives - 1):
            async with served(world, folder, tiles_config(), devices=20):
                pass
        async with served(world, folder, tiles_config(), devices=20):
            await assert_it_is_known(world, late)


async def test_pod_admitted_without_devices_is_known_after_its_resource_was_changed(folder: Path) -> None:
    async with node(folder) as world:
        late = await admit_late(world)
        async with served(world, folder, tiles_config(), devices=20):
            write_config(folder, tiles_config(shares=11))
            await world.kubelet.resource(GPU).devices(healthy=22)
            await assert_it_is_known(world, late)


async def test_nothing_is_proven_before_the_pods_are_known(folder: Path) -> None:
    """The API server is away when the agent registers, which waits for nobody."""
    async with node(folder) as world:
        late = await admit_late(world)
        world.api.faults.append(Fault(Answer(503), times=10**6))
        (folder / "config.yaml").write_text(config(tiles_config()))
        async with agent(folder, folder / "config.yaml", world.kubeconfig) as running:
            await world.kubelet.resource(GPU).devices(healthy=20)
            early = await admit_other(world, 8)
            assert "It is not known yet which pods the kubelet admitted before it knew" in refusal(early)
            assert sample(running, "accelet_matches_total", proof="none-unanswered") == 1
            world.api.faults.clear()
            await until(lambda: world.api.count(path="/pods", watch=True) > 0, timeout_s=60)
            await running.knows_pods()
            await assert_it_is_known(world, late)


async def test_pod_that_had_devices_before_a_checkpoint_was_rejected_has_none_now(folder: Path) -> None:
    async with node(folder) as world, served(world, folder, tiles_config(), devices=20):
        late = await admit_late(world)
        assert late["main"].devices
        await world.kubelet.stop()
        checkpoint = world.kubelet.checkpoint
        checkpoint.write_bytes(checkpoint.read_bytes().replace(b'"Checksum":', b'"Checksum":1'))
        await world.kubelet.start()
        assert any(event.event == "checkpoint-corrupt" for event in world.kubelet.trace)
        await world.kubelet.resource(GPU).devices(healthy=20)
        await assert_it_is_known(world, late)
