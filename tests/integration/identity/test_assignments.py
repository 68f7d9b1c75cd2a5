"""Containers get the cards and tiles their annotations say, over real sockets."""

from pathlib import Path

from accelet.fakekubelet import PodRecord, a_container, a_pod
from tests.integration.agent.running import GPU, scan, until
from tests.integration.identity.world import (
    GENERATED,
    REPLICA_SET,
    gas,
    gpu_pod,
    node,
    sample,
    served,
    tiles_config,
)


def cards(record: PodRecord, container: str = "main") -> list[str]:
    return sorted(Path(node.container_path).name for node in record[container].options.devices)


def mask(record: PodRecord, container: str = "main") -> str | None:
    return record[container].options.envs.get("ZE_AFFINITY_MASK")


async def test_container_gets_its_card_and_tile(folder: Path) -> None:
    async with node(folder) as world, served(world, folder, tiles_config(), devices=20) as running:
        pod = await world.admit(gpu_pod("one", "card1", "card1:gt1"))
        assert (cards(pod), mask(pod)) == (["card1"], "1")
        assert pod["main"].options.envs["ZE_FLAT_DEVICE_HIERARCHY"] == "FLAT"
        assert pod["main"].options.annotations["accelet.dev/proof"] == "visible"
        await until(lambda: sample(running, "accelet_answers_settled_total", outcome="confirmed") == 1)
        assert sample(running, "accelet_matches_total", proof="visible") == 1


async def test_each_container_of_a_pod_gets_its_own(folder: Path) -> None:
    async with node(folder) as world, served(world, folder, tiles_config(3), devices=30):
        main = [a_container("a", {GPU: 1}), a_container("b"), a_container("c", {GPU: 2})]
        said = gas("card2||card0,card1", "card2:gt0||card0:gt1,card1:gt0+gt1")
        pod = await world.admit(a_pod("several", containers=main, annotations=said))
        assert (cards(pod, "a"), mask(pod, "a")) == (["card2"], "0")
        assert (cards(pod, "c"), mask(pod, "c")) == (["card0", "card1"], "1,2,3")


async def test_own_hierarchy_of_the_container_is_honoured(folder: Path) -> None:
    async with node(folder) as world, served(world, folder, tiles_config(), devices=20):
        own = {"main": {"ZE_FLAT_DEVICE_HIERARCHY": "COMPOSITE"}}
        pod = await world.admit(gpu_pod("one", "card1", "card1:gt1"), environment=own)
        assert mask(pod) == "0.1"
        assert "ZE_FLAT_DEVICE_HIERARCHY" not in pod["main"].options.envs


async def test_sidecars_and_init_containers_do_not_shift_anything(folder: Path) -> None:
    async with node(folder) as world, served(world, folder, tiles_config(4), devices=40):
        init = [a_container("init", {GPU: 1}), a_container("side", {GPU: 1}, restart_policy="Always")]
        main = [a_container("a", {GPU: 2}), a_container("b", {GPU: 1})]
        said = gas("card1,card2|card3", "card1:gt0,card2:gt1|card3:gt1")
        pod = await world.admit(a_pod("mixed", containers=main, init_containers=init, annotations=said))
        assert (cards(pod, "a"), mask(pod, "a")) == (["card1", "card2"], "0,3")
        assert (cards(pod, "b"), mask(pod, "b")) == (["card3"], "1")


async def test_burst_of_pods_is_told_apart(folder: Path) -> None:
    async with node(folder) as world, served(world, folder, tiles_config(4), devices=40):
        pods = [gpu_pod(f"pod-{i}", f"card{i % 4}", f"card{i % 4}:gt{i // 4 % 2}") for i in range(16)]
        records = [world.kubelet.bind(world.create(pod)) for pod in pods]
        for i, record in enumerate(records):
            await world.kubelet.decided(record)
            assert (cards(record), mask(record)) == ([f"card{i % 4}"], str(i // 4 % 2))


async def test_generated_name_needs_no_request_to_the_api_server(folder: Path) -> None:
    async with node(folder) as world, served(world, folder, tiles_config(), devices=20) as running:
        created = world.create(gpu_pod(GENERATED, "card1", "card1:gt1"), owner=REPLICA_SET)
        await until(lambda: created.uid in running.pods_known())
        before = len(world.api.seen)
        record = world.kubelet.bind(created)
        await world.kubelet.decided(record)
        assert mask(record) == "1"
        assert world.requests_for_pods(before) == []


async def test_pods_deleted_by_force_are_not_asked_for_at_each_call_after(folder: Path) -> None:
    async with node(folder) as world, served(world, folder, tiles_config(), devices=20) as running:
        former = [await world.admit(gpu_pod(f"former-{i}", "card1", "card1:gt1")) for i in range(8)]
        for record in former:
            await world.remove(record)
        await world.admit(gpu_pod("next", "card1", "card1:gt1"))  # for this one the kubelet frees theirs
        for _ in range(3):
            await scan(folder, running)  # and the agent lets go of them
        asked = sample(running, "accelet_match_questions_total", question="get")
        for i in range(4):
            assert mask(await world.admit(gpu_pod(f"next-{i}", "card1", "card1:gt1"))) == "1"
        assert sample(running, "accelet_match_questions_total", question="get") == asked + 4
