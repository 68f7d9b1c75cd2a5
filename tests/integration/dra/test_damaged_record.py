"""A record of prepared claims that cannot be read: claims are kept off, and the documented way leads out."""

import shlex
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

import pytest

from accelet.agent.process import Agent
from accelet.dra.running.places import Places
from accelet.fakekubelet import PodRecord
from tests.integration.dra.test_pods import admitted, made
from tests.integration.dra.world import GPU, World, a_node, an_agent, result, until
from tests.newcomer.documents import PROJECT, read_blocks

TILE_0, TILE_1 = "gpu-0000-03-00-0-tile-0", "gpu-0000-03-00-0-tile-1"
CARD_1 = "gpu-0000-04-00-0"
CLOSED = {"key": f"{GPU}/record-unreadable", "effect": "NoSchedule"}


def record_of(world: World) -> Path:
    return Places(world.folder, world.cdi, GPU, "").checkpoint


def damage(world: World) -> None:
    record = record_of(world)
    fresh = record.with_name("fresh")
    fresh.write_bytes(record.read_bytes().replace(b"0000-03-00", b"0000-04-00", 1))
    fresh.replace(record)


def is_closed(world: World) -> bool:
    devices = world.devices().values()
    return len(devices) > 0 and all(CLOSED in device.get("taints", ()) for device in devices)


def is_open(world: World) -> bool:
    devices = world.devices().values()
    return len(devices) > 0 and not any("taints" in device for device in devices)


def problem_of(agent: Agent) -> str:
    return next((one.detail for one in agent.readiness() if not one.is_ok), "")


class Administrator:
    """Types what docs/dra.md says, line by line, on this node."""

    def __init__(self, world: World, pods: Sequence[PodRecord]) -> None:
        self._world, self._pods = world, pods

    async def type(self, line: str) -> None:
        known: dict[str, Callable[[list[str]], Awaitable[None]]] = {
            "kubectl drain": self._drain,
            "ssh NODE sudo rm": self._remove,
            "kubectl uncordon": self._uncordon,
        }
        (words,) = [words for words in known if line.startswith(words)]
        await known[words](shlex.split(line.removeprefix(words)))

    async def _drain(self, _: list[str]) -> None:
        for pod in self._pods:
            await self._world.kubelet.remove(pod)
        for pod in self._pods:
            await self._world.kubelet.released(pod)

    async def _remove(self, paths: list[str]) -> None:
        (path,) = paths
        (self._world.folder / Path(path).relative_to("/var/lib/kubelet")).unlink()

    async def _uncordon(self, _: list[str]) -> None:
        await until(lambda: is_open(self._world))


def documented_steps() -> list[str]:
    text = (PROJECT / "docs" / "dra.md").read_text()
    first_line = text[: text.index("### A damaged record")].count("\n")
    block = next(one for one in read_blocks(PROJECT / "docs" / "dra.md") if one.line > first_line)
    return [line.removeprefix("$ ") for line in block.text.splitlines()]


@pytest.mark.parametrize("is_restarted", [False, True])
async def test_the_steps_of_the_documentation_lead_out_of_a_damaged_record(
    folder: Path, *, is_restarted: bool
) -> None:
    async with a_node(folder, pace=20) as world:
        async with an_agent(world) as agent:
            pods = [await admitted(world, made(world, name, name)[1]) for name in (TILE_0, CARD_1)]
            await until(lambda: is_open(world))
            damage(world)
            if not is_restarted:
                await _lead_out(world, agent, pods)
        if is_restarted:
            async with an_agent(world) as agent:
                await _lead_out(world, agent, pods)


async def _lead_out(world: World, agent: Agent, pods: Sequence[PodRecord]) -> None:
    late = world.claim("late", result(TILE_1))
    assert "the record of prepared claims" in (await world.prepare(late))["late"].error
    await until(lambda: is_closed(world))
    await until(lambda: str(record_of(world)) in problem_of(agent))
    assert {one["main"].injected.nodes for one in pods} == {("/dev/dri/card0",), ("/dev/dri/card1",)}
    administrator = Administrator(world, pods)
    for line in documented_steps():
        await administrator.type(line)
    assert list(world.cdi.iterdir()) == []
    await until(lambda: all(one.is_ok for one in agent.readiness()))
    assert (await world.prepare(late))["late"].error == ""
    again = await admitted(world, made(world, "again", CARD_1)[1])
    assert again.claim_error is None
