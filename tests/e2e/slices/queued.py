"""Kueue's own controller asks for slices before it lets a JobSet run; `make e2e-provisioner` runs it."""

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from accelet.kinds.slicerequest import SLICE_REQUESTS
from accelet.kube.apiresources import CONFIG_MAPS, NODES, ApiResource
from accelet.kube.client import Client
from accelet.provisioner.bookings.booking import PROVISIONING_REQUESTS
from accelet.provisioner.demand.selectors import NODE_POOL, ZONE
from accelet.provisioner.watching import JOB_SETS
from tests.e2e.cluster.binaries import Binaries
from tests.e2e.cluster.control_plane import ControlPlane
from tests.e2e.slices.jobset import job_set
from tests.e2e.slices.kueue import QUEUE_LABEL, WORKLOADS, kueue, make_queue
from tests.e2e.slices.world import Kubelets, count, provisioner, until

JOB_SET_COUNT, CHIPS, ATTEMPTS = 3, 64, 1
SETTINGS = """
version: v1
provider: simulated
poll_s: 0.5
grace_s: 0.5
settle_s: 1
lag_s: 2
rest_s: 1
simulated: {create_s: 1, join_s: 0.5, delete_s: 0.5, capacity: [{tier: on-demand, zone: dry, slices: 0}]}
"""

pytestmark = pytest.mark.timeout(1800)


@pytest.fixture
async def queue(
    job_sets: ControlPlane, client: Client, kueue_binaries: Binaries, namespace: str, tmp_path: Path
) -> AsyncIterator[str]:
    """A namespace with a queue for two JobSets at one time."""
    async with kueue(job_sets, client, kueue_binaries, tmp_path):
        await make_queue(client, namespace, chips=CHIPS, attempts=ATTEMPTS)
        yield namespace


def _queued(name: str, zone: str = "") -> dict[str, Any]:
    """A JobSet that asks nobody for slices: its queue does."""
    raw = job_set(name)
    del raw["metadata"]["annotations"]
    raw["metadata"]["labels"] = {QUEUE_LABEL: "tpus"}
    raw["spec"]["suspend"] = True
    pods = raw["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"]
    pods["nodeSelector"] |= {ZONE: zone} if zone else {}
    return raw


async def _objects(client: Client, resource: ApiResource, namespace: str) -> dict[str, dict[str, Any]]:
    page = await client.list_page(resource, namespace)
    found = (json.loads(bytes(raw)) for raw in page.items)
    return {one["metadata"]["name"]: one for one in found}


async def test_kueue_lets_job_sets_run_on_slices_that_it_booked(
    queue: str, client: Client, kubeconfig: Path, tmp_path: Path
) -> None:
    kubelets = Kubelets(client, queue)
    running = asyncio.create_task(kubelets.run())
    booked: Counter[str] = Counter()
    messages: set[str] = set()
    for index in range(JOB_SET_COUNT):
        await client.create(JOB_SETS, queue, _queued(f"train-{index}"))
    await client.create(JOB_SETS, queue, _queued("never", zone="dry"))

    async def is_done() -> bool:
        assert not running.done(), running
        for name, one in (await _objects(client, PROVISIONING_REQUESTS, queue)).items():
            for condition in (one.get("status") or {}).get("conditions") or ():
                booked[f"{name} {condition['type']} {condition['status']}"] += 1
        workloads = await _objects(client, WORKLOADS, queue)
        checks = [check for one in workloads.values() for check in _checks(one)]
        messages.update(f"{check['state']}: {check['message']}" for check in checks)
        found = await _objects(client, JOB_SETS, queue)
        states = Counter((one.get("status") or {}).get("terminalState") for one in found.values())
        return states["Completed"] == JOB_SET_COUNT and any(text.startswith("Rejected") for text in messages)

    async def is_clean() -> bool:
        left = await _objects(client, SLICE_REQUESTS, queue)
        pools = await count(client, CONFIG_MAPS, "kube-system", "accelet.dev/simulated-pool")
        owners = {one["spec"]["owner"]["name"] for one in left.values()}
        return owners <= {"never"} and pools + await count(client, NODES, None, NODE_POOL) == 0

    async with provisioner(kubeconfig, tmp_path, SETTINGS):
        try:
            await until(is_done, 900)
        finally:
            (tmp_path / "seen.json").write_text(json.dumps([sorted(booked), sorted(messages)], indent=1))
        await until(is_clean, 300)
    running.cancel()
    assert kubelets.killed == []
    provisioned = [text for text in booked if text.endswith("Provisioned True")]
    assert len(provisioned) == JOB_SET_COUNT
    failed = sorted(text.split()[0][-2:] for text in booked if text.endswith("Failed True"))
    assert failed == ["-1", "-2"], "Kueue asked anew once, and then no more"
    assert any(text.startswith("Rejected") and "no on-demand capacity" in text for text in messages)


def _checks(workload: dict[str, Any]) -> list[dict[str, Any]]:
    checks: list[dict[str, Any]] = (workload.get("status") or {}).get("admissionChecks") or []
    return checks
