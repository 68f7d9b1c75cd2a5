"""`accelet explain` of pods with claims, beside a driver that has prepared them."""

import asyncio
import sys
from pathlib import Path
from typing import Any

from tests.fakes.manifests import raw_container, raw_pod
from tests.integration.dra.world import NODE, PODS, World, a_node, an_agent, result
from tests.output_forms import read_form

TILE = "gpu-0000-03-00-0-tile-1"


async def explain(world: World, pod: str, *flags: str) -> str:
    folder = world.folder
    places = ["--config", folder / "config.yaml", "--kubelet-dir", folder, "--cdi-dir", world.cdi]
    words = ["explain", *places, "--kubeconfig", folder / "kubeconfig", f"ml/{pod}", *flags]
    # A process of its own: imports on a second thread disturb those of this one (CPython's parser).
    command = Path(sys.executable).with_name("accelet")
    process = await asyncio.create_subprocess_exec(command, *map(str, words), stdout=asyncio.subprocess.PIPE)
    text, _ = await process.communicate()
    assert process.returncode == 0
    return text.decode()


async def claims_of(world: World, pod: str) -> Any:
    return read_form("explain", await explain(world, pod, "--json"))["claims"]


async def test_what_a_container_has_by_its_claim_is_told(folder: Path) -> None:
    async with a_node(folder) as world, an_agent(world):
        claim = world.claim("tile", result(TILE))
        (before,) = await claims_of(world, "pod-of-tile")
        assert before["reason"] == "it is allocated, and not prepared on this node"
        await world.prepare(claim)
        (told,) = await claims_of(world, "pod-of-tile")
        assert (told["container"], told["devices"], told["agrees"]) == ("main", [TILE], True)
        assert told["environment"]["ZE_AFFINITY_MASK"] == "1"
        next(world.cdi.glob("*.json")).unlink()
        assert "its CDI file is missing" in await explain(world, "pod-of-tile")


async def test_what_this_node_cannot_give_is_told_with_a_claim_to_write(folder: Path) -> None:
    async with a_node(folder) as world:
        asking = raw_container(limits={"gpu.intel.com/i915": 1, "gpu.intel.com/tiles": 1})
        world.api.state.create(PODS, "ml", raw_pod("classic", on=NODE, containers=[asking]))
        text = await explain(world, "classic")
        assert "only nodes with the device plugin give that" in text
        assert "deviceClassName: tile.gpu.accelet.dev" in text
