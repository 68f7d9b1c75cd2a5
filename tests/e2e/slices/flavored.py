"""A JobSet learns of its TPUs when a queue lets it run: its workers are told all the same who they are.

`make e2e-provisioner` runs it. JobSet's own controller and webhooks make the Jobs and take the queue's labels
over into them; the policies of deploy/identity number the slices.
"""

import json
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from accelet.kinds.slicerequest import SLICE_REQUESTS
from accelet.kube.apiresources import JOBS, PODS, ApiResource
from accelet.kube.client import Client
from accelet.provisioner.watching import JOB_SETS
from tests.e2e.cluster.binaries import Binaries
from tests.e2e.cluster.control_plane import ControlPlane
from tests.e2e.identity_api import Api, identity_in_force
from tests.e2e.slices.jobset import HOSTS, SLICES, controller, job_set
from tests.e2e.slices.world import is_served, until

pytestmark = pytest.mark.timeout(600)


@pytest.fixture
async def identified(
    cluster: ControlPlane, client: Client, kubeconfig: Path, jobset_binaries: Binaries, tmp_path: Path
) -> AsyncIterator[None]:
    """Has JobSet's controller and webhooks serve the cluster, and the policies judge it."""
    async with controller(cluster, client, jobset_binaries, tmp_path, has_webhooks=True):
        await until(lambda: is_served(client, SLICE_REQUESTS))
        with closing(Api(cluster)) as api, identity_in_force(cluster, api):
            yield


async def _objects(client: Client, resource: ApiResource, namespace: str) -> list[dict[str, Any]]:
    page = await client.list_page(resource, namespace)
    return [json.loads(bytes(raw)) for raw in page.items]


def _environment(pod: dict[str, Any]) -> dict[str, str]:
    return {one["name"]: one.get("value", "") for one in pod["spec"]["containers"][0].get("env", [])}


@pytest.mark.usefixtures("identified")
async def test_slices_whose_tpus_a_flavor_names_are_one_program(client: Client, namespace: str) -> None:
    raw = job_set("queued")
    raw["spec"]["suspend"] = True
    flavor = raw["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]["spec"].pop("nodeSelector")
    await client.create(JOB_SETS, namespace, raw)

    async def are_made() -> bool:
        return len(await _objects(client, JOBS, namespace)) == SLICES

    await until(are_made, 120)
    # As Kueue lets it run: one update with the labels of its ResourceFlavor.
    (queued,) = await _objects(client, JOB_SETS, namespace)
    replicated = queued["spec"]["replicatedJobs"]
    replicated[0]["template"]["spec"]["template"]["spec"].setdefault("nodeSelector", {}).update(flavor)
    let_run = {"spec": {"suspend": False, "replicatedJobs": replicated}}
    await client.patch(JOB_SETS, namespace, "queued", let_run, "merge")

    async def are_all_there() -> bool:
        return len(await _objects(client, PODS, namespace)) == SLICES * HOSTS

    await until(are_all_there, 120)
    pods = await _objects(client, PODS, namespace)
    told = [_environment(pod) for pod in pods]
    slices = [(one["MEGASCALE_SLICE_ID"], one["MEGASCALE_NUM_SLICES"]) for one in told]
    assert sorted(slices) == sorted([(str(index), str(SLICES)) for index in range(SLICES)] * HOSTS)
    assert {one["MEGASCALE_COORDINATOR_ADDRESS"] for one in told} == {"queued-w-0-0.queued"}
    assert all(len(one["TPU_WORKER_HOSTNAMES"].split(",")) == HOSTS for one in told)
    await client.delete(JOB_SETS, namespace, "queued")

    async def are_gone() -> bool:
        return not await _objects(client, PODS, namespace)

    await until(are_gone, 120)
