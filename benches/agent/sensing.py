"""What it costs to look at what cards do: the same node with and without, each in a process of its own."""

import asyncio
from pathlib import Path

from accelet.fakehost.gpus import Gpu, write_gpus
from accelet.fakehost.sensors import device, write_link, write_xe
from accelet.fakekubelet import FakeKubelet
from benches.agent.figures import Figure, Section
from benches.agent.processes import run_agent

GPU = "gpu.intel.com/xe"
EVERY_S = 10
_CARDS = 8
_PLAIN = f"version: v1\nresources: [{{name: {GPU}, backend: intel-gpu}}]\n"
_AIM = 0.1


async def measure_sensors(folder: Path, idle_s: float = 60.0) -> Section:
    """CPU over `idle_s` seconds each, with 8 cards of two tiles."""
    root = folder / "host"
    cards = [Gpu(n, f"0000:{n + 3:02x}:00.0", driver="xe", device="0xe20b", tiles=2) for n in range(_CARDS)]
    write_gpus(root, cards)
    for card in cards:
        write_xe(root, card)
        write_link(device(root, card))
    without = await _measure(folder, _PLAIN, idle_s)
    share = await _measure(folder, f"{_PLAIN}sensors: {{every_s: {EVERY_S}}}\n", idle_s)
    return Section(
        f"Looking at {_CARDS} cards each {EVERY_S} s",
        (
            Figure("CPU without, share of one core", without, "%"),
            Figure("CPU with", share, "%"),
            Figure("more", share - without, "%", aim=_AIM),
        ),
    )


async def _measure(folder: Path, config: str, idle_s: float) -> float:
    file = folder / "host" / "config.yaml"
    file.write_text(config)
    async with FakeKubelet(folder) as kubelet, run_agent(folder, folder / "host", file) as agent:
        await (await kubelet.registered(GPU, timeout_s=30)).devices(healthy=_CARDS, timeout_s=30)
        before = agent.cpu_s()
        await asyncio.sleep(idle_s)
        return 100 * (agent.cpu_s() - before) / idle_s
