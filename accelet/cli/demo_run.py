"""What the demo does: an agent, a fake kubelet, a few pods, one restart; and what was seen of it."""

import asyncio
import os
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Iterable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import click
import msgspec

from accelet.agent.configfile import ConfigFile
from accelet.cli.forms.demoforms import Recovery, Report, SeenContainer, SeenResource
from accelet.fakekubelet import FakeKubelet, Pod, PodRecord, StillWaitingError, a_container, a_pod
from accelet.fakekubelet.trace import Trace
from accelet.runtime.run import EXIT_FAILED
from accelet.runtime.settings import SettingsError

_R = TypeVar("_R")

VERSION = "1.36"
PROGRESS_S = 60.0
"""The demo gives up so long after the last event at the kubelet. A busy machine is slow."""

QUIET_S = 0.3
"""No further resource has registered for so long: these are all."""


class DemoError(Exception):
    """The demo cannot be shown; the text says why."""

    def __init__(self, reason: str, exit_code: int = EXIT_FAILED) -> None:
        super().__init__(reason)
        self.exit_code = exit_code


def show_demo(
    name: str, run: Callable[[Path], Coroutine[Any, Any, _R]], draw: Callable[[_R], None], *, as_json: bool
) -> None:
    """Runs the demo that `accelet NAME` is in a folder of its own, and shows its report or prints it as JSON.

    Exits with a sentence where the demo cannot be shown.
    """
    with tempfile.TemporaryDirectory(prefix="accelet-") as folder:
        try:
            report = asyncio.run(run(Path(folder)))
        except DemoError as error:
            click.echo(f"accelet {name}: {error}", err=True)
            sys.exit(error.exit_code)
    if as_json:
        click.echo(msgspec.json.format(msgspec.json.encode(report), indent=2).decode())
    else:
        draw(report)


async def run_demo(folder: Path, node: Path) -> Report:
    """Runs the demo in `folder` on the node that `node` describes.

    Raises:
        DemoError: the agent did not serve the node.
    """
    options = _agent_options(folder, node)
    async with FakeKubelet(folder, version=VERSION) as kubelet, _agent(options) as agent:
        started = time.monotonic()
        await _registered(kubelet, agent, await asyncio.to_thread(_expected, *_host_of(node)))
        first_list_s = time.monotonic() - started
        await asyncio.sleep(QUIET_S)
        found = _resources(kubelet)
        sizes = await asyncio.to_thread(_sizes, *_host_of(node))
        pods = [await kubelet.admit(pod) for pod in _pods(found, sizes)]
        recovery = await _restart(kubelet, found, pods)
        seen = tuple(container for record in pods for container in _containers(record))
    return Report(VERSION, round(first_list_s, 3), found, seen, recovery)


def _agent_options(folder: Path, node: Path) -> list[str]:
    """What the agent is told of the node: a configuration, or a folder with sys/, dev/ and config.yaml."""
    options = ["--kubelet-dir", str(folder), "--http", "127.0.0.1:0"]
    root, config = _host_of(node)
    options += ["--host-root", str(root)]
    return options if config is None else [*options, "--config", str(config)]


def _host_of(node: Path) -> tuple[Path, Path | None]:
    """The root of the host and the configuration file, None for the built-in one."""
    if not node.is_dir():
        return Path("/"), node
    config = node / "config.yaml"
    return node, config if config.exists() else None


def _expected(root: Path, config: Path | None) -> Collection[str] | None:
    """The resources of the device plugin that have devices; None where the configuration cannot be read."""
    try:
        resources = ConfigFile(config).load().resources
    except SettingsError:
        return None
    served = [one for one in resources if one.serve != "dra"]
    return frozenset(one.name for one in served if one.backend().scan(root).devices)


def _sizes(root: Path, config: Path | None) -> Mapping[str, tuple[int, ...]]:
    """How many devices of each resource a container can be given at once, smallest first."""
    sizes = {}
    for resource in ConfigFile(config).load().resources:
        backend = resource.backend()
        inventory = backend.scan(root)
        every = range(1, len(inventory.devices) + 1)
        sizes[resource.name] = tuple(size for size in every if backend.valid_sets(inventory, size) != [])
    return sizes


@asynccontextmanager
async def _agent(options: list[str]) -> AsyncIterator[asyncio.subprocess.Process]:
    agent = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "accelet",
        "agent",
        *options,
        stderr=asyncio.subprocess.PIPE,
        env={name: value for name, value in os.environ.items() if not name.startswith("ACCELET_")},
    )
    try:
        yield agent
    finally:
        if agent.returncode is None:
            agent.terminate()
        await agent.communicate()


async def _registered(
    kubelet: FakeKubelet, agent: asyncio.subprocess.Process, expected: Collection[str] | None
) -> None:
    """Returns when each resource of `expected` has registered and listed its devices.

    None stands for a configuration that cannot be read: the agent says why, and ends.
    """
    if expected is not None and not expected:
        raise DemoError("the node has no device to show (accelet devices says why)")
    ended = asyncio.create_task(agent.wait())
    listed = asyncio.create_task(_listed(kubelet, expected or ()))
    try:
        await asyncio.wait((ended, listed), return_when=asyncio.FIRST_COMPLETED)
        if listed.done():
            listed.result()
            return
    finally:
        for task in (ended, listed):
            task.cancel()
    assert agent.stderr is not None
    said = (await agent.stderr.read()).decode(errors="replace")
    plain = "\n".join(line for line in said.splitlines() if not line.startswith("{"))
    raise DemoError(f"the agent ended:\n{plain or said}", agent.returncode or EXIT_FAILED)


async def _listed(kubelet: FakeKubelet, expected: Collection[str]) -> None:
    def missing() -> list[str]:
        seen = {name for name in _names(kubelet) if kubelet.resource(name).capacity}
        return sorted(set(expected) - seen) if expected else [] if seen else ["any resource"]

    await until_listed(kubelet.trace, missing, PROGRESS_S)


async def until_listed(trace: Trace, missing: Callable[[], list[str]], progress_s: float) -> None:
    """Returns when nothing is `missing`; waits on for as long as events come.

    Raises:
        DemoError: no event came for `progress_s` seconds; it says what is still missing.
    """
    while missing():
        before = len(trace.events)

        def is_further(before: int = before) -> bool:
            return len(trace.events) > before or not missing()

        try:
            await trace.until(is_further, "progress", timeout_s=progress_s)
        except StillWaitingError:
            names = ", ".join(missing())
            raise DemoError(f"waited {progress_s:g} s for the agent to list the devices of {names}") from None


def _names(kubelet: FakeKubelet) -> list[str]:
    return sorted({event.resource for event in kubelet.trace.events if event.resource})


def _status(kubelet: FakeKubelet) -> Iterable[tuple[int, int]]:
    return [(view.capacity, view.allocatable) for view in map(kubelet.resource, _names(kubelet))]


def _resources(kubelet: FakeKubelet) -> tuple[SeenResource, ...]:
    views = [(name, kubelet.resource(name)) for name in _names(kubelet)]
    return tuple(SeenResource(name, len(view.healthy), len(view.unhealthy)) for name, view in views)


def _pods(resources: tuple[SeenResource, ...], sizes: Mapping[str, tuple[int, ...]]) -> Iterable[Pod]:
    """For each resource a pod that asks for the least there is, another if there is room, and a greedy one.

    The least is one device; where containers are given whole sets only, the smallest set.
    """
    for resource in resources:
        short = resource.name.rpartition("/")[2]
        least = min(sizes.get(resource.name, ()), default=1)
        limits = {resource.name: least}
        if resource.healthy == 0:
            yield a_pod(f"{short}-hopeless", limits=limits)
            continue
        yield a_pod(f"{short}-one", limits=limits)
        if resource.healthy >= 3 * least:
            yield a_pod(
                f"{short}-pair", containers=[a_container("left", limits), a_container("right", limits)]
            )
        elif resource.healthy >= 2 * least:
            yield a_pod(f"{short}-other", limits=limits)
        yield a_pod(f"{short}-greedy", limits={resource.name: resource.healthy + 1})


async def _restart(kubelet: FakeKubelet, before: tuple[SeenResource, ...], pods: list[PodRecord]) -> Recovery:
    running = [record for record in pods if record.is_running]
    held = {record.pod.name: _devices(record) for record in running}
    await kubelet.restart()
    started = time.monotonic()
    for resource in before:
        view = kubelet.resource(resource.name)
        try:
            await view.devices(healthy=resource.healthy, unhealthy=resource.unhealthy, timeout_s=PROGRESS_S)
        except StillWaitingError as error:
            raise DemoError(f"{resource.name} did not come back after the restart: {error}") from None
    seconds = time.monotonic() - started
    kept = sum(record.is_running and _devices(record) == held[record.pod.name] for record in running)
    return Recovery(round(seconds, 3), _resources(kubelet), kept, len(running) - kept)


def _devices(record: PodRecord) -> dict[str, dict[str, tuple[str, ...]]]:
    return {name: dict(container.devices) for name, container in record.containers.items()}


def _containers(record: PodRecord) -> Iterable[SeenContainer]:
    for name, container in record.containers.items():
        for resource, asked in container.container.limits.items():
            yield SeenContainer(
                pod=record.pod.name,
                container=name,
                resource=resource,
                asked=asked,
                devices=tuple(sorted(container.devices.get(resource, ()))),
                nodes=tuple(sorted(node.container_path for node in container.options.devices)),
                environment=dict(sorted(container.options.envs.items())),
                rejected=record.rejection.message if record.rejection else None,
                cdi=tuple(sorted(container.options.cdi_devices)),
            )
