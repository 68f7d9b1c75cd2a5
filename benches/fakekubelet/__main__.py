"""`python -m benches.fakekubelet`: how fast the fake kubelet restarts and admits."""

import asyncio
import json
import os
import statistics
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

# Read by gRPC's C core when it is loaded; its notices would land in the output.
os.environ.setdefault("GRPC_VERBOSITY", "NONE")

import click

from accelet.fakekubelet import FakeKubelet, a_pod
from accelet.fakekubelet.sample_plugin import SamplePlugin

_RESTARTS = 100


@asynccontextmanager
async def _with_plugin(root: Path, devices: int) -> AsyncIterator[FakeKubelet]:
    hardware = root / "hardware"
    hardware.mkdir()
    for number in range(devices):
        (hardware / f"dev-{number}").write_text("healthy")
    async with FakeKubelet(root, seed=1) as kubelet:
        plugin = asyncio.create_task(SamplePlugin(kubelet.plugins_dir, hardware).run())
        view = await kubelet.registered(SamplePlugin.resource)
        await view.devices(healthy=devices)
        yield kubelet
        plugin.cancel()
        await asyncio.gather(plugin, return_exceptions=True)


async def _restarts() -> list[float]:
    """How long each restart of the fake alone takes, in milliseconds."""
    taken = []
    with TemporaryDirectory(prefix="fk-", dir="/tmp") as folder:
        async with FakeKubelet(folder) as kubelet:
            for _ in range(_RESTARTS):
                began = time.perf_counter()
                await kubelet.restart()
                taken.append((time.perf_counter() - began) * 1000)
    return taken


async def _admissions(count: int) -> float:
    """How many seconds `count` pods take that come and go one after the other."""
    with TemporaryDirectory(prefix="fk-", dir="/tmp") as folder:
        async with _with_plugin(Path(folder), 8) as kubelet:
            began = time.perf_counter()
            for number in range(count):
                record = await kubelet.admit(a_pod(f"pod-{number}", limits={SamplePlugin.resource: 1}))
                if record.rejection is not None:
                    raise click.ClickException(record.rejection.message)
                await kubelet.remove(record)
            return time.perf_counter() - began


@click.command()
@click.option("--admissions", default=10_000, show_default=True, type=click.IntRange(1))
def main(admissions: int) -> None:
    """Measure restarts of the fake kubelet alone, and admissions against the sample plugin."""
    restarts = asyncio.run(_restarts())
    seconds = asyncio.run(_admissions(admissions))
    found = {
        "restarts": len(restarts),
        "restart_ms_p50": round(statistics.median(restarts), 1),
        "restart_ms_max": round(max(restarts), 1),
        "restart_ms_allowed": 50,
        "admissions": admissions,
        "admissions_s": round(seconds, 1),
        "admissions_s_allowed": 60,
    }
    click.echo(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
