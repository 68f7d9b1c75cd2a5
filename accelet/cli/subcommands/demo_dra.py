"""`accelet demo dra`: claims served on a simulated node, without cluster or root."""

import asyncio
import os
import sys
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import click

from accelet.cli.demo_run import DemoError, show_demo
from accelet.cli.drawing.output import Output
from accelet.cli.forms.demoforms import DraReport, ShownClaim
from accelet.fakeapi import FakeApi
from accelet.fakeapi.firstfit import FirstFit, FitRequest
from accelet.fakekubelet import FakeKubelet, Pod, PodRecord, StillWaitingError, a_pod

NODE = "demo-node"
PATIENCE_S = 60.0
SLICES = "apis/resource.k8s.io/v1/resourceslices"
CLAIMS = "apis/resource.k8s.io/v1/resourceclaims"
DRIVER = "gpu.accelet.dev"
NOTHING_FITS = "waits: nothing that is free fits"

CONFIG = """\
version: v1
resources:
  - name: gpu.intel.com/i915
    backend: simulated
    serve: dra
    cards:
      - {pci: "0000:03:00.0", tiles: 2, memory_mib: 131072, nodes: [{path: /dev/null, mount_path: /dev/dri/card0}]}
      - {pci: "0000:04:00.0", tiles: 2, memory_mib: 131072, nodes: [{path: /dev/null, mount_path: /dev/dri/card1}]}
      - {pci: "0000:05:00.0", tiles: 2, memory_mib: 131072, nodes: [{path: /dev/null, mount_path: /dev/dri/card2}]}
"""  # noqa: E501

WANTED: Sequence[tuple[str, FitRequest]] = (
    ("one-tile", FitRequest("gpu", "tile")),
    ("two-tiles", FitRequest("gpu", "tile", count=2)),
    ("quarter-card", FitRequest("gpu", "gpu", amounts={"millicores": "250", "memory": "8Gi"})),
    ("half-card", FitRequest("gpu", "gpu", amounts={"millicores": "500", "memory": "16Gi"})),
    ("whole-card", FitRequest("gpu", "gpu")),
    ("monitors", FitRequest("gpu", "monitor", count=3)),
)


@click.command("dra")
@click.option("--json", "as_json", is_flag=True, help="Print JSON for machines.")
def command(*, as_json: bool) -> None:
    """Watch the agent publish a simulated node's GPUs and prepare claims on it.

    Starts the agent, a fake kubelet and an API server, gives devices to claims by plain first fit (not what
    kube-scheduler does), has the kubelet prepare them for pods, and shows what their containers get.
    """
    show_demo("demo dra", run_demo, _print, as_json=as_json)


async def run_demo(folder: Path) -> DraReport:
    """Runs the demo in `folder`.

    Raises:
        DemoError: the agent did not serve the node.
    """
    (folder / "config.yaml").write_text(CONFIG)
    with FakeApi() as api:
        api.state.create("api/v1/nodes", "", {"metadata": {"name": NODE}})
        api.write_kubeconfig(folder / "kubeconfig")
        started = time.monotonic()
        async with _agent(folder), _kubelet(folder) as kubelet:
            slices = await _published(api)
            published_s = time.monotonic() - started
            chooser = FirstFit(slices)
            chosen = [(name, chooser.allocate(request)) for name, request in WANTED]
            pods = [_make_pod(api, name, results) for name, results in chosen if results is not None]
            waiting = [ShownClaim(name, (), refused=NOTHING_FITS) for name, found in chosen if found is None]
            try:
                shown = (*await _serve(kubelet, pods), *waiting)
            except StillWaitingError as error:
                raise DemoError(str(error)) from error
            left = len(list((folder / "cdi").glob("*.json")))
    devices = sum(len(one["spec"].get("devices", ())) for one in slices)
    return DraReport("plain first fit", round(published_s, 3), len(slices), devices, shown, left)


@asynccontextmanager
async def _agent(folder: Path) -> AsyncIterator[None]:
    options = [
        "--config",
        "config.yaml",
        "--kubelet-dir",
        ".",
        "--cdi-dir",
        "cdi",
        "--kubeconfig",
        "kubeconfig",
    ]
    words = [str(folder / word) if not word.startswith("--") else word for word in options]
    agent = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "accelet",
        "agent",
        *words,
        "--node-name",
        NODE,
        "--http",
        "",
        stderr=asyncio.subprocess.DEVNULL,
        env={name: value for name, value in os.environ.items() if not name.startswith("ACCELET_")},
    )
    try:
        yield
    finally:
        agent.terminate()
        await agent.wait()


@asynccontextmanager
async def _kubelet(folder: Path) -> AsyncIterator[FakeKubelet]:
    from accelet.fakekubelet import kube_claims  # noqa: PLC0415 - needs kubernetes, which the other demo does not

    async with kube_claims(folder / "kubeconfig") as claims:
        cdi = folder / "cdi"
        async with FakeKubelet(folder, node_name=NODE, claims=claims, cdi_dirs=[cdi]) as kubelet:
            try:
                await kubelet.driver_registered(DRIVER, timeout_s=PATIENCE_S)
            except StillWaitingError:
                raise DemoError(f"the driver did not register within {PATIENCE_S:.0f} s") from None
            yield kubelet


async def _published(api: FakeApi) -> list[dict[str, Any]]:
    with suppress(TimeoutError):
        async with asyncio.timeout(PATIENCE_S):
            while True:
                found = list(api.state.list(SLICES, {}, None)["items"])
                if found and len(found) == found[0]["spec"]["pool"]["resourceSliceCount"]:
                    return sorted(found, key=lambda one: str(one["metadata"]["name"]))
                await asyncio.sleep(0.02)
    raise DemoError(f"the agent published no complete pool within {PATIENCE_S:.0f} s")


def _make_pod(api: FakeApi, name: str, results: list[dict[str, Any]]) -> Pod:
    """A pod at the API server with its claim, allocated."""
    pod = api.state.create(
        "api/v1/pods",
        "demo",
        {
            "metadata": {"name": name},
            "spec": {
                "nodeName": NODE,
                "resourceClaims": [{"name": "gpu", "resourceClaimName": name}],
                "containers": [{"name": "main", "resources": {"claims": [{"name": "gpu"}]}}],
            },
        },
    )
    consumer = {"resource": "pods", "name": name, "uid": pod["metadata"]["uid"]}
    status = {"allocation": {"devices": {"results": results}}, "reservedFor": [consumer]}
    api.state.create(CLAIMS, "demo", {"metadata": {"name": name}, "spec": {}, "status": status})
    return a_pod(name, "demo", uid=pod["metadata"]["uid"], claims={"gpu": name})


async def _serve(kubelet: FakeKubelet, pods: Sequence[Pod]) -> tuple[ShownClaim, ...]:
    """Runs the pods, and removes them when it has seen what they got."""
    records = [await kubelet.admit(pod, timeout_s=PATIENCE_S) for pod in pods]
    shown = tuple(_show(kubelet, record) for record in records)
    for record in records:
        await kubelet.remove(record)
    for record in records:
        await kubelet.released(record, timeout_s=PATIENCE_S)
    return shown


def _show(kubelet: FakeKubelet, record: PodRecord) -> ShownClaim:
    name, given = record.pod.name, record["main"].injected
    if record.claim_error is not None:
        return ShownClaim(name, (), refused=record.claim_error)
    claim = kubelet.claim(name, "demo")
    devices = claim.devices[DRIVER] if claim is not None else ()
    nodes, environment = tuple(sorted(given.nodes)), dict(sorted(given.envs.items()))
    return ShownClaim(name, tuple(device.device for device in devices), nodes, environment)


def _print(report: DraReport) -> None:
    output = Output()
    output.line(
        f"{report.devices} devices in {report.slices} ResourceSlices, {report.published_s:.2f} s after the "
        f"agent's start; given to claims by {report.allocation}."
    )
    for claim in report.claims:
        output.line("")
        output.line(f"{claim.claim}: {', '.join(claim.devices)}".removesuffix(": "))
        output.line(f"  {claim.refused or ' '.join(claim.nodes)}")
        for name, value in claim.environment.items():
            output.line(f"  {name}={value}")
    output.line("")
    output.line(f"After Unprepare {report.files_left} CDI files are left.")
