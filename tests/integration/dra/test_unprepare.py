"""`accelet unprepare`: what nothing unprepares is freed by a person's word, and what somebody has is not."""

import asyncio
import sys
from pathlib import Path
from typing import Any

from accelet.fakekubelet import a_pod
from tests.integration.dra.world import CLAIMS, World, a_node, an_agent, result

TILE, CARD = "gpu-0000-03-00-0-tile-1", "gpu-0000-03-00-0"


async def unprepare(world: World, claim: str, *flags: str) -> tuple[int, str]:
    """The command's exit code and all that it says."""
    folder = world.folder
    places = ["--kubelet-dir", folder, "--cdi-dir", world.cdi, "--kubeconfig", folder / "kubeconfig"]
    # A process of its own: imports on a second thread disturb those of this one (CPython's parser).
    command = Path(sys.executable).with_name("accelet")
    process = await asyncio.create_subprocess_exec(
        command,
        *map(str, ["unprepare", *places, claim, *flags]),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    text, _ = await process.communicate()
    assert process.returncode is not None
    return process.returncode, text.decode().strip()


def deallocate(world: World, claim: dict[str, Any]) -> None:
    key = ("ml", claim["metadata"]["name"])
    body = world.api.state.get(CLAIMS, key)
    del body["status"]["allocation"]
    world.api.state.replace(CLAIMS, key, body)


async def test_a_claim_that_is_allocated_so_stays_prepared(folder: Path) -> None:
    async with a_node(folder) as world, an_agent(world):
        await world.prepare(world.claim("mine", result(TILE)))
        code, said = await unprepare(world, "ml/mine")
        assert code == 1
        assert said == (
            f"ml/mine: {TILE} of gpu.accelet.dev stays held: the claim is allocated so: delete the pods that "
            "use it, and the kubelet unprepares it"
        )
        assert len(list(world.cdi.glob("*.json"))) == 1


async def test_a_deallocated_claim_is_undone_once_the_kubelet_shows_that_nobody_has_it(folder: Path) -> None:
    async with a_node(folder) as world, an_agent(world):
        claim = world.claim("mine", result(TILE))
        await world.prepare(claim)
        deallocate(world, claim)
        code, said = await unprepare(world, "ml/mine")
        assert (code, said.partition(" stays held: ")[2]) == (
            1,
            "the kubelet does not say whether a container has it",
        )
        await world.kubelet.admit(a_pod("another", "ml"))
        code, said = await unprepare(world, "ml/mine")
        assert (code, said) == (0, f"ml/mine: {TILE} of gpu.accelet.dev is free")
        assert (await world.prepare(world.claim("next", result(CARD))))["next"].error == ""
        assert (await unprepare(world, "ml/mine"))[0] == 1


async def test_without_agent_and_kubelet_it_is_undone_by_force_alone(folder: Path) -> None:
    async with a_node(folder) as world:
        async with an_agent(world):
            await world.prepare(world.claim("mine", result(TILE)))
        await world.kubelet.stop()
        assert (await unprepare(world, "ml/mine"))[0] == 1
        assert (await unprepare(world, "ml/mine", "--force"))[0] == 0
        assert list(world.cdi.iterdir()) == []
        assert (await unprepare(world, "ml/mine"))[1] == "nothing of ml/mine is prepared on this node"


async def test_what_is_no_claim_is_refused(folder: Path) -> None:
    async with a_node(folder) as world:
        assert (await unprepare(world, "mine"))[0] == 2
