"""The measured processes: real ones, started as an operator would, read from outside."""

import asyncio
import compileall
import os
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import accelet
import benches
import deviceplugin
import resourcemanager


class EndedError(Exception):
    """A process did not live as long as its measurement; the text is what it said."""


@dataclass(frozen=True, slots=True)
class Memory:
    """A process's memory in KiB: all pages it has in memory, its part of them where pages are shared with
    other processes, and those that are its own alone and no file's.
    """

    rss_kib: int
    pss_kib: int
    anonymous_kib: int


@dataclass(frozen=True, slots=True)
class Measured:
    """A running process that is looked at from outside."""

    pid: int

    def cpu_s(self) -> float:
        """CPU time of all its threads so far, also of those that have ended, to the nanosecond.

        The clock's number is made as clock_getcpuclockid(3) makes it on Linux.
        """
        return time.clock_gettime((~self.pid << 3) | 2)

    def memory(self) -> Memory:
        lines = Path(f"/proc/{self.pid}/smaps_rollup").read_text().splitlines()[1:]
        kib = {name: int(value.split()[0]) for name, _, value in (line.partition(":") for line in lines)}
        return Memory(kib["Rss"], kib["Pss"], kib["Anonymous"])


def compile_ahead() -> None:
    """Compiles the measured packages, as an installation does: no start shall be the one that compiles."""
    for package in (accelet, deviceplugin, resourcemanager, benches):
        compileall.compile_dir(package.__path__[0], quiet=1)


@asynccontextmanager
async def run_agent(kubelet_dir: Path, host_root: Path, config: Path, *more: str) -> AsyncIterator[Measured]:
    """`accelet agent`, from before its process is started until it has ended; `more` are further options."""
    words = ["accelet", "agent", "--kubelet-dir", str(kubelet_dir), "--host-root", str(host_root), *more]
    async with _run([*words, "--config", str(config), "--http", "127.0.0.1:0"], kubelet_dir) as process:
        yield process


@asynccontextmanager
async def run_bare(kubelet_dir: Path, resource: str, devices: int) -> AsyncIterator[Measured]:
    """The bare plugin, likewise."""
    words = ["benches.agent.bare_plugin", str(kubelet_dir / "device-plugins"), resource, str(devices)]
    async with _run(words, kubelet_dir) as process:
        yield process


@asynccontextmanager
async def _run(module_and_words: Sequence[str], folder: Path) -> AsyncIterator[Measured]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("ACCELET_")}
    said = folder / f"{module_and_words[0]}.log"
    with said.open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", *module_and_words, stdout=log, stderr=log, env=environment
        )
    try:
        yield Measured(process.pid)
    finally:
        if process.returncode is not None:
            raise EndedError(f"{module_and_words[0]} ended by itself:\n{said.read_text()}")
        process.terminate()
        await process.wait()
