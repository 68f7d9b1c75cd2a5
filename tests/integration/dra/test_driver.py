"""A driver on its node: what it publishes, what it prepares, what it refuses, what it keeps."""

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from accelet.dra.running.places import Places
from accelet.fakeapi.faults import Answer, Fault, HoldBack
from tests.integration.dra.world import CONFIG, NODE, World, a_node, an_agent, result, until
from tests.unit.dra.apirules import faults

TILE_0, TILE_1 = "gpu-0000-03-00-0-tile-0", "gpu-0000-03-00-0-tile-1"
CARD_0, CARD_1 = "gpu-0000-03-00-0", "gpu-0000-04-00-0"


async def test_slices_are_published_with_the_node_as_owner(folder: Path) -> None:
    async with a_node(folder) as world, an_agent(world):
        await world.register()
        await until(lambda: len(world.slices()) == 2)
        assert faults(world.slices()) == []
        node = world.api.state.get("api/v1/nodes", ("", NODE))
        owners = [one["metadata"]["ownerReferences"][0] for one in world.slices()]
        assert {owner["uid"] for owner in owners} == {node["metadata"]["uid"]}


async def test_nothing_is_published_before_the_kubelet_knows_the_driver(folder: Path) -> None:
    """A pod that came earlier would fail, and be tried again only after a minute or more."""
    async with a_node(folder) as world, an_agent(world):
        await until(lambda: any((folder / "plugins_registry").glob("*.sock")))
        assert world.slices() == []
        await world.register()
        await until(lambda: len(world.slices()) == 2, timeout_s=5)


async def test_a_cluster_that_knows_no_slices_is_told_until_it_does(folder: Path) -> None:
    """As those before 1.34, until they are upgraded."""
    async with a_node(folder) as world:
        world.api.faults.append(Fault(Answer(404, "NotFound"), path="/resourceslices", times=1 << 30))
        async with an_agent(world) as agent:
            await world.register()
            await until(lambda: any("Kubernetes 1.34 or later" in one.detail for one in agent.readiness()))
            world.api.faults.clear()
            await until(lambda: len(world.slices()) == 2)
            await until(lambda: all(one.is_ok for one in agent.readiness()))


async def test_slices_that_were_wiped_come_back(folder: Path) -> None:
    async with a_node(folder) as world, an_agent(world):
        await world.register()
        await until(lambda: len(world.slices()) == 2)
        for one in world.slices():
            world.api.state.delete(
                "apis/resource.k8s.io/v1/resourceslices", ("", one["metadata"]["name"]), None
            )
        await until(lambda: len(world.slices()) == 2)


async def test_driver_registers_with_both_protocols_and_health(folder: Path) -> None:
    async with a_node(folder) as world, an_agent(world):
        driver = await world.register()
        assert driver.client.listed == (
            "v1.DRAPlugin",
            "v1beta1.DRAPlugin",
            "v1.DRAResourceHealth",
            "v1alpha1.DRAResourceHealth",
        )


async def test_tile_is_given_with_its_cards_nodes_and_mask(folder: Path) -> None:
    async with a_node(folder) as world, an_agent(world):
        claim = world.claim("tile", result(TILE_1))
        prepared = (await world.prepare(claim))["tile"]
        assert prepared.error == ""
        assert [(d.pool, d.device) for d in prepared.devices] == [(NODE, TILE_1)]
        assert world.edits(prepared) == {
            "nodes": ["/dev/dri/card0"],
            "env": {
                "ZE_AFFINITY_MASK": "1",
                "ZE_FLAT_DEVICE_HIERARCHY": "FLAT",
                "ZE_ENABLE_PCI_ID_DEVICE_ORDER": "1",
            },
        }


async def test_whole_card_sets_no_environment(folder: Path) -> None:
    async with a_node(folder) as world, an_agent(world):
        prepared = (await world.prepare(world.claim("card", result(CARD_1))))["card"]
        assert world.edits(prepared) == {"nodes": ["/dev/dri/card1"], "env": {}}


async def test_v1beta1_prepares_likewise(folder: Path) -> None:
    async with a_node(folder, version="1.33") as world, an_agent(world):
        assert (await world.register()).client.service == "v1beta1.DRAPlugin"
        prepared = (await world.prepare(world.claim("tile", result(TILE_0))))["tile"]
        assert (prepared.error, prepared.devices[0].device) == ("", TILE_0)


async def test_prepare_may_be_repeated_and_mends_the_file(folder: Path) -> None:
    async with a_node(folder) as world, an_agent(world):
        claim = world.claim("tile", result(TILE_0))
        first = (await world.prepare(claim))["tile"]
        (file,) = world.cdi.glob("*.json")
        content = file.read_bytes()
        file.write_text("{}")
        assert (await world.prepare(claim))["tile"] == first
        assert file.read_bytes() == content


async def test_unprepare_leaves_nothing_behind_and_may_be_repeated(folder: Path) -> None:
    async with a_node(folder) as world, an_agent(world):
        claim = world.claim("tile", result(TILE_0))
        await world.prepare(claim)
        assert await world.unprepare(claim) == {"tile": ""}
        assert list(world.cdi.iterdir()) == []
        assert await world.unprepare(claim) == {"tile": ""}
        other = world.claim("card", result(CARD_0))
        assert (await world.prepare(other))["card"].error == ""


async def test_calls_without_claims_succeed(folder: Path) -> None:
    async with a_node(folder) as world, an_agent(world):
        assert await world.prepare() == {}
        assert await world.unprepare() == {}


async def test_shares_of_one_card_live_beside_each_other(folder: Path) -> None:
    async with a_node(folder) as world, an_agent(world):
        one = world.claim("one", result(CARD_0, share="a" * 36, millicores="250", memory="8Gi"))
        other = world.claim("other", result(CARD_0, share="b" * 36, millicores="750", memory="8Gi"))
        prepared = await world.prepare(one, other)
        assert [answer.error for answer in prepared.values()] == ["", ""]
        assert prepared["one"].devices[0].share == "a" * 36


async def test_prepared_claims_survive_a_restart_of_the_agent(folder: Path) -> None:
    async with a_node(folder) as world:
        claim = world.claim("tile", result(TILE_0))
        async with an_agent(world):
            first = (await world.prepare(claim))["tile"]
        for file in world.cdi.iterdir():
            file.unlink()
        async with an_agent(world):
            await until(lambda: len(list(world.cdi.glob("*.json"))) == 1)
            assert world.edits(first)["env"]["ZE_AFFINITY_MASK"] == "0"
            assert await world.unprepare(claim) == {"tile": ""}
        assert list(world.cdi.iterdir()) == []


async def test_claim_of_another_node_is_refused_with_a_sentence(folder: Path) -> None:
    async with a_node(folder) as world, an_agent(world):
        claim = world.claim("far", result("gpu-0000-99-00-0"))
        error = (await world.prepare(claim))["far"].error
        assert error == "the device gpu-0000-99-00-0 of pool node-1 is not on this node"


async def test_two_tile_claims_in_one_container_are_both_refused(folder: Path) -> None:
    async with a_node(folder) as world, an_agent(world):
        pod = world.pod("both", {"main": [("a", None), ("b", None)]})
        a, b = world.claim("a", result(TILE_0), pod=pod), world.claim("b", result(TILE_1), pod=pod)
        prepared = await world.prepare(a, b)
        assert prepared["a"].error == (
            "the claims a and b both give parts of devices to the container main, which can be told of one "
            "only: put both requests into one claim"
        )
        assert prepared["b"].error.startswith("the claims b and a both give parts")
        assert not world.cdi.exists()


async def test_ill_card_is_tainted_until_it_is_well(folder: Path) -> None:
    well = CONFIG
    ill = well.replace('pci: "0000:03:00.0"\n', 'pci: "0000:03:00.0"\n        unhealthy: it is too hot\n')
    async with a_node(folder, well) as world, an_agent(world):
        await world.register()
        await until(lambda: CARD_0 in world.devices())
        (folder / "config.yaml").write_text(ill)
        taint = {"key": "gpu.accelet.dev/unhealthy", "effect": "NoSchedule"}
        await until(lambda: world.devices()[CARD_0].get("taints") == [taint])
        assert world.devices()[TILE_1]["taints"] == [taint]
        assert "taints" not in world.devices()[f"{CARD_0}-monitor"]
        assert "taints" not in world.devices()[CARD_1]
        (folder / "config.yaml").write_text(well)
        await until(lambda: not any("taints" in device for device in world.devices().values()))


async def test_holders_of_an_ill_card_are_told_by_events_and_when_it_is_well(folder: Path) -> None:
    ill = CONFIG.replace('pci: "0000:03:00.0"\n', 'pci: "0000:03:00.0"\n        unhealthy: it is too hot\n')
    async with a_node(folder) as world, an_agent(world):
        claim = world.claim("held", result(TILE_1))
        await world.prepare(claim, world.claim("other", result(CARD_1)))
        (folder / "config.yaml").write_text(ill)
        await until(lambda: len(_events(world)) == 1)
        (folder / "config.yaml").write_text(CONFIG)
        await until(lambda: len(_events(world)) == 2)
        first, second = _events(world)
        for event in (first, second):
            assert event["regarding"]["uid"] == claim["metadata"]["uid"]
            assert (event["regarding"]["kind"], event["metadata"]["namespace"]) == ("ResourceClaim", "ml")
        assert (first["type"], first["reason"]) == ("Warning", "DeviceUnhealthy")
        assert first["note"] == f"{TILE_1} is ill: it is too hot"
        assert (second["type"], second["reason"]) == ("Normal", "DeviceHealthy")
        assert second["note"] == f"{TILE_1} is well again"


def _events(world: World) -> list[dict[str, Any]]:
    """In the order in which they were said."""
    found = world.api.state.list("apis/events.k8s.io/v1/events", {}, None)["items"]
    return sorted(found, key=lambda event: event["eventTime"])


async def test_resource_served_as_a_plugin_keeps_off_what_a_claim_holds(folder: Path) -> None:
    """Changed back from DRA to the device plugin while a claim is prepared."""
    async with a_node(folder) as world:
        claim = world.claim("tile", result(TILE_0))
        async with an_agent(world):
            await world.prepare(claim)
        (folder / "config.yaml").write_text(CONFIG.replace("    serve: dra\n", ""))
        async with an_agent(world) as agent:
            await until(lambda: _unhealthy(agent) == 1)
            assert await world.unprepare(claim) == {"tile": ""}
            await until(lambda: _unhealthy(agent) == 0)
            await until(lambda: world.devices() == {})


async def test_a_damaged_record_of_another_driver_harms_no_resource(folder: Path) -> None:
    config = CONFIG.replace("    serve: dra\n", "")
    async with a_node(folder, config) as world:
        record = Places(folder, world.cdi, "tpu.accelet.dev", "").checkpoint
        record.parent.mkdir(parents=True)
        record.write_text("{")
        async with an_agent(world) as agent:
            await until(lambda: _devices(agent, "Healthy") == 2, timeout_s=5)


def _unhealthy(agent: object) -> float | None:
    return _devices(agent, "Unhealthy")


def _devices(agent: object, health: str) -> float | None:
    registry = agent.metrics.registry  # type: ignore[attr-defined]
    labels = {"resource": "gpu.intel.com/i915", "health": health}
    return registry.get_sample_value("accelet_devices", labels)  # type: ignore[no-any-return]


async def test_prepare_under_way_is_answered_before_the_agent_ends(folder: Path) -> None:
    async with a_node(folder) as world, AsyncExitStack() as stack:
        await stack.enter_async_context(an_agent(world))
        await world.register()
        claim, held = world.claim("tile", result(TILE_1)), HoldBack()
        world.api.faults.append(Fault(held, method="GET", path="/resourceclaims/tile"))
        preparing = asyncio.create_task(world.prepare(claim))
        try:
            assert await asyncio.to_thread(held.is_made.wait, 30)
            ending = asyncio.create_task(stack.aclose())
            await asyncio.wait([ending, preparing], timeout=1.0, return_when=asyncio.FIRST_COMPLETED)
            assert not ending.done()
            assert not preparing.done()
        finally:
            held.released.set()
        assert (await preparing)["tile"].error == ""
        await ending
