"""Assignments that cannot simply be followed: each refusal is a sentence in the pod's status."""

from pathlib import Path

import pytest

from accelet.fakekubelet import Pod, PodRecord, a_container, a_pod
from tests.integration.agent.running import GPU, configuration_loaded_at, until, write_config
from tests.integration.identity.test_assignments import cards, mask
from tests.integration.identity.world import World, gas, gpu_pod, node, sample, served, tiles_config


def refusal(record: PodRecord) -> str:
    assert record.rejection is not None
    return record.rejection.message


@pytest.mark.parametrize(
    ("pod", "sentence"),
    [
        (gpu_pod("p", "card9"), "It is assigned card9, which gpu.intel.com/i915 does not have"),
        (gpu_pod("p", "card0", "card0:gt2"), "It is assigned tile 2 of card0, which has 2 tiles"),
        (gpu_pod("p", "card0,card1"), "It is assigned 2 devices (card0, card1) and requests 1"),
        (gpu_pod("p", "card0|card1"), "gas-container-cards has 2 slots, but the pod has 1"),
    ],
)
async def test_bad_annotation_is_refused(folder: Path, pod: Pod, sentence: str) -> None:
    async with node(folder) as world, served(world, folder, tiles_config(), devices=20) as running:
        record = await world.admit(pod)
        assert sentence in refusal(record)
        await until(lambda: [event[:2] for event in world.events()] == [("p", "AllocationRefused")])
        assert sentence in world.events()[0][2]
        assert sample(running, "accelet_allocations_total", outcome="bad-assignment") == 1


async def test_container_without_assignment_gets_a_whole_card_far_from_assigned_ones(folder: Path) -> None:
    async with node(folder) as world, served(world, folder, tiles_config(3), devices=30):
        await world.admit(gpu_pod("a", "card0", "card0:gt0"))
        await world.admit(gpu_pod("b", "card1", "card1:gt0"))
        plain = await world.admit(a_pod("plain", limits={GPU: 3}))
        assert (cards(plain), mask(plain)) == (["card2"], None)


async def test_container_without_assignment_is_refused_where_the_policy_says_so(folder: Path) -> None:
    config = tiles_config(options="on_missing: refuse")
    async with node(folder) as world, served(world, folder, config, devices=20):
        record = await world.admit(a_pod("plain", limits={GPU: 1}))
        assert "no annotation of its pod assigns it any" in refusal(record)


async def exhaust(world: World, card: int, shares: int) -> None:
    await world.admit(gpu_pod(f"full-{card}", f"card{card}", count=shares))


async def test_other_devices_than_those_assigned_are_refused(folder: Path) -> None:
    async with node(folder) as world, served(world, folder, tiles_config(shares=2), devices=4) as running:
        await exhaust(world, 0, 2)
        record = await world.admit(gpu_pod("late", "card0", "card0:gt1"))
        assert "assigned is card0 tile 1, but the kubelet chose 0000-04-00.0-s" in refusal(record)
        assert sample(running, "accelet_assignment_deviations_total", kind="mismatch") == 1


async def test_other_devices_are_given_whole_where_the_policy_is_lenient(folder: Path) -> None:
    config = tiles_config(shares=2, options="on_mismatch: lenient")
    async with node(folder) as world, served(world, folder, config, devices=4) as running:
        await exhaust(world, 0, 2)
        record = await world.admit(gpu_pod("late", "card0", "card0:gt1"))
        assert (cards(record), mask(record)) == (["card1"], None)
        await until(lambda: [event[:2] for event in world.events()] == [("late", "AssignmentMismatch")])
        assert sample(running, "accelet_assignment_deviations_total", kind="mismatch") == 1


async def test_tile_of_another_live_pod_is_given_and_reported(folder: Path) -> None:
    async with node(folder) as world, served(world, folder, tiles_config(), devices=20) as running:
        await world.admit(gpu_pod("first", "card0", "card0:gt1"))
        second = await world.admit(gpu_pod("second", "card0", "card0:gt0+gt1"))
        assert (cards(second), mask(second)) == (["card0"], None)
        await until(lambda: [event[:2] for event in world.events()] == [("second", "AssignmentConflict")])
        assert "held by pod default/first (container main)" in world.events()[0][2]
        assert sample(running, "accelet_assignment_deviations_total", kind="conflict") == 1


async def test_tile_of_another_live_pod_is_refused_where_the_policy_says_so(folder: Path) -> None:
    config = tiles_config(options="on_conflict: refuse")
    async with node(folder) as world, served(world, folder, config, devices=20):
        first = await world.admit(gpu_pod("first", "card0", "card0:gt1"))
        second = await world.admit(gpu_pod("second", "card0", "card0:gt1"))
        assert "tile 1 of 0000-03-00.0 is assigned to it and held by pod default/first" in refusal(second)
        await world.remove(first)
        third = await world.admit(gpu_pod("third", "card0", "card0:gt1"))
        assert mask(third) == "1"


async def test_changed_policies_refuse_no_pod_in_admission(folder: Path) -> None:
    async with node(folder) as world, served(world, folder, tiles_config(shares=300), devices=600) as running:
        loaded_at = configuration_loaded_at(running)
        records = [await world.admit(gpu_pod("before", "card1", "card1:gt1"))]
        write_config(folder, tiles_config(shares=300, options="on_missing: refuse\n  policy: packed"))
        while configuration_loaded_at(running) == loaded_at:
            names = [f"pod-{len(records)}-{i}" for i in range(5)]
            admitted = [
                world.kubelet.bind(world.create(gpu_pod(name, "card1", "card1:gt1"))) for name in names
            ]
            for record in admitted:
                await world.kubelet.decided(record)
            records += admitted
        assert {mask(record) for record in records} == {"1"}
        assert "no annotation of its pod assigns it any" in refusal(
            await world.admit(a_pod("plain", limits={GPU: 1}))
        )
        assert world.kubelet.resource(GPU).registrations == 1


async def test_unproven_call_is_refused_or_given_whole_by_the_policy(folder: Path) -> None:
    """A static pod: the API server does not know it before it is admitted."""
    async with node(folder) as world, served(world, folder, tiles_config(), devices=20):
        record = await world.kubelet.admit(a_pod("static", limits={GPU: 1}))
        assert "a static pod is not shown before it is admitted" in refusal(record)
    config = tiles_config(options="on_unproven: default")
    async with node(folder) as world, served(world, folder, config, devices=20):
        record = await world.kubelet.admit(a_pod("static", limits={GPU: 1}))
        assert (len(cards(record)), mask(record)) == (1, None)


async def test_init_containers_devices_that_come_again_fit_what_comes_after(folder: Path) -> None:
    async with node(folder) as world, served(world, folder, tiles_config(4, shares=3), devices=12):
        init = [a_container("init", {GPU: 2})]
        main = [a_container("a", {GPU: 2}), a_container("b", {GPU: 1})]
        said = gas("card1,card3|card2", "card1:gt0,card3:gt1|card2:gt1")
        pod = await world.admit(a_pod("pod", init_containers=init, containers=main, annotations=said))
        assert (cards(pod, "a"), mask(pod, "a")) == (["card1", "card3"], "0,3")
        assert (cards(pod, "b"), mask(pod, "b")) == (["card2"], "1")


async def test_preferred_choice_skipped_by_the_kubelet_changes_nothing(folder: Path) -> None:
    """As many as there are: it is a kubelet that chooses at random then, and there is but one choice."""
    async with node(folder) as world, served(world, folder, tiles_config(1, shares=1), devices=1):
        record = await world.admit(gpu_pod("only", "card0", "card0:gt1"))
        assert mask(record) == "1"


async def test_nothing_is_followed_before_the_policy_is_in_force(folder: Path) -> None:
    """Which a configuration may require: before that, anybody may have written the assignment."""
    required = "require_policies: true\n"
    async with node(folder) as world, served(world, folder, tiles_config(), required, devices=20) as running:
        record = await world.admit(gpu_pod("early", "card0", "card0:gt1"))
        assert "not believed yet: there is no ValidatingAdmissionPolicy accelet-assignments" in refusal(
            record
        )
        assert sample(running, "accelet_matches_total", proof="none-unguarded") == 1
        kinds = "apis/admissionregistration.k8s.io/v1/validatingadmissionpolic"
        spec = {"policyName": "accelet-assignments", "validationActions": ["Deny"]}
        for kind, body in (("ies", {}), ("ybindings", {"spec": spec})):
            metadata = {"name": "accelet-assignments"}
            world.api.state.create(f"{kinds}{kind}", "", {"metadata": metadata, **body})
        registry = running.metrics.registry
        await until(lambda: registry.get_sample_value("accelet_policies_missing") == 0)
        assert mask(await world.admit(gpu_pod("late", "card0", "card0:gt1"))) == "1"


async def test_a_configuration_that_requires_no_policies_any_more_follows_at_once(folder: Path) -> None:
    required = "require_policies: true\n"
    async with node(folder) as world, served(world, folder, tiles_config(), required, devices=20) as running:
        loaded_at = configuration_loaded_at(running)
        write_config(folder, tiles_config())
        await until(lambda: configuration_loaded_at(running) != loaded_at)
        assert mask(await world.admit(gpu_pod("p", "card0", "card0:gt1"))) == "1"
