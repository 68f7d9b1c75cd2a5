"""The Node says which cards there are and how much of them pods may ask for, and follows what happens."""

import asyncio
from pathlib import Path

import pytest

from accelet.agent.process import Agent
from accelet.assignments.assignment import Assignment, unit
from accelet.assignments.nodecards import NODE_CARDS_ANNOTATION
from accelet.assignments.ownform import ASSIGNMENT_ANNOTATION, render_own
from accelet.fakeapi import Answer, Fault
from accelet.fakehost.gpus import write_gpus
from accelet.fakehost.nodes import ARC, ARC_I915
from accelet.fakehost.nvidia import DGX_A100, write_nvidia
from accelet.fakekubelet import a_pod
from tests.integration.agent.running import GPU, agent, scan, until
from tests.integration.cards.publishing import (
    FIRST,
    NODES,
    PATH,
    XE,
    amounts_of,
    cards_of,
    make_node,
    node_of,
    published,
    publishing,
    resource,
    unassigned,
    write_cards,
    write_config,
    writes,
)
from tests.integration.identity.world import World, gpu_pod, node

GIB = 2**30
NOTHING = (None, None, None)


async def test_node_says_its_cards_and_offers_their_parts(folder: Path) -> None:
    async with publishing(folder) as (world, _):
        await until(published(world.api, 2))
        first, second = cards_of(world.api) or ()
        assert (first.id, first.card, first.pci, first.tiles) == (FIRST, "card0", "0000:03:00.0", 2)
        assert (first.resource, first.driver, first.memory_bytes, first.shares) == (GPU, "i915", 16 * GIB, 10)
        assert second.health.is_healthy
        assert amounts_of(world.api) == (4, 2000, 32 * GIB)


async def test_nvidias_gpus_and_instances_are_said_and_the_assigned_one_is_given(folder: Path) -> None:
    write_nvidia(folder, DGX_A100)
    gpu, mig = "nvidia.com/gpu", "nvidia.com/mig"
    followed = "backend: nvidia-gpu, assignment: annotations"
    resources = f"- {{name: {gpu}, {followed}}}\n", f"- {{name: {mig}, {followed}, unit: mig}}\n"
    async with node(folder) as world:
        make_node(world.api)
        async with agent(folder, write_config(folder, *resources), world.kubeconfig) as running:
            await until(lambda: len(cards_of(world.api) or ()) == 10)
            cards = cards_of(world.api) or ()
            assert [card.resource for card in cards] == [gpu] * 6 + [mig] * 4
            assert {(card.card, card.memory_bytes) for card in cards} == {(None, None)}
            await until(lambda: amounts_of(world.api, "nvidia.com") == (10, 10_000, None))
            chosen = cards[3].id
            said = render_own(Assignment({"main": {gpu: (unit(chosen, 0),)}}))
            pod = a_pod("assigned", limits={gpu: 1}, annotations={ASSIGNMENT_ANNOTATION: said})
            await world.kubelet.resource(gpu).devices(healthy=6)
            await asyncio.wait_for(running.knows_pods(), 10)
            held = await world.admit(pod)
            assert set(held["main"].devices[gpu]) == {chosen}


async def test_memory_that_the_kernel_does_not_tell_is_not_said_to_be_0_until_the_configuration_says_it(
    folder: Path,
) -> None:
    write_gpus(folder, ARC_I915)
    cards = f"- {{name: {GPU}, backend: intel-gpu, shares: 10, assignment: annotations}}\n"
    async with node(folder) as world:
        make_node(world.api)
        async with agent(folder, write_config(folder, cards), world.kubeconfig) as running:
            await asyncio.wait_for(running.knows_pods(), 10)
            await until(published(world.api, 1))
            (card,) = cards_of(world.api) or ()
            assert (card.model, card.memory_bytes) == ("0x56a5", None)
            assert '"memory"' not in node_of(world.api).annotations[NODE_CARDS_ANNOTATION]
            assert amounts_of(world.api) == (1, 1000, None)
            write_config(folder, cards.replace("shares", "memory: {0x56a5: 6Gi}, shares"))
            await until(lambda: amounts_of(world.api) == (1, 1000, 6 * GIB))
            write_config(folder, cards)
            await until(lambda: amounts_of(world.api) == (1, 1000, None))


async def test_memory_is_that_of_the_regions_of_the_kernel(folder: Path) -> None:
    write_gpus(folder, ARC[1:])
    cards = f"- {{name: {XE}, backend: intel-gpu, shares: 10, assignment: annotations}}\n"
    async with node(folder) as world:
        make_node(world.api)
        async with agent(folder, write_config(folder, cards), world.kubeconfig):
            await until(published(world.api, 1))
            assert amounts_of(world.api) == (1, 1000, 12 * GIB)


async def test_nothing_is_written_where_nothing_differs(folder: Path) -> None:
    async with publishing(folder) as (world, running):
        await until(published(world.api, 2))
        asked, scans = world.api.count(path=PATH), 5
        for _ in range(scans):
            await scan(folder, running)
        assert writes(world.api) == 2
        # It looks once some seconds after the kubelet has started.
        assert world.api.count(path=PATH) - asked < scans


async def test_health_and_hot_plug_are_published_with_the_scan_that_sees_them(folder: Path) -> None:
    async with publishing(folder) as (world, running):
        await until(published(world.api, 2))
        write_cards(folder, 3, sick=[0])
        await scan(folder, running)
        await until(published(world.api, 3), timeout_s=3)
        assert [card.health.reason for card in cards_of(world.api) or ()] == ["it is sick", None, None]
        assert amounts_of(world.api) == (4, 2000, 32 * GIB)
        write_cards(folder, 1)
        await scan(folder, running)
        await until(published(world.api, 1), timeout_s=3)


async def test_recovered_card_is_offered_when_the_kubelet_is_told_so(folder: Path) -> None:
    """One good scan is not enough for the kubelet; a scheduler that knew earlier would assign in vain."""
    async with publishing(folder) as (world, running):
        write_cards(folder, 1, sick=[0])
        await scan(folder, running)
        await until(lambda: amounts_of(world.api) == (0, 0, 0))
        write_cards(folder, 1)
        await scan(folder, running)
        assert (
            running.metrics.registry.get_sample_value(
                "accelet_devices", {"resource": GPU, "health": "Healthy"}
            )
            == 0
        )
        assert amounts_of(world.api) == (0, 0, 0)
        await scan(folder, running)
        await until(lambda: amounts_of(world.api) == (2, 1000, 16 * GIB), timeout_s=3)


async def test_node_without_cards_shows_no_trace(folder: Path) -> None:
    async with publishing(folder, cards=0) as (world, running):
        await scan(folder, running)
        assert (cards_of(world.api), writes(world.api)) == (None, 0)
        write_cards(folder, 1)
        await scan(folder, running)
        await until(published(world.api, 1))
        write_cards(folder, 0)
        await scan(folder, running)
        await until(lambda: cards_of(world.api) is None and amounts_of(world.api) == NOTHING)


async def test_resources_of_one_domain_add_up_and_others_are_nobodys_business(folder: Path) -> None:
    async with node(folder) as world:
        make_node(world.api)
        both = [resource(write_cards(folder, 1)), resource(folder / "xe.yaml", name=XE)]
        other = 'cards: [{pci: "0000:77:00.0", nodes: [{path: /dev/null}]}]'
        plain = f"- {{name: a.b/c, backend: simulated, {other}}}\n"
        (folder / "xe.yaml").write_text(
            '{"cards": [{"pci": "0000:88:00.0", "driver": "xe", "nodes": [{"path": "/dev/null"}]}]}'
        )
        async with agent(folder, write_config(folder, *both, plain), world.kubeconfig):
            await until(published(world.api, 2))
            assert {card.resource for card in cards_of(world.api) or ()} == {GPU, XE}
            assert amounts_of(world.api) == (3, 2000, 16 * GIB)


async def test_nothing_is_said_before_every_resource_has_been_looked_at(folder: Path) -> None:
    async with node(folder) as world:
        make_node(world.api)
        both = [resource(write_cards(folder, 1)), resource(folder / "xe.yaml", name=XE)]
        async with agent(folder, write_config(folder, *both), world.kubeconfig) as running:
            await world.kubelet.resource(GPU).devices(healthy=10)
            await running.knows_pods()
            await scan(folder, running)
            assert cards_of(world.api) is None
            (folder / "xe.yaml").write_text('{"cards": []}')
            await scan(folder, running, XE)
            await until(published(world.api, 1))


async def test_holders_without_an_assignment_are_told_while_they_hold(folder: Path) -> None:
    async with publishing(folder, cards=1) as (world, running):
        await until(published(world.api, 1))
        await world.kubelet.resource(GPU).devices(healthy=10)
        await running.knows_pods()
        plain = await world.admit(a_pod("plain", limits={GPU: 2}))
        await until(lambda: unassigned(world.api) == 2)
        await world.admit(gpu_pod("assigned", "card0", "card0:gt1"))
        await world.admit(a_pod("other", limits={GPU: 1}))
        await until(lambda: unassigned(world.api) == 3)
        await world.remove(plain)
        for _ in range(2):  # the books believe it when two views in a row have said so
            await scan(folder, running)
        await until(lambda: unassigned(world.api) == 1, timeout_s=3)
        assert writes(world.api) < 10


async def lists_within_scans(world: World, folder: Path, running: Agent) -> int:
    """How often pods are listed within three scans: the least of ten tries, as something may be under way."""
    least = 1
    for _ in range(10):
        before = world.api.count(method="GET", path="/api/v1/pods")
        for _ in range(3):
            await scan(folder, running)
        least = min(least, world.api.count(method="GET", path="/api/v1/pods") - before)
        if least == 0:
            break
    return least


@pytest.mark.parametrize("version", ["1.33", "1.36"])
async def test_agent_that_starts_does_not_count_pods_that_ended_before(folder: Path, version: str) -> None:
    """The kubelet's checkpoint has them until the next pod is admitted, which nobody would assign a card."""
    async with node(folder, version) as world:
        make_node(world.api)
        config = write_config(folder, resource(write_cards(folder, 1)))
        async with agent(folder, config, world.kubeconfig) as running:
            await world.kubelet.resource(GPU).devices(healthy=10)
            await running.knows_pods()
            gone = await world.admit(gpu_pod("gone", "card0", "card0:gt0"))
            await world.admit(a_pod("stays", limits={GPU: 2}))
        await world.remove(gone)
        assert gone.pod.uid in world.kubelet.checkpoint.read_text()
        async with agent(folder, config, world.kubeconfig) as running:
            await running.knows_pods()
            for _ in range(3):
                await scan(folder, running)
            await until(lambda: unassigned(world.api) == 2)
            assert await lists_within_scans(world, folder, running) == 0, "it asks again with every scan"
            assert unassigned(world.api) == 2


async def test_agent_that_stops_leaves_what_is_said_and_the_next_one_changes_nothing(folder: Path) -> None:
    async with node(folder) as world:
        make_node(world.api)
        config = write_config(folder, resource(write_cards(folder, 2)))
        async with agent(folder, config, world.kubeconfig):
            await until(published(world.api, 2))
        before = node_of(world.api)
        assert len(cards_of(world.api) or ()) == 2
        async with agent(folder, config, world.kubeconfig) as running:
            await running.knows_pods()
            reads = world.api.count(method="GET", path=PATH)
            await scan(folder, running)
            await until(lambda: world.api.count(method="GET", path=PATH) > reads)
            await scan(folder, running)
        assert node_of(world.api) == before


async def test_switched_off_it_removes_what_it_said_once_and_says_it_again_when_on(folder: Path) -> None:
    async with publishing(folder) as (world, running):
        await until(published(world.api, 2))
        cards = resource(folder / "cards.yaml")
        write_config(folder, cards, head="publish_cards: false")
        await until(lambda: cards_of(world.api) is None and amounts_of(world.api) == NOTHING)
        asked = writes(world.api)
        stray = {"metadata": {"annotations": {NODE_CARDS_ANNOTATION: '{"version":1,"cards":[]}'}}}
        world.api.state.patch(NODES, ("", "node"), "merge-patch", stray)
        await scan(folder, running)
        await scan(folder, running)
        assert writes(world.api) == asked
        write_config(folder, cards)
        await until(published(world.api, 2))


async def test_api_server_that_refuses_harms_no_device_and_is_counted(folder: Path) -> None:
    async with node(folder) as world:
        make_node(world.api)
        fault = Fault(Answer(403, "Forbidden"), method="PATCH", path="/nodes/", times=1000)
        world.api.faults.append(fault)
        config = write_config(folder, resource(write_cards(folder, 2)))
        async with agent(folder, config, world.kubeconfig) as running:
            registry = running.metrics.registry
            await until(lambda: (registry.get_sample_value("accelet_node_write_failures_total") or 0) >= 1)
            await world.kubelet.resource(GPU).devices(healthy=20)
            await running.knows_pods()
            assert (await world.admit(gpu_pod("one", "card1", "card1:gt1"))).is_running
            world.api.faults.remove(fault)
            await until(published(world.api, 2))
            name, what = "accelet_node_writes_total", {"what": "capacity"}
            await until(lambda: registry.get_sample_value(name, what) == 1)
