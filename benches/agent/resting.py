"""What an agent takes that has nothing to do: memory and CPU."""

import asyncio
from pathlib import Path

from accelet.fakekubelet import FakeKubelet
from benches.agent.figures import Figure, Section
from benches.agent.nodes import PCI_FUNCTIONS, RESOURCES, write_four_resources
from benches.agent.processes import Memory, run_agent, run_bare

BARE = "example.com/bare"
_ALLOCATES = 100


async def measure_rest(folder: Path, idle_s: float = 60.0) -> tuple[Section, Section]:
    """Memory after all resources were listed and asked for devices, then CPU over `idle_s` seconds."""
    config = write_four_resources(folder / "host")
    async with (
        FakeKubelet(folder) as kubelet,
        run_agent(folder, folder / "host", config) as agent,
        run_bare(folder, BARE, 4) as bare,
    ):
        for resource in (*RESOURCES, BARE):
            await (await kubelet.registered(resource, timeout_s=30)).devices(timeout_s=30)
            for _ in range(_ALLOCATES):
                await kubelet.client(resource).allocate([min(kubelet.resource(resource).healthy)])
        before = agent.cpu_s(), bare.cpu_s()
        await asyncio.sleep(idle_s)
        agent_share, bare_share = (
            100 * (after - earlier) / idle_s
            for after, earlier in zip((agent.cpu_s(), bare.cpu_s()), before, strict=True)
        )
        memory = _compare_memory(agent.memory(), bare.memory())
    idle = Figure("share of one core", agent_share, "%", bare=bare_share, aim=0.2)
    return (
        Section(f"Memory with {len(RESOURCES)} resources, after {_ALLOCATES} Allocates each", memory),
        Section(f"CPU at rest over {idle_s:.0f} s, 8 GPUs among {PCI_FUNCTIONS} PCI functions", (idle,)),
    )


def _compare_memory(agent: Memory, bare: Memory) -> tuple[Figure, ...]:
    return (
        Figure("resident (RSS)", agent.rss_kib / 1024, "MiB", bare=bare.rss_kib / 1024, aim=48),
        Figure("own part of it (PSS)", agent.pss_kib / 1024, "MiB", bare=bare.pss_kib / 1024),
        Figure("of no file (anonymous)", agent.anonymous_kib / 1024, "MiB", bare=bare.anonymous_kib / 1024),
    )
