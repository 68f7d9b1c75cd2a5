"""Kubelets and agents that come and go leave no task, no file descriptor, no thread and no socket file."""

import asyncio
import os
import tempfile
import threading
from dataclasses import dataclass
from pathlib import Path

import pytest

from accelet.fakekubelet import FakeKubelet
from tests.integration.agent.running import GPU, cards_config, write_config
from tests.integration.chaos.agents import TaskAgent
from tests.integration.chaos.progress import Progress

IS_SOAK = os.environ.get("ACCELET_HYPOTHESIS_PROFILE") == "soak"
CYCLES = 1000 if IS_SOAK else 100
WARM_UP = 10
"""Cycles until every thread pool and cache that is made once has been made."""

SPREAD = 5
"""What may be under way in a thread or a library at the moment of counting."""


@dataclass(frozen=True, slots=True)
class Held:
    """What this process and the kubelet's directory hold."""

    tasks: int
    descriptors: int
    threads: int
    sockets: int

    @classmethod
    def now(cls, plugins: Path) -> "Held":
        return cls(
            tasks=len(asyncio.all_tasks()),
            descriptors=len(os.listdir("/proc/self/fd")),  # noqa: PTH208 - names alone are wanted
            threads=threading.active_count(),
            sockets=len(list(plugins.glob("*.sock"))),
        )

    def exceeds(self, other: "Held") -> bool:
        return (
            self.tasks > other.tasks
            or self.sockets > other.sockets
            or self.descriptors > other.descriptors + SPREAD
            or self.threads > other.threads + SPREAD
        )


@pytest.mark.thorough
@pytest.mark.hypothesis
@pytest.mark.timeout(1800)
async def test_nothing_leaks_over_many_restarts_of_the_kubelet() -> None:
    """One agent, and a kubelet that restarts, is replaced and cuts its stream."""
    with tempfile.TemporaryDirectory(prefix="chaos-") as name:
        folder = Path(name)
        (folder / "dev").mkdir()
        write_config(folder, cards_config(2))
        async with FakeKubelet(folder) as kubelet:
            agent, gpu = TaskAgent(folder), kubelet.resource(GPU)
            await gpu.registered()
            before = Held.now(kubelet.plugins_dir)
            for cycle in range(CYCLES):
                seen = gpu.registrations
                await (kubelet.cut_stream(GPU) if cycle % 5 == 0 else kubelet.restart())
                await gpu.registered(times=seen + 1)
                await gpu.devices(healthy=2)
                kubelet.trace.events.clear()
                if cycle == WARM_UP:
                    before = Held.now(kubelet.plugins_dir)
            await _settles(before, kubelet.plugins_dir)
            agent.ask_to_stop()
            await agent.ended()


@pytest.mark.thorough
@pytest.mark.hypothesis
@pytest.mark.timeout(1800)
async def test_nothing_leaks_over_many_lives_of_the_agent() -> None:
    """One kubelet, and agents that are stopped, in the middle of their registration every other time."""
    with tempfile.TemporaryDirectory(prefix="chaos-") as name:
        folder = Path(name)
        (folder / "dev").mkdir()
        write_config(folder, cards_config(2))
        async with FakeKubelet(folder) as kubelet:
            gpu = kubelet.resource(GPU)
            before = Held.now(kubelet.plugins_dir)
            for cycle in range(CYCLES):
                seen = gpu.registrations
                agent = TaskAgent(folder, stop_at=cycle % 30 if cycle % 2 else 0)
                if cycle % 2 == 0:
                    await gpu.registered(times=seen + 1)
                    agent.ask_to_stop()
                await agent.ended()
                kubelet.trace.events.clear()
                if cycle == WARM_UP:
                    await asyncio.sleep(1)  # for the watchers of the last agents, which end by themselves
                    before = Held.now(kubelet.plugins_dir)
            await _settles(before, kubelet.plugins_dir)


async def _settles(before: Held, plugins: Path) -> None:
    """What is held comes back, in a few seconds, to what was held before."""
    progress = Progress(lambda: None)
    progress.start()
    await progress.until(lambda: not _after(plugins).exceeds(before), 3.0)
    after = _after(plugins)
    await progress.stop()
    assert not after.exceeds(before), f"{before} has become {after}"


def _after(plugins: Path) -> Held:
    now = Held.now(plugins)
    return Held(now.tasks - 1, now.descriptors, now.threads, now.sockets)  # but for the progress's own task
