"""What every provider promises, and whole Jobs, with MachineDeployments that Cluster API sees to itself."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest

from accelet.control.writer import FencedWriter
from accelet.kinds.slicerequest import SLICE_REQUESTS
from accelet.kube.apiresources import JOBS, NODES
from accelet.kube.client import Client
from accelet.kube.errors import NotFoundError
from accelet.provisioner.providers.clusterapi.body import POOL_LABEL
from accelet.provisioner.providers.clusterapi.provider import MACHINE_DEPLOYMENTS, ClusterApiProvider
from tests.e2e.cluster.binaries import Binaries
from tests.e2e.cluster.control_plane import ControlPlane
from tests.e2e.kustomize import DEPLOY, build
from tests.e2e.shipped_kinds import RESOURCES
from tests.e2e.slices.cluster_api import CLUSTER, GROUP, NAMESPACE, SETTINGS, cluster_api
from tests.e2e.slices.world import Kubelets, count, one_job, provisioner, until
from tests.integration.provisioner.plans import plan
from tests.integration.provisioner.promises import (
    Two,
    check_that_a_pool_is_made_once_and_is_its_requests,
    check_that_two_clusters_leave_each_others_pools_alone,
    check_that_what_is_deleted_goes_and_may_be_deleted_again,
    until_it_is,
)

pytestmark = pytest.mark.timeout(900)

_MACHINES, _JOBS = 4, 3
_SETTINGS = f"""
version: v1
provider: cluster-api
poll_s: 0.5
grace_s: 0.5
settle_s: 1
lag_s: 2
rest_s: 1
limits: {{slices: 2}}
cluster_api:
  namespace: {NAMESPACE}
  cluster: {CLUSTER}
  bootstrap: {{api_group: {GROUP}, kind: FakeConfigTemplate, name: fake}}
  infrastructure: {{api_group: {GROUP}, kind: FakeMachineTemplate, name: fake}}
"""


@pytest.fixture
async def managed(
    cluster: ControlPlane, client: Client, cluster_api_binaries: Binaries, tmp_path: Path
) -> AsyncIterator[ControlPlane]:
    """The cluster with Cluster API, and no machine of it at the end."""
    async with cluster_api(cluster, client, cluster_api_binaries, tmp_path):
        yield cluster
        page = await client.list_page(MACHINE_DEPLOYMENTS, NAMESPACE)
        for raw in page.items:
            name = json.loads(bytes(raw))["metadata"]["name"]
            with suppress(NotFoundError):
                await client.delete(MACHINE_DEPLOYMENTS, NAMESPACE, name)

        async def is_empty() -> bool:
            deployments = await count(client, MACHINE_DEPLOYMENTS, NAMESPACE)
            return deployments + await count(client, NODES, None, POOL_LABEL) == 0

        await until(is_empty)


@pytest.fixture
def two(managed: ControlPlane, client: Client) -> Two:
    writer = FencedWriter(client, lambda: True)
    return (
        ClusterApiProvider(client, writer, SETTINGS, "a-cluster"),
        ClusterApiProvider(client, writer, SETTINGS, "another"),
    )


async def _has_machines(client: Client, wanted: int) -> None:
    """Waits for so many Nodes that Cluster API has marked as those of a pool."""

    async def are_there() -> bool:
        return await count(client, NODES, None, POOL_LABEL) == wanted

    await until(are_there)


async def test_a_pool_is_made_once_and_its_machines_come_and_go(two: Two, client: Client) -> None:
    await check_that_a_pool_is_made_once_and_is_its_requests(two)
    await _has_machines(client, 4)


async def test_what_is_deleted_goes_and_may_be_deleted_again(two: Two) -> None:
    await check_that_what_is_deleted_goes_and_may_be_deleted_again(two)


async def test_two_clusters_leave_each_others_pools_alone(two: Two) -> None:
    await check_that_two_clusters_leave_each_others_pools_alone(two)


async def test_a_pool_without_its_templates_has_failed_with_cluster_apis_sentence(
    managed: ControlPlane, client: Client
) -> None:
    lost = msgspec.structs.replace(SETTINGS.infrastructure, name="absent")
    settings = msgspec.structs.replace(SETTINGS, infrastructure=lost)
    provider = ClusterApiProvider(client, FencedWriter(client, lambda: True), settings, "a-cluster")
    await provider.create(plan())
    await until_it_is(provider, "failed")
    (pool,) = (await provider.list_pools()).pools
    assert pool.failure is not None
    assert "is blocked because FakeMachineTemplate does not exist" in pool.failure.sentence


@pytest.fixture
async def with_rights(kubeconfig: Path, client: Client, binaries: Binaries) -> AsyncIterator[Path]:
    """The provisioner's account, with the rights that deploy/provisioner/cluster-api gives it."""
    manifests = build(DEPLOY / "provisioner/cluster-api", binaries.path("kubectl"))
    for manifest in manifests:
        metadata = manifest["metadata"]
        resource, namespace = RESOURCES[manifest["kind"]], metadata.get("namespace")
        await client.patch(resource, namespace, metadata["name"], manifest, "apply")
    yield kubeconfig
    for manifest in manifests:
        metadata = manifest["metadata"]
        with suppress(NotFoundError):
            await client.delete(RESOURCES[manifest["kind"]], metadata.get("namespace"), metadata["name"])


@pytest.mark.usefixtures("managed")
async def test_jobs_get_their_slices_from_cluster_api_through_a_kill_and_give_them_back(
    with_rights: Path, client: Client, namespace: str, tmp_path: Path
) -> None:
    """Three Jobs with room for two: the third has the machines made anew once a slice was given back."""
    kubelets = Kubelets(client, namespace, POOL_LABEL)
    running = asyncio.create_task(kubelets.run())
    for index in range(_JOBS):
        await client.create(JOBS, namespace, one_job(namespace, f"train-{index}", "4x4", _MACHINES))

    async def are_coming() -> bool:
        return await count(client, NODES, None, POOL_LABEL) > 0

    async def is_done() -> bool:
        assert not running.done(), running
        page = await client.list_page(JOBS, namespace)
        return all(json.loads(bytes(raw))["status"].get("succeeded") == _MACHINES for raw in page.items)

    async def is_clean() -> bool:
        left = await count(client, SLICE_REQUESTS, namespace) + await count(client, NODES, None, POOL_LABEL)
        return left + await count(client, MACHINE_DEPLOYMENTS, NAMESPACE) == 0

    async with provisioner(with_rights, tmp_path, _SETTINGS) as process:
        await until(are_coming, 120)
        process.kill()
    async with provisioner(with_rights, tmp_path, _SETTINGS):
        await until(is_done, 400)
        await until(is_clean, 200)
    running.cancel()
    assert kubelets.killed == []
