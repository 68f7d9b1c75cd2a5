"""The agent may die at any point at which it waits; the next one registers all the same."""

import asyncio
import os
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from accelet.fakekubelet import FakeKubelet, behaviour
from tests.integration.agent.running import GPU, cards_config, write_config
from tests.integration.chaos.agents import RunningAgent, TaskAgent, Zygote
from tests.integration.chaos.progress import Progress

IS_SOAK = os.environ.get("ACCELET_HYPOTHESIS_PROFILE") == "soak"
VERSIONS = list(behaviour.VERSIONS) if IS_SOAK else ["1.36", "1.38"]
CARDS = 2


class Node:
    """A kubelet, and agents that come and go on it."""

    def __init__(self, folder: Path, kubelet: FakeKubelet, progress: Progress) -> None:
        self.folder = folder
        self.gpu = kubelet.resource(GPU)
        self.progress = progress

    async def registers(self, agent: RunningAgent, within_s: float = 1.0) -> bool:
        """Whether `agent`, just started, registers and lists its devices before it dies or time is over."""
        before = self.gpu.registrations

        def is_well() -> bool:
            is_new = self.gpu.registrations > before
            return is_new and self.gpu.is_connected and len(self.gpu.healthy) == CARDS

        if not await self.progress.until(lambda: agent.is_over or is_well(), within_s):
            await self.progress.until(lambda: agent.is_over or is_well(), agent.starved_s)
        return is_well() and not agent.is_over

    async def leaves_nothing(self, agent: TaskAgent) -> bool:
        return await self.progress.until(lambda: not agent.tasks_left, 1.0)

    async def survives(self, first: RunningAgent, start: Callable[[], RunningAgent]) -> None:
        """`first` dies by itself, or is killed once it has registered; the next one registers in a second."""
        if await self.registers(first):
            first.kill()
        assert await self.progress.until(lambda: first.is_over, 1.0)
        await first.ended()
        second = start()
        # The kubelet may be about to notice that the first is gone, and up to 1.36 then the second goes too.
        assert await self.registers(second)
        second.ask_to_stop()
        await second.ended()
        assert sorted(path.name for path in self.folder.glob("device-plugins/accelet-*")) == []


@asynccontextmanager
async def node(version: str) -> AsyncIterator[Node]:
    with tempfile.TemporaryDirectory(prefix="chaos-") as name:
        folder = Path(name)
        (folder / "dev").mkdir()
        write_config(folder, cards_config(CARDS))
        progress = Progress(lambda: None)
        async with FakeKubelet(folder, version=version) as kubelet:
            progress.start()
            yield Node(folder, kubelet, progress)
            await progress.stop()


async def suspensions(node: Node) -> int:
    """How often an agent waits, all its tasks together, until it is registered and has listed its devices."""
    agent = TaskAgent(node.folder)
    assert await node.registers(agent)
    count = len(agent.suspensions.where)
    agent.ask_to_stop()
    await agent.ended()
    return count


@pytest.mark.thorough
@pytest.mark.hypothesis
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("version", VERSIONS)
async def test_agent_that_is_killed_at_any_await_is_followed_by_one_that_registers(version: str) -> None:
    zygote = Zygote()
    try:
        async with node(version) as on:
            for at in range(1, await suspensions(on) + 3):
                await on.survives(zygote.fork(on.folder, at), lambda: zygote.fork(on.folder))
    finally:
        zygote.close()


@pytest.mark.thorough
@pytest.mark.hypothesis
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("version", VERSIONS)
async def test_agent_that_is_asked_to_stop_at_any_await_stops_and_leaves_nothing_behind(version: str) -> None:
    async with node(version) as on:
        for at in range(1, await suspensions(on) + 3):
            first = TaskAgent(on.folder, at)
            await on.survives(first, lambda: TaskAgent(on.folder))
            assert await on.leaves_nothing(first), first.tasks_left
    assert asyncio.all_tasks() == {asyncio.current_task()}
