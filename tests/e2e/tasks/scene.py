"""An ordinary user's namespace, a folder that her pods write to, and what two watches saw of it."""

# ruff: noqa: F811 - fixtures of other modules

import asyncio
import json
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from accelet.kinds.gputask import GPU_TASKS
from accelet.kube.apiresources import ApiResource
from accelet.kube.client import Client
from tests.e2e.cluster.binaries import Binaries
from tests.e2e.cluster.control_plane import ControlPlane
from tests.e2e.cluster.kubeconfig import write_kubeconfig
from tests.e2e.cluster.workloads import Workloads
from tests.e2e.tasks.oracle import Seen, read_watch
from tests.e2e.tasks.programs import CLAIM
from tests.e2e.test_sharing import PROJECT, token_of
from tests.e2e.test_tasks import client, kubeconfig, namespace, user  # noqa: F401 - fixtures

_VOLUMES = ApiResource("PersistentVolume", "persistentvolumes")
_CLAIMS = ApiResource("PersistentVolumeClaim", "persistentvolumeclaims")


@dataclass(frozen=True)
class Scene:
    """A namespace, its ordinary user, the folder on the node that pods write to, and what watches saw."""

    namespace: str
    user: Client
    client: Client
    record: Path
    folder: Path

    async def statuses(self) -> dict[str, dict[str, Any]]:
        page = await self.user.list_page(GPU_TASKS, self.namespace)
        found = [json.loads(bytes(item)) for item in page.items]
        return {one["metadata"]["name"]: one.get("status") or {} for one in found}

    def seen(self) -> Seen:
        jobs, pods = ((self.folder / f"{name}.watch").read_text() for name in ("jobs", "pods"))
        return read_watch(jobs, pods)


@pytest.fixture
async def scene(  # noqa: PLR0917 - fixtures
    user: Client, client: Client, namespace: str, cluster: ControlPlane, binaries: Binaries, tmp_path: Path
) -> AsyncIterator[Scene]:
    record = tmp_path / "record"
    record.mkdir()
    size, access = {"storage": "1Gi"}, ["ReadWriteMany"]
    volume = {
        "metadata": {"name": namespace},
        "spec": {
            "capacity": size,
            "accessModes": access,
            "hostPath": {"path": str(record)},
            "storageClassName": "",
            "claimRef": {"namespace": namespace, "name": CLAIM},
        },
    }
    await client.create(_VOLUMES, None, volume)
    claim = {"accessModes": access, "resources": {"requests": size}, "storageClassName": ""}
    await user.create(_CLAIMS, namespace, {"metadata": {"name": CLAIM}, "spec": claim})
    paths = {
        "jobs": f"/apis/batch/v1/namespaces/{namespace}/jobs?watch=1",
        "pods": f"/api/v1/namespaces/{namespace}/pods?watch=1",
    }
    async with (
        _watching(cluster, binaries, paths["jobs"], tmp_path / "jobs.watch"),
        _watching(cluster, binaries, paths["pods"], tmp_path / "pods.watch"),
    ):
        yield Scene(namespace, user, client, record, tmp_path)
    await client.delete(_VOLUMES, None, namespace)


@asynccontextmanager
async def _watching(cluster: ControlPlane, binaries: Binaries, path: str, out: Path) -> AsyncIterator[None]:
    words = ["get", "--kubeconfig", str(cluster.kubeconfig), "--raw", path]
    with out.open("wb") as file:
        process = await asyncio.create_subprocess_exec(binaries.path("kubectl"), *words, stdout=file)
    try:
        yield
    finally:
        still_watched = process.returncode is None
        if still_watched:
            process.kill()
        await process.wait()
    assert still_watched, "the watch ended before the test"


@pytest.fixture
def scheduler_words(cluster: ControlPlane, workloads: Workloads, tmp_path: Path) -> Iterator[Sequence[str]]:
    """With the account and the rights of deploy/scheduler.yaml."""
    manifests = list(yaml.safe_load_all((PROJECT / "deploy" / "scheduler.yaml").read_text()))
    with workloads.applied(each for each in manifests if each["kind"] != "Deployment"):
        path = write_kubeconfig(
            tmp_path / "scheduler-kubeconfig",
            server=cluster.url,
            ca=cluster.authority.keys.certificate,
            credentials=token_of(cluster, "accelet-scheduler", "kube-system"),
        )
        yield "scheduler", "--kubeconfig", str(path)
