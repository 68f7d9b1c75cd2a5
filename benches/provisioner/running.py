"""The provisioner as a process beside an API server: its memory, and what a slice costs in requests."""

import asyncio
import re
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.request import urlopen

from accelet.fakeapi import FakeApi
from benches.agent.processes import Measured
from benches.provisioner.cluster import MAPS, NAMESPACE, PODS, REQUESTS, fill, member, request
from tests.free_ports import free_port

_SETTINGS = """
version: v1
poll_s: 1
grace_s: 1
settle_s: 1
lag_s: 5
limits: {slices: 2000}
simulated: {create_s: 1, join_s: 1, delete_s: 1}
"""
_PATIENCE_S, _SETTLE_S = 120.0, 15.0


@dataclass(frozen=True, slots=True)
class Costs:
    """`calls` are creates and deletes a slice, `writes` those of its SliceRequest; `lists` all of them in
    `seconds`.
    """

    calls: float
    writes: float
    lists: float
    seconds: float


@dataclass(frozen=True, slots=True)
class SetCosts:
    """Processor time until a set was ready, and the memory that was resident then."""

    processor_s: float
    memory_mib: float


@dataclass(frozen=True, slots=True)
class EndCosts:
    """Processor time and time until all slices were gone, and the writes of each one's SliceRequest."""

    processor_s: float
    seconds: float
    writes: float


@dataclass(frozen=True, slots=True)
class Running:
    """A provisioner that leads, and its API server."""

    api: FakeApi
    process: Measured
    port: int


async def measure_memory(slices: int) -> float:
    """MiB that are resident with that many slices, after a while."""
    async with _running(slices) as running:
        await asyncio.sleep(_SETTLE_S)
        return running.process.memory().rss_kib / 1024


async def measure_calls(slices: int) -> Costs:
    """What slices cost that are asked for, become ready and are given back."""
    async with _running(0) as running:
        return await _make_and_give_back(running, slices)


async def measure_set(size: int) -> SetCosts:
    """What a set of that many slices of one machine each costs until it is ready."""
    async with _running(0) as running:
        api, before_s = running.api, running.process.cpu_s()
        for number in range(size):
            api.state.create(REQUESTS, NAMESPACE, member(number, size))

        def are_ready() -> bool:
            found = api.state.list(REQUESTS, {}, None)["items"]
            return all((one.get("status") or {}).get("phase") == "Ready" for one in found)

        await _until(are_ready, _PATIENCE_S + size)
        took_s = running.process.cpu_s() - before_s
        return SetCosts(took_s, running.process.memory().rss_kib / 1024)


async def measure_giving_back(slices: int) -> EndCosts:
    """What it costs to give back that many slices at one time, whose pods have ended."""
    async with _running(slices) as running:
        api, loop = running.api, asyncio.get_running_loop()
        for pod in api.state.list(PODS, {}, None)["items"]:
            api.state.delete(PODS, (pod["metadata"]["namespace"], pod["metadata"]["name"]))
        before_s, writes, began_s = running.process.cpu_s(), _writes(api), loop.time()
        for one in api.state.list(REQUESTS, {}, None)["items"]:
            api.state.delete(REQUESTS, (NAMESPACE, one["metadata"]["name"]))
        await _until(lambda: not api.state.list(REQUESTS, {}, None)["items"], _PATIENCE_S + slices)
        took_s = running.process.cpu_s() - before_s
        return EndCosts(took_s, loop.time() - began_s, (_writes(api) - writes) / slices)


@asynccontextmanager
async def _running(slices: int) -> AsyncIterator[Running]:
    with FakeApi(bookmark_s=5.0) as api, tempfile.TemporaryDirectory() as folder:
        made = api.state.create("api/v1/namespaces", "", {"metadata": {"name": "kube-system"}})
        await asyncio.to_thread(fill, api, slices, made["metadata"]["uid"][:12].rstrip("-"))
        kubeconfig, config = api.write_kubeconfig(Path(folder) / "kubeconfig"), Path(folder) / "config.yaml"
        config.write_text(_SETTINGS)
        port = free_port()
        words = ["--kubeconfig", kubeconfig, "--config", config, f"--http=127.0.0.1:{port}"]
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "accelet", "provisioner", *map(str, words)), stderr=subprocess.DEVNULL
        )
        try:
            await _until(lambda: _calls(port).get("list", 0) >= 1)
            yield Running(api, Measured(process.pid), port)
        finally:
            process.terminate()
            await process.wait()


async def _make_and_give_back(running: Running, slices: int) -> Costs:
    api, loop = running.api, asyncio.get_running_loop()
    before, writes, began_s = _calls(running.port), _writes(api), loop.time()
    made = [api.state.create(REQUESTS, NAMESPACE, request(number)) for number in range(slices)]
    keys = [(NAMESPACE, one["metadata"]["name"]) for one in made]
    await _until(lambda: all(_phase(api, key) == "Ready" for key in keys))
    for key in keys:
        api.state.delete(REQUESTS, key)
    await _until(lambda: not api.state.list(REQUESTS, {}, None)["items"])
    after, seconds = _calls(running.port), loop.time() - began_s
    asked = sum(after.get(call, 0) - before.get(call, 0) for call in ("create", "delete"))
    assert not api.state.list(MAPS, {}, None)["items"]
    return Costs(asked / slices, (_writes(api) - writes) / slices, after["list"] - before["list"], seconds)


def _writes(api: FakeApi) -> int:
    return sum(api.count(method=method, path="slicerequests") for method in ("POST", "PATCH", "DELETE"))


def _phase(api: FakeApi, key: tuple[str, str]) -> str:
    status = api.state.get(REQUESTS, key).get("status") or {}
    return str(status.get("phase", "Pending"))


def _calls(port: int) -> dict[str, float]:
    """Requests to the provider by kind, whatever came of them."""
    try:
        with urlopen(f"http://127.0.0.1:{port}/metrics", timeout=5) as answer:
            text = answer.read().decode()
    except OSError:
        return {}
    calls: dict[str, float] = {}
    for call, value in re.findall(r'provisioner_provider_calls_total\{call="(\w+)",.*\} (\S+)', text):
        calls[call] = calls.get(call, 0.0) + float(value)
    return calls


async def _until(condition: Callable[[], bool], patience_s: float = _PATIENCE_S) -> None:
    async with asyncio.timeout(patience_s):
        while not await asyncio.to_thread(condition):  # noqa: ASYNC110  the server is on other threads
            await asyncio.sleep(0.2)
