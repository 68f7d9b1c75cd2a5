"""An agent that serves from a folder, in this process, beside a fake kubelet."""

import asyncio
import tempfile
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from accelet.agent.configfile import ConfigFile
from accelet.agent.process import Agent, AgentOptions
from accelet.kubelet.paths import KubeletPaths
from accelet.runtime.run import FatalError

GPU = "gpu.intel.com/i915"


def cards_config(
    cards: int, *, name: str = GPU, unhealthy: Sequence[int] = (), options: str = "", first: int = 3
) -> str:
    """A resource of simulated cards at PCI slots from `first` on."""
    lines = [f"- name: {name}", "  backend: simulated", *([f"  {options}"] if options else []), "  cards:"]
    for index in range(cards):
        sick = ", unhealthy: it is sick" if index in unhealthy else ""
        node = f"[{{path: /dev/null, mount_path: /dev/dri/card{index}}}]"
        lines.append(f'  - {{pci: "0000:{first + index:02x}:00.0", nodes: {node}{sick}}}')
    return "\n".join(lines) + "\n"


def config(*resources: str) -> str:
    return "version: v1\nresources:\n" + "".join(resources)


def write_config(folder: Path, *resources: str) -> Path:
    """Replaces the configuration in one step, as an editor or a ConfigMap would."""
    path = folder / "config.yaml"
    fresh = folder / "config.new"
    fresh.write_text(config(*resources))
    fresh.rename(path)
    return path


@asynccontextmanager
async def agent(folder: Path, config_file: Path, kubeconfig: Path | None = None) -> AsyncIterator[Agent]:
    """Runs an agent until the end of the block, then ends it as SIGTERM does; its host is in `folder` too."""
    (folder / "dev").mkdir(exist_ok=True)
    options = AgentOptions(folder, KubeletPaths(folder), "node", ("127.0.0.1", 0), kubeconfig)
    made = Agent(options, ConfigFile(config_file))
    running = asyncio.create_task(made.run())
    try:
        yield made
    finally:
        running.cancel()
        with suppress(asyncio.CancelledError, FatalError):
            await running


async def until_ready(running: Agent, *, is_ready: bool = True, timeout_s: float = 30.0) -> None:
    """Waits until /readyz would say so."""
    await until(lambda: all(check.is_ok for check in running.readiness()) is is_ready, timeout_s=timeout_s)


async def until_said(running: Agent, words: str, *, timeout_s: float = 30.0) -> None:
    """Waits until /readyz?verbose would contain the words."""
    await until(lambda: any(words in check.detail for check in running.readiness()), timeout_s=timeout_s)


def configuration_loaded_at(running: Agent) -> float:
    """When the configuration in force was taken over, as a Unix time."""
    name = "accelet_config_last_reload_success_timestamp_seconds"
    return running.metrics.registry.get_sample_value(name) or 0.0


async def scan(folder: Path, running: Agent, resource: str = GPU) -> None:
    """Has the agent scan again, as it does when a device file appears, and waits until it has."""
    before = _scans(running, resource)
    with tempfile.NamedTemporaryFile(dir=folder / "dev"):
        await until(lambda: _scans(running, resource) > before)


def _scans(running: Agent, resource: str) -> float:
    name = "accelet_discovery_duration_seconds_count"
    return running.metrics.registry.get_sample_value(name, {"resource": resource}) or 0.0


async def until(condition: Callable[[], bool], *, timeout_s: float = 30.0) -> None:
    async with asyncio.timeout(timeout_s):
        while not condition():  # noqa: ASYNC110 - what is asked for is asked for, as a probe does
            await asyncio.sleep(0.01)
