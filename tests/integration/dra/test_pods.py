"""Pods with claims on a fake kubelet: what their containers get, and what is left when they go."""

from pathlib import Path
from typing import Any

import pytest

from accelet.fakekubelet import GiveUp, LoseAnswer, Pod, PodRecord, Twice, a_container, a_pod
from tests.integration.dra.world import CLAIMS, GPU, NODE, World, a_node, an_agent, result, until

TILE_0, TILE_1 = "gpu-0000-03-00-0-tile-0", "gpu-0000-03-00-0-tile-1"
CARD_1 = "gpu-0000-04-00-0"
Json = dict[str, Any]


def made(world: World, name: str, *devices: str) -> tuple[Json, Pod]:
    """A claim of these devices at the API server, and a pod whose one container uses it."""
    claim = world.claim(name, *(result(device) for device in devices))
    return claim, pod_of(world, claim)


def pod_of(world: World, claim: Json) -> Pod:
    consumer = claim["status"]["reservedFor"][0]
    return a_pod(
        consumer["name"],
        "ml",
        uid=consumer["uid"],
        generated_claims={"gpu": claim["metadata"]["name"]},
    )


async def admitted(world: World, pod: Pod) -> PodRecord:
    await world.register()
    return await world.kubelet.admit(pod)


async def test_container_gets_what_its_claim_gives(folder: Path) -> None:
    async with a_node(folder) as world, an_agent(world):
        record = await admitted(world, made(world, "tile", TILE_1)[1])
        assert record.claim_error is None
        assert record["main"].injected.nodes == ("/dev/dri/card0",)
        assert record["main"].injected.envs["ZE_AFFINITY_MASK"] == "1"
        await world.kubelet.remove(record)
        await world.kubelet.released(record)
        assert list(world.cdi.iterdir()) == []


async def test_a_kubelet_killed_meanwhile_disturbs_no_container_and_forgets_no_claim(folder: Path) -> None:
    async with a_node(folder, pace=20) as world, an_agent(world):
        record = await admitted(world, made(world, "tile", TILE_0)[1])
        await world.kubelet.running(record)
        await world.kubelet.restart()
        await world.kubelet.driver_registered(GPU)
        await until(lambda: len(world.slices()) == 2)
        assert await world.kubelet.restart_container(record)
        await world.kubelet.renew_sandbox(record)
        await world.kubelet.running(record)
        assert record["main"].injected.envs["ZE_AFFINITY_MASK"] == "0"
        await world.kubelet.stop()
        await world.kubelet.remove(record)
        await world.kubelet.start()
        await world.kubelet.driver_registered(GPU)
        await world.kubelet.released(record)
        assert list(world.cdi.iterdir()) == []


async def test_slices_of_a_driver_that_was_gone_too_long_come_back_with_it(folder: Path) -> None:
    async with a_node(folder, pace=20) as world:
        async with an_agent(world):
            driver = await world.register()
            await until(lambda: len(world.slices()) == 2)
        await driver.disconnected()
        await until(lambda: world.slices() == [])
        async with an_agent(world):
            await until(lambda: len(world.slices()) == 2)


@pytest.mark.parametrize("version", ["1.36", "1.37"])
async def test_health_is_told_by_the_service_that_the_kubelet_knows(folder: Path, version: str) -> None:
    async with a_node(folder, version=version) as world, an_agent(world):
        driver = await world.register()
        await driver.said(TILE_0, "Healthy")
        assert driver.health[NODE, CARD_1] == ("Healthy", "")


@pytest.mark.parametrize("at_once", [False, True])
async def test_two_prepares_of_one_claim_are_one(folder: Path, *, at_once: bool) -> None:
    async with a_node(folder) as world, an_agent(world):
        world.kubelet.faults.prepare.inject(Twice(at_once))
        record = await admitted(world, made(world, "tile", TILE_0)[1])
        assert record.claim_error is None
        assert len(list(world.cdi.glob("*.json"))) == 1


async def test_an_answer_that_is_lost_is_given_again(folder: Path) -> None:
    """The kubelet takes the claim for not prepared, and comes back a minute later."""
    async with a_node(folder, pace=20) as world, an_agent(world):
        world.kubelet.faults.prepare.inject(LoseAnswer(), times=1)
        world.kubelet.faults.unprepare.inject(LoseAnswer(), times=1)
        record = await admitted(world, made(world, "tile", TILE_0)[1])
        assert "error reading from server" in (record.claim_error or "")
        await world.kubelet.running(record)
        await world.kubelet.remove(record)
        await world.kubelet.released(record)
        assert list(world.cdi.iterdir()) == []


async def test_a_claim_allocated_anew_while_its_old_pod_ends_harms_nobody(folder: Path) -> None:
    """The kubelet knows claims by name and uid alone, and gives the new pod the old tile."""
    async with a_node(folder) as world, an_agent(world):
        claim = world.claim("shared", result(TILE_0), owned=False)
        first = pod_of(world, claim)
        await admitted(world, _by_name(first))
        again = world.api.state.get(CLAIMS, ("ml", "shared"))
        again["status"]["allocation"]["devices"]["results"] = [result(TILE_1)]
        consumer = {"resource": "pods", "name": "next", "uid": "uid-next"}
        again["status"]["reservedFor"] = [consumer]
        world.api.state.replace(CLAIMS, ("ml", "shared"), again)
        second = await admitted(world, a_pod("next", "ml", uid="uid-next", claims={"gpu": "shared"}))
        assert second["main"].injected.envs["ZE_AFFINITY_MASK"] == "0"
        world.kubelet.faults.prepare.inject(GiveUp(after_s=5))  # the driver would wait for the tile
        third = await admitted(world, made(world, "third", TILE_0)[1])
        assert not third.has_sandbox
        assert len(list(world.cdi.glob("*.json"))) == 1


def _by_name(pod: Pod) -> Pod:
    return a_pod(pod.name, pod.namespace, uid=pod.uid, claims={"gpu": pod.claims[0].claim})


async def test_two_containers_of_one_pod_share_a_claim(folder: Path) -> None:
    async with a_node(folder) as world, an_agent(world):
        claim = world.claim("card", result(CARD_1))
        both = a_pod(
            claim["status"]["reservedFor"][0]["name"],
            "ml",
            uid=claim["status"]["reservedFor"][0]["uid"],
            generated_claims={"gpu": "card"},
            containers=[a_container("one", claims=["gpu"]), a_container("other", claims=["gpu/gpu"])],
        )
        record = await admitted(world, both)
        assert {record[name].injected.nodes for name in ("one", "other")} == {("/dev/dri/card1",)}
