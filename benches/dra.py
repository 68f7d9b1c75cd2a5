"""What serving through DRA costs: `python -m benches.dra`.

The API server and the kubelet are in this process, the agent in its own. It serves one resource as a device
plugin and one through DRA. Claims are prepared and unprepared at a rate; times are the driver's own
histogram's, with every fsync.
"""

import asyncio
import re
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from tests.integration.dra.world import CONFIG, NODE, World, a_node, result, until

RATE, SECONDS = 20, 30
ADDRESS = "127.0.0.1:19400"
PLUGIN = """\
  - name: gpu.intel.com/xe
    backend: simulated
    cards:
      - pci: "0000:05:00.0"
        nodes: [{path: /dev/null, mount_path: /dev/dri/card2}]
"""
LIBRARIES = (
    "grpc.aio",
    "msgspec",
    "prometheus_client",
    "watchdog.observers",
    "yaml",
    "kubernetes.client",
    "google.protobuf",
)
TILES = [f"gpu-0000-{bus}-00-0-tile-{tile}" for bus in ("03", "04") for tile in (0, 1)]


async def main() -> None:
    """Prints the figures."""
    with tempfile.TemporaryDirectory(prefix="dra-") as name:
        async with a_node(Path(name), CONFIG + PLUGIN) as world:
            began = time.monotonic()
            process = await _start(world)
            try:
                await world.register()
                await until(lambda: len(world.slices()) == 2)
                _print(f"slices published {time.monotonic() - began:.2f} s after the agent's start")
                await _prepare_all(world)
                _print(f"memory of the agent, {RATE * SECONDS} claims later: {_memory_mib(process.pid)} MiB")
                _print(f"memory of its libraries alone: {_floor_mib()} MiB")
                _print_times()
            finally:
                process.terminate()
                await process.wait()


async def _start(world: World) -> asyncio.subprocess.Process:
    folder = world.folder
    words: Sequence[object] = [
        *(Path(sys.executable).with_name("accelet"), "agent", "--config", folder / "config.yaml"),
        *("--kubelet-dir", folder, "--cdi-dir", world.cdi, "--node-name", NODE, "--http", ADDRESS),
        *("--kubeconfig", folder / "kubeconfig", "--log-level", "error"),
    ]
    return await asyncio.create_subprocess_exec(*map(str, words))


async def _prepare_all(world: World) -> None:
    """At an even rate, whether or not the claims before are done; a tile is given again once it is back."""
    free: asyncio.Queue[str] = asyncio.Queue()
    for tile in TILES:
        free.put_nowait(tile)
    began = time.monotonic()
    async with asyncio.TaskGroup() as tasks:
        for number in range(RATE * SECONDS):
            await asyncio.sleep(max(0.0, began + number / RATE - time.monotonic()))
            tasks.create_task(_prepare_one(world, number, free))


async def _prepare_one(world: World, number: int, free: asyncio.Queue[str]) -> None:
    tile = await free.get()
    claim = world.claim(f"claim-{number}", result(tile))
    prepared = await world.prepare(claim)
    assert prepared[f"claim-{number}"].error == ""
    await world.unprepare(claim)
    free.put_nowait(tile)


def _memory_mib(pid: int) -> int:
    status = Path(f"/proc/{pid}/status").read_text()
    found = re.search(r"VmRSS:\s+(\d+) kB", status)
    assert found is not None
    return round(int(found[1]) / 1024)


def _floor_mib() -> int:
    script = f"import {', '.join(LIBRARIES)}; print(open('/proc/self/status').read())"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    found = re.search(r"VmRSS:\s+(\d+) kB", done.stdout)
    assert found is not None
    return round(int(found[1]) / 1024)


def _print_times() -> None:
    with urllib.request.urlopen(f"http://{ADDRESS}/metrics", timeout=5) as answer:
        text = answer.read().decode()
    counts: Mapping[float, float] = {
        float(sample.labels["le"]): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
        if sample.name == "accelet_dra_prepare_duration_seconds_bucket"
        and sample.labels["driver_name"] == "gpu.accelet.dev"
    }
    total = max(counts.values())
    for part in (0.5, 0.99):
        bound = min(bound for bound, count in counts.items() if count >= part * total)
        _print(f"p{part * 100:.0f} of {total:.0f} calls of NodePrepareResources: below {bound * 1000:.0f} ms")


def _print(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(main())
