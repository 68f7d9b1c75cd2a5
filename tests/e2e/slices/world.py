"""What tests of the provisioner share: the process, and kubelets for simulated Nodes."""

import asyncio
import json
import os
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec

from accelet.kube.apiresources import NODES, PODS, ApiResource
from accelet.kube.client import Client
from accelet.kube.errors import NotFoundError, TooManyError
from accelet.kube.podparser import parse_pod
from accelet.kube.pods import Pod
from accelet.provisioner.demand.selectors import NAMESPACED_JOB, NODE_POOL
from tests.unit.provisioner.manifests import PROVISION, job_spec

FAST = """
version: v1
provider: simulated
poll_s: 0.5
grace_s: 0.5
settle_s: 1
lag_s: 5
"""
"""The beginning of settings whose times are short."""

FAST_SETTINGS = f"{FAST}simulated: {{create_s: 0.5, join_s: 0.5, delete_s: 0.5}}\n"


async def until(condition: Any, within_s: float = 120.0, every_s: float = 0.1) -> None:
    async with asyncio.timeout(within_s):
        while not await condition():  # noqa: ASYNC110 - the API server is another process
            await asyncio.sleep(every_s)


async def is_served(client: Client, resource: ApiResource) -> bool:
    """Whether a kind that was defined a moment ago can be listed."""
    try:
        await client.list_page(resource, None, {"limit": "1"})
    except (NotFoundError, TooManyError):
        return False
    return True


@asynccontextmanager
async def provisioner(
    kubeconfig: Path, folder: Path, settings: str, name: str = "provisioner"
) -> AsyncIterator[asyncio.subprocess.Process]:
    """A replica of that name, which it has before the last dash of its identity in the lease."""
    config = folder / "settings.yaml"
    config.write_text(settings)
    words = ["provisioner", "--kubeconfig", str(kubeconfig), "--config", str(config)]
    with (folder / "provisioner.log").open("ab") as out:
        process = await asyncio.create_subprocess_exec(
            Path(sys.executable).with_name("accelet"),
            *words,
            stdout=out,
            stderr=out,
            env=os.environ | {"HOSTNAME": name},
        )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.terminate()
        await process.wait()


def one_job(namespace: str, name: str, topology: str, hosts: int) -> dict[str, Any]:
    """A Job that asks for one slice, and selects the nodes that are made for it."""
    spec = job_spec(
        topology=topology,
        pods=hosts,
        selector={NAMESPACED_JOB: f"{namespace}_{name}"},
        restartPolicy="Never",
        tolerations=[{"key": "google.com/tpu", "operator": "Exists"}],
    )
    metadata = {"name": name, "annotations": PROVISION}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": spec}


class Kubelets:
    """They run each pod that is bound to a Node of a pool, which has this label, for a second.

    While `may_end` is not set they run on.
    """

    def __init__(self, client: Client, namespace: str, pool_label: str = NODE_POOL) -> None:
        self._client, self._namespace, self._pool_label = client, namespace, pool_label
        self._started_s: dict[str, float] = {}
        self.may_end = asyncio.Event()
        self.may_end.set()
        self.killed: list[str] = []

    async def run(self) -> None:
        while True:
            nodes = {name: True async for name in names(self._client, NODES, None, self._pool_label)}
            page = await self._client.list_page(PODS, self._namespace)
            pods = [pod for pod in map(parse_pod, page.items) if pod.node_name and not pod.is_terminal]
            await asyncio.gather(*(self._attend(pod, is_there=pod.node_name in nodes) for pod in pods))
            await asyncio.sleep(0.5)

    async def _attend(self, pod: Pod, *, is_there: bool) -> None:
        if not is_there and await self._is_stranded(pod):
            self.killed.append(pod.name)
            return
        is_new = pod.name not in self._started_s
        since_s = self._started_s.setdefault(pod.name, time.monotonic())
        if is_new or (self.may_end.is_set() and time.monotonic() - since_s > 1):
            body = {"status": {"phase": "Running" if is_new else "Succeeded"}}
            with suppress(NotFoundError):
                await self._client.patch(
                    PODS, self._namespace, pod.name, body, "strategic", subresource="status"
                )

    async def _is_stranded(self, pod: Pod) -> bool:
        """Whether a pod still runs after its Node is gone: the two lists were not of one moment."""
        try:
            await self._client.get(NODES, None, str(pod.node_name))
        except NotFoundError:
            with suppress(NotFoundError):
                raw = await self._client.get(PODS, self._namespace, pod.name)
                return not parse_pod(msgspec.Raw(raw)).is_terminal
        return False


async def names(
    client: Client, resource: ApiResource, namespace: str | None, selector: str
) -> AsyncIterator[str]:
    page = await client.list_page(resource, namespace, {"labelSelector": selector} if selector else None)
    for raw in page.items:
        yield json.loads(bytes(raw))["metadata"]["name"]


async def count(client: Client, resource: ApiResource, namespace: str | None, selector: str = "") -> int:
    return len([name async for name in names(client, resource, namespace, selector)])
