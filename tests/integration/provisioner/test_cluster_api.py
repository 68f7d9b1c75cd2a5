"""The cluster-api provider against a fake API server, alone and with the provisioner."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import pytest

from accelet.control.writer import FencedWriter
from accelet.fakeapi import FakeApi
from accelet.kube.client import Client
from accelet.provisioner.pools.pool import Trouble
from accelet.provisioner.pools.tiers import Attempt, Tier
from accelet.provisioner.providers.clusterapi.provider import ClusterApiProvider
from accelet.provisioner.settings import ClusterApiSettings
from tests.integration.kube.waiting import eventually
from tests.integration.provisioner.conftest import Start
from tests.integration.provisioner.machine_deployments import DEPLOYMENTS, machine_deployments
from tests.integration.provisioner.plans import plan
from tests.integration.provisioner.world import NODES, REQUESTS, World

SETTINGS = ClusterApiSettings(namespace="pools", cluster="own")


@pytest.fixture
def api() -> Iterator[FakeApi]:
    with FakeApi() as api:
        yield api


@pytest.fixture
async def provider(api: FakeApi, tmp_path: Path) -> AsyncIterator[ClusterApiProvider]:
    client = await Client.connect(api.write_kubeconfig(tmp_path / "kubeconfig"))
    yield ClusterApiProvider(client, FencedWriter(client, lambda: True), SETTINGS, "a-cluster")
    client.close()


def _say(api: FakeApi, status: Any) -> None:
    name = plan().name
    api.state.patch(DEPLOYMENTS, ("pools", name), "merge-patch", {"status": status})


async def test_a_pool_without_its_templates_has_failed_with_cluster_apis_sentence(
    api: FakeApi, provider: ClusterApiProvider
) -> None:
    await provider.create(plan())
    message = "Scaling up from 0 to 4 replicas is blocked because KubeadmConfigTemplate does not exist"
    _say(api, {"conditions": [{"type": "ScalingUp", "status": "True", "message": message}]})

    (pool,) = (await provider.list_pools()).pools

    assert pool.state == "failed"
    assert pool.failure is not None
    assert pool.failure.trouble is Trouble.INVALID
    assert pool.failure.sentence == f"Cluster API: {message}"


async def test_a_pool_of_ours_that_cannot_be_read_is_busy_and_not_gone(
    api: FakeApi, provider: ClusterApiProvider
) -> None:
    await provider.create(plan())
    _say(api, {"conditions": "none"})

    (pool,) = (await provider.list_pools()).pools

    assert (pool.name, pool.mark, pool.state) == (plan().name, "a-uid", "busy")


async def test_what_others_made_is_foreign_and_stays(api: FakeApi, provider: ClusterApiProvider) -> None:
    mine = {"metadata": {"name": plan().name}, "spec": {"replicas": 4}}
    api.state.create(DEPLOYMENTS, "pools", mine)

    listed = await provider.list_pools()

    assert listed.pools == ()
    assert listed.foreign == {plan().name}
    assert await provider.delete(plan().name) is None
    assert len(api.state.list(DEPLOYMENTS, {}, None)["items"]) == 1


async def test_no_machines_are_bought_as_something_else(provider: ClusterApiProvider) -> None:
    failure = await provider.create(plan(attempt=Attempt(Tier("spot"), "")))

    assert failure is not None
    assert failure.trouble is Trouble.INVALID
    assert failure.sentence == "Cluster API has no spot machines; what its templates say is bought"
    assert (await provider.list_pools()).pools == ()


async def test_a_job_set_gets_machine_deployments_and_gives_them_back(world: World, start: Start) -> None:
    with machine_deployments(world.state):
        async with start(provider="cluster-api", cluster_api=SETTINGS):
            world.ask("train")
            await eventually(lambda: world.running("train") == 8, within_s=60)
            made = world.objects(DEPLOYMENTS)
            assert {one["metadata"]["namespace"] for one in made} == {"pools"}
            assert {one["metadata"]["name"] for one in made} == {
                one["status"]["pool"] for one in world.objects(REQUESTS)
            }
            world.finish("train")
            await eventually(lambda: not world.objects(REQUESTS) and not world.objects(NODES), within_s=60)
    assert world.objects(DEPLOYMENTS) == []
    assert world.partial == []
    assert world.killed == []
