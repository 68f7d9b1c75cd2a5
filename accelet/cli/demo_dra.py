"""`accelet demo dra`: claims served on a simulated node, without cluster or root."""

import asyncio
import json
import os
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import click
import grpc
import msgspec

from accelet.cli.demo_run import DemoError
from accelet.cli.drawing.output import Output
from accelet.fakeapi import FakeApi
from accelet.fakeapi.firstfit import FirstFit, FitRequest
from accelet.kubelet.api import (
    dra_v1_pb2,
    dra_v1_pb2_grpc,
    pluginregistration_pb2,
    pluginregistration_pb2_grpc,
)

NODE = "demo-node"
PATIENCE_S = 8.0
SLICES = "apis/resource.k8s.io/v1/resourceslices"
CLAIMS = "apis/resource.k8s.io/v1/resourceclaims"
_CHANNEL = (("grpc.default_authority", "localhost"),)

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


class ShownClaim(msgspec.Struct, frozen=True):
    """One claim: what it was allocated and what its container got; `refused` says why it got nothing."""

    claim: str
    devices: tuple[str, ...]
    nodes: tuple[str, ...] = ()
    environment: dict[str, str] = {}
    refused: str | None = None


class DraReport(msgspec.Struct, frozen=True):
    """Everything `accelet demo dra` shows. Allocation is plain first fit, not kube-scheduler's."""

    allocation: str
    published_s: float
    slices: int
    devices: int
    claims: tuple[ShownClaim, ...]
    files_left: int


@click.command("dra")
@click.option("--json", "as_json", is_flag=True, help="Print JSON for machines.")
def command(*, as_json: bool) -> None:
    """Watch the agent publish a simulated node's GPUs and prepare claims on it.

    Starts the agent and an API server in this process, gives devices to claims by plain first fit (not what
    kube-scheduler does), asks the driver over its sockets as a kubelet would, and reads its CDI files.
    """
    with tempfile.TemporaryDirectory(prefix="accelet-") as folder:
        try:
            report = asyncio.run(run_demo(Path(folder)))
        except DemoError as error:
            click.echo(f"accelet demo dra: {error}", err=True)
            sys.exit(error.exit_code)
    if as_json:
        click.echo(msgspec.json.format(msgspec.json.encode(report), indent=2).decode())
    else:
        _print(report)


async def run_demo(folder: Path) -> DraReport:
    """Runs the demo in `folder`.

    Raises:
        DemoError: the agent did not serve the node.
    """
    (folder / "device-plugins").mkdir()
    (folder / "config.yaml").write_text(CONFIG)
    with FakeApi() as api:
        api.state.create("api/v1/nodes", "", {"metadata": {"name": NODE}})
        api.write_kubeconfig(folder / "kubeconfig")
        started = time.monotonic()
        async with _agent(folder):
            driver = await _register(folder)
            slices = await _published(api)
            published_s = time.monotonic() - started
            chooser = FirstFit(slices)
            chosen = [(name, chooser.allocate(request)) for name, request in WANTED]
            claims = [_make_claim(api, name, results) for name, results in chosen if results is not None]
            waiting = [ShownClaim(name, (), refused=NOTHING_FITS) for name, found in chosen if found is None]
            shown = (*await _prepare(driver, folder, claims), *waiting)
            await _unprepare(driver, claims)
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


async def _published(api: FakeApi) -> list[dict[str, Any]]:
    with suppress(TimeoutError):
        async with asyncio.timeout(PATIENCE_S):
            while True:
                found = list(api.state.list(SLICES, {}, None)["items"])
                if found and len(found) == found[0]["spec"]["pool"]["resourceSliceCount"]:
                    return sorted(found, key=lambda one: str(one["metadata"]["name"]))
                await asyncio.sleep(0.02)
    raise DemoError("the agent published nothing")


def _make_claim(api: FakeApi, name: str, results: list[dict[str, Any]]) -> dict[str, Any]:
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
    return api.state.create(CLAIMS, "demo", {"metadata": {"name": name}, "spec": {}, "status": status})


async def _register(folder: Path) -> str:
    """The driver's endpoint, as a kubelet learns it."""
    with suppress(TimeoutError):
        async with asyncio.timeout(PATIENCE_S):
            while True:
                for path in (folder / "plugins_registry").glob("*-reg.sock"):
                    with suppress(grpc.aio.AioRpcError):
                        return await _ask(path)
                await asyncio.sleep(0.02)
    raise DemoError("the driver did not register")


async def _ask(path: Path) -> str:
    async with grpc.aio.insecure_channel(f"unix:{path}", options=_CHANNEL) as channel:
        stub: Any = pluginregistration_pb2_grpc.RegistrationStub(channel)
        info = await stub.GetInfo(pluginregistration_pb2.InfoRequest(), timeout=1)
        await stub.NotifyRegistrationStatus(pluginregistration_pb2.RegistrationStatus(plugin_registered=True))
        return str(info.endpoint)


def _references(claims: Sequence[dict[str, Any]]) -> list[dra_v1_pb2.Claim]:
    named = (claim["metadata"] for claim in claims)
    return [dra_v1_pb2.Claim(namespace="demo", name=one["name"], uid=one["uid"]) for one in named]


async def _prepare(endpoint: str, folder: Path, claims: Sequence[dict[str, Any]]) -> tuple[ShownClaim, ...]:
    async with grpc.aio.insecure_channel(f"unix:{endpoint}", options=_CHANNEL) as channel:
        stub: Any = dra_v1_pb2_grpc.DRAPluginStub(channel)
        request = dra_v1_pb2.NodePrepareResourcesRequest(claims=_references(claims))
        answer = await stub.NodePrepareResources(request, timeout=45)
    edits = _read_cdi(folder / "cdi")
    return tuple(
        _show(claim["metadata"]["name"], answer.claims[claim["metadata"]["uid"]], edits) for claim in claims
    )


async def _unprepare(endpoint: str, claims: Sequence[dict[str, Any]]) -> None:
    async with grpc.aio.insecure_channel(f"unix:{endpoint}", options=_CHANNEL) as channel:
        stub: Any = dra_v1_pb2_grpc.DRAPluginStub(channel)
        request = dra_v1_pb2.NodeUnprepareResourcesRequest(claims=_references(claims))
        await stub.NodeUnprepareResources(request, timeout=45)


def _read_cdi(folder: Path) -> dict[str, Any]:
    documents = [json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))]
    return {
        f"{one['kind']}={device['name']}": device["containerEdits"]
        for one in documents
        for device in one["devices"]
    }


def _show(name: str, answer: dra_v1_pb2.NodePrepareResourceResponse, edits: dict[str, Any]) -> ShownClaim:
    given = [edits[one] for device in answer.devices for one in device.cdi_device_ids]
    return ShownClaim(
        name,
        tuple(device.device_name for device in answer.devices),
        tuple(sorted({node["path"] for one in given for node in one.get("deviceNodes", ())})),
        dict(sorted(line.split("=", 1) for one in given for line in one.get("env", ()))),
        answer.error or None,
    )


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
