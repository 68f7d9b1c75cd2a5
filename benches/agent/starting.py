"""How long it takes from the start of the process to the first device list."""

import asyncio
import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path

from accelet.fakekubelet import Event, FakeKubelet
from benches.agent.figures import Figure, Section, median
from benches.agent.nodes import write_four_resources
from benches.agent.processes import Measured, run_agent, run_bare

_PATIENCE_S = 30.0

Start = Callable[[], AbstractAsyncContextManager[Measured]]


async def measure_start(folder: Path, starts: int = 20) -> Section:
    """The kubelet is there already; the agent and the bare plugin are started in turn."""
    config = write_four_resources(folder / "host")
    async with FakeKubelet(folder) as kubelet:

        async def start_agent() -> tuple[float, float]:
            return await _first_list(kubelet, lambda: run_agent(folder, folder / "host", config))

        async def start_bare() -> tuple[float, float]:
            return await _first_list(kubelet, lambda: run_bare(folder, "example.com/bare", 4))

        await start_agent()  # compiles and caches what was never started before
        await start_bare()
        rounds = [(await start_agent(), await start_bare()) for _ in range(starts)]
    agent_s, agent_cpu_s = zip(*(agent for agent, _ in rounds), strict=True)
    bare_s, bare_cpu_s = zip(*(bare for _, bare in rounds), strict=True)
    return Section(
        f"From the start of the process to the first device list, {starts} starts",
        (
            Figure("median", 1e3 * median(agent_s), "ms", bare=1e3 * median(bare_s), aim=400),
            Figure("fastest", 1e3 * min(agent_s), "ms", bare=1e3 * min(bare_s)),
            Figure("slowest", 1e3 * max(agent_s), "ms", bare=1e3 * max(bare_s)),
            Figure("CPU time of it, median", 1e3 * median(agent_cpu_s), "ms", bare=1e3 * median(bare_cpu_s)),
        ),
    )


async def _first_list(kubelet: FakeKubelet, start: Start) -> tuple[float, float]:
    """Seconds until the kubelet has a list, and seconds of CPU the process took for it."""
    listed = asyncio.Event()
    at = 0.0

    def hear(event: Event) -> None:
        nonlocal at
        if event.event == "list" and not listed.is_set():
            at = time.perf_counter()
            listed.set()

    kubelet.trace.listen(hear)
    started = time.perf_counter()
    async with start() as process, asyncio.timeout(_PATIENCE_S):
        await listed.wait()
        cpu_s = process.cpu_s()
    return at - started, cpu_s
