"""A list of very many devices: how long until the kubelet has it, and until it hears of a change."""

import asyncio
import time
from pathlib import Path

from accelet.fakekubelet import FakeKubelet
from benches.agent.figures import Figure, Section, median
from benches.agent.nodes import BIG, big_device, write_many_devices
from benches.agent.processes import run_agent

_PATIENCE_S = 60.0
_ALLOCATES = 200


async def measure_long_list(
    folder: Path, devices: int = 10_000, updates: int = 5, idle_s: float = 30.0
) -> Section:
    """One resource of so many files; now and then one of them is removed and comes back."""
    root = folder / "host"
    config = write_many_devices(root, devices)
    started = time.perf_counter()
    async with FakeKubelet(folder) as kubelet, run_agent(folder, root, config) as agent:
        view = await kubelet.registered(BIG, timeout_s=_PATIENCE_S)
        await view.devices(healthy=devices, timeout_s=_PATIENCE_S)
        accepted_s = time.perf_counter() - started
        cpu_s = agent.cpu_s()
        await asyncio.sleep(idle_s)
        idle_share = 100 * (agent.cpu_s() - cpu_s) / idle_s
        worse_s, better_s, allocate_s = [], [], []
        for number in range(updates):
            file = big_device(root, devices * (number + 1) // (updates + 1))
            changed = time.perf_counter()
            file.unlink()
            await view.devices(healthy=devices - 1, timeout_s=_PATIENCE_S)
            worse_s.append(time.perf_counter() - changed)
            changed = time.perf_counter()
            file.touch()
            await view.devices(healthy=devices, timeout_s=_PATIENCE_S)
            better_s.append(time.perf_counter() - changed)
        device = min(view.healthy)
        for _ in range(_ALLOCATES):
            asked = time.perf_counter()
            await kubelet.client(BIG).allocate([device])
            allocate_s.append(time.perf_counter() - asked)
        memory = agent.memory()
    return Section(
        f"A list of {devices:,} devices",
        (
            Figure("process start to list accepted", accepted_s, "s"),
            Figure("a device file goes, kubelet knows", median(worse_s), "s"),
            Figure("it comes back and is believed", median(better_s), "s", note="after two good scans"),
            Figure("Allocate, median", 1e3 * median(allocate_s), "ms"),
            Figure("CPU at rest, share of one core", idle_share, "%"),
            Figure("resident (RSS)", memory.rss_kib / 1024, "MiB"),
            Figure("of no file (anonymous)", memory.anonymous_kib / 1024, "MiB"),
        ),
    )
