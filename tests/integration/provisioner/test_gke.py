"""The GKE provider against a fake GKE, alone and with the provisioner, and with Google's own client."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from accelet.cli.reading.slicelists import list_slices
from accelet.control.errors import NotLeadingError
from accelet.fakeapi import FakeApi
from accelet.kube.kubeconfig import Kubeconfig
from accelet.provisioner.pools.plan import PoolPlan
from accelet.provisioner.pools.pool import Failure, PoolList, Trouble
from accelet.provisioner.providers.gke.provider import GkeProvider
from accelet.provisioner.providers.gke.transport import NoTokens, Transport
from accelet.provisioner.providers.protocol import Provider, ProviderError
from tests.fakegke.machines import machines
from tests.fakegke.server import FakeGke
from tests.integration.kube.waiting import eventually
from tests.integration.provisioner.gke_runs import SETTINGS, provisioner_on_gke
from tests.integration.provisioner.plans import plan
from tests.integration.provisioner.world import NODES, REQUESTS, World, open_world


@pytest.fixture
def gke() -> Iterator[FakeGke]:
    with FakeGke() as gke:
        yield gke


@pytest.fixture
def provider(gke: FakeGke) -> GkeProvider:
    return GkeProvider(Transport(gke.url, NoTokens()), SETTINGS, "a-cluster", lambda: True)


async def test_a_pool_is_made_seen_and_deleted(gke: FakeGke, provider: GkeProvider) -> None:
    wanted = plan()

    gke.state.create_s = 3600
    assert await provider.create(wanted) is None
    (made,) = (await provider.list_pools()).pools
    assert (made.name, made.mark, made.state, made.tier, made.zone) == (
        wanted.name,
        "a-uid",
        "creating",
        "on-demand",
        "us-east5-a",
    )
    again = await provider.create(wanted)
    assert again is not None
    assert again.trouble is Trouble.EXISTS
    busy = await provider.delete(wanted.name)
    assert busy is not None
    assert busy.trouble is Trouble.BUSY
    assert "incompatible operation" in busy.sentence
    gke.state.pools[wanted.name].done_s = 0.0
    await eventually(lambda: gke.state.get(wanted.name)["status"] == "RUNNING")
    assert await provider.delete(wanted.name) is None
    await eventually(lambda: not gke.state.list()["nodePools"])
    assert await provider.delete(wanted.name) is None, "what is gone is deleted"


async def test_pools_of_others_are_foreign(gke: FakeGke, provider: GkeProvider) -> None:
    gke.state.create({"nodePool": {"name": "default-pool", "initialNodeCount": 3}})
    await provider.create(plan(cluster="another"))

    listed = await provider.list_pools()

    assert listed.pools == ()
    assert listed.foreign == {"default-pool", plan().name}


async def test_a_stock_out_is_told_in_gkes_words(gke: FakeGke, provider: GkeProvider) -> None:
    gke.state.capacity = {(False, "us-east5-a"): 0}
    await provider.create(plan())
    await eventually(lambda: gke.state.get(plan().name)["status"] == "ERROR")

    (failed,) = (await provider.list_pools()).pools

    assert failed.state == "failed"
    assert failed.failure is not None
    assert failed.failure.trouble is Trouble.NO_CAPACITY
    assert "does not have enough resources" in failed.failure.sentence


@pytest.mark.parametrize(
    ("fault", "trouble"), [("drop", Trouble.UNKNOWN), ("lost", Trouble.UNKNOWN), ("503", Trouble.UNKNOWN)]
)
async def test_a_lost_answer_says_nothing_of_the_pool(
    gke: FakeGke, provider: GkeProvider, fault: str, trouble: Trouble
) -> None:
    gke.faults = [fault]

    failure = await provider.create(plan())

    assert failure is not None
    assert failure.trouble is trouble
    assert len((await provider.list_pools()).pools) == (fault == "lost")


async def test_refusals_are_of_the_kinds_that_decide(gke: FakeGke, provider: GkeProvider) -> None:
    gke.state.concurrent = 0
    busy = await provider.create(plan())
    gke.state.concurrent, gke.state.quota = 5, 0
    quota = await provider.create(plan())

    assert busy is not None
    assert busy.trouble is Trouble.BUSY
    assert quota is not None
    assert quota.trouble is Trouble.QUOTA
    assert "Insufficient regional quota" in quota.sentence


async def test_credentials_that_ended_are_one_sentence(gke: FakeGke, provider: GkeProvider) -> None:
    gke.token = "another"

    failure = await provider.create(plan())

    assert failure is not None
    assert failure.trouble is Trouble.FORBIDDEN
    with pytest.raises(ProviderError, match="Request had invalid credentials"):
        await provider.list_pools()
    assert [method for method, _ in gke.seen] == ["POST", "POST", "GET", "GET"], "a new token is tried once"


class _SlowTokens:
    """While a token is fetched, the lease is lost."""

    def __init__(self) -> None:
        self.is_leading = True

    def token(self) -> str | None:
        self.is_leading = False
        return None

    def renew(self) -> None:
        return None


async def test_nothing_is_sent_once_the_lease_is_lost(gke: FakeGke) -> None:
    tokens = _SlowTokens()
    provider = GkeProvider(Transport(gke.url, tokens), SETTINGS, "a-cluster", lambda: tokens.is_leading)

    with pytest.raises(NotLeadingError):
        await provider.create(plan())
    tokens.is_leading = True
    with pytest.raises(NotLeadingError):
        await provider.delete("a-pool")

    assert gke.seen == []
    assert (await provider.list_pools()).pools == (), "to look is no act"


@pytest.fixture
def world() -> Iterator[World]:
    with FakeApi(bookmark_s=1.0) as api, open_world(api) as world:
        yield world


async def test_a_job_set_gets_gke_pools_in_the_zone_that_has_room(
    world: World, gke: FakeGke, tmp_path: Path
) -> None:
    gke.state.capacity = {(False, "us-east5-a"): 1}
    with machines(gke.state, world.state):
        async with provisioner_on_gke(world, gke, tmp_path):
            world.ask("train")
            await eventually(lambda: world.phases() == ["Ready", "Ready"], within_s=20)
            assert {one["status"]["zone"] for one in world.objects(REQUESTS)} == {"us-east5-a", "us-east5-b"}
            await eventually(lambda: any("does not have enough resources" in note for note in world.notes()))
            await eventually(lambda: world.running("train") == 8)
            world.finish("train")
            await eventually(lambda: not world.objects(REQUESTS) and not world.objects(NODES), within_s=20)
    assert gke.state.pools == {}
    assert world.partial == []
    assert world.killed == []


async def test_kills_and_lost_answers_leak_no_pool(world: World, gke: FakeGke, tmp_path: Path) -> None:
    gke.faults = ["lost", "", "500", "drop", "", "lost", "", "drop", "lost"]
    gke.state.lag_s = 0.2
    with machines(gke.state, world.state):
        world.ask("one")
        world.ask("two")
        for pause_s in (0.4, 0.7, 1.0):
            async with provisioner_on_gke(world, gke, tmp_path):
                await asyncio.sleep(pause_s)
        async with provisioner_on_gke(world, gke, tmp_path):
            await eventually(lambda: world.phases() == ["Ready"] * 4, within_s=30)
            assert len(gke.state.pools) == 4
            world.finish("one")
            world.finish("two")
            await eventually(lambda: not world.objects(REQUESTS) and not gke.state.pools, within_s=30)
    assert world.partial == []
    assert world.killed == []


def _originals(gke: FakeGke, *jobs: str, machine_type: str = "ct6e-standard-4t") -> set[str]:
    """Pools as the original makes them: four machines each, for these Jobs; their names."""
    for job_name in jobs:
        labels = {
            "google.com/nodepool-manager": "tpu-provisioner",
            "google.com/tpu-provisioner-parent-kind": "job",
            "google.com/tpu-provisioner-parent-name": job_name,
            "google.com/tpu-provisioner-parent-namespace": "ml",
            "google.com/tpu-provisioner-jobset-name": job_name.partition("-")[0],
        }
        pool = {
            "name": f"{job_name}-a1b2c",
            "initialNodeCount": 4,
            "locations": ["us-east5-a"],
            "placementPolicy": {"type": "COMPACT", "tpuTopology": "4x4"},
            "config": {"machineType": machine_type, "labels": labels, "taints": []},
        }
        gke.state.create({"nodePool": pool})
    return {f"{job_name}-a1b2c" for job_name in jobs}


def _all_run(gke: FakeGke) -> bool:
    return all(pool["status"] == "RUNNING" for pool in gke.state.list()["nodePools"])


async def test_pools_of_the_original_are_adopted_for_the_jobs_they_were_made_for(
    gke: FakeGke, tmp_path: Path
) -> None:
    with FakeApi(bookmark_s=1.0) as api, open_world(api) as world, machines(gke.state, world.state):
        pools, others = _originals(gke, "train-w-0", "train-w-1"), _originals(gke, "another-w-0")
        await eventually(lambda: _all_run(gke) and len(world.objects(NODES)) == 12)
        async with provisioner_on_gke(world, gke, tmp_path, adopt=True):
            world.ask("train")
            await eventually(lambda: world.running("train") == 8, 30)
            assert {one["status"]["pool"] for one in world.objects(REQUESTS)} == pools
            assert set(gke.state.pools) == pools | others
        async with provisioner_on_gke(world, gke, tmp_path):  # what is adopted stays so
            await eventually(lambda: len(world.objects(REQUESTS)) == 2)
            world.finish("train")
            await eventually(lambda: not world.objects(REQUESTS), 30)
            assert set(gke.state.pools) == others
        await eventually(lambda: "SliceAdopted" in world.reasons())
    assert not any(method == "POST" for method, path in gke.seen if path.endswith("nodePools"))
    assert (world.partial, world.killed) == ([], [])


@pytest.mark.parametrize("adopt", [False, True], ids=["not-asked-to", "other-machines"])
async def test_pools_of_the_original_that_are_not_adopted_are_left_alone(
    gke: FakeGke, tmp_path: Path, adopt: bool
) -> None:
    with FakeApi(bookmark_s=1.0) as api, open_world(api) as world, machines(gke.state, world.state):
        machine_type = "ct6e-standard-8t" if adopt else "ct6e-standard-4t"
        others = _originals(gke, "train-w-0", "gone-w-0", machine_type=machine_type)
        await eventually(lambda: _all_run(gke))
        async with provisioner_on_gke(world, gke, tmp_path, adopt=adopt):
            world.ask("train", replicas=1)
            await eventually(lambda: world.phases() == ["Ready"], 30)
            world.finish("train")
            await eventually(lambda: not world.objects(REQUESTS), 30)
            assert set(gke.state.pools) == others


async def test_pods_that_outlive_a_machine_of_their_slice_are_named_and_evicted_where_that_is_set(
    world: World, gke: FakeGke, tmp_path: Path
) -> None:
    """One pod hangs in a collective, the other is past its grace on the dead Node."""
    with machines(gke.state, world.state):
        async with provisioner_on_gke(world, gke, tmp_path, repair_s=0.2):
            world.ask("train", replicas=1, topology="2x4", pods=2)
            await eventually(lambda: world.running("train") == 2, within_s=30)
            await eventually(lambda: world.phases() == ["Ready"], within_s=30)
            (former,) = gke.state.pools
            world.lose(f"{former}-0")
            await eventually(lambda: "PodsRemain" in world.reasons(), within_s=30)
            named = f"waits for pods to end: ml/train.{former}-1"
            await eventually(lambda: world.conditions("PodsRemain") == [named], within_s=30)
            assert set(gke.state.pools) == {former}
        async with provisioner_on_gke(world, gke, tmp_path, repair_s=0.2, evict_s=0.0):
            await eventually(lambda: former not in gke.state.pools, within_s=30)
            await eventually(lambda: world.phases() == ["Ready"] and world.running("train") >= 2, within_s=30)
    assert world.partial == []


async def test_a_deletion_that_gke_forbids_is_told_where_people_look(
    world: World, gke: FakeGke, tmp_path: Path
) -> None:
    sentence = 'GKE: Required "container.clusters.update" permission(s)'
    with machines(gke.state, world.state):
        async with provisioner_on_gke(world, gke, tmp_path):
            world.ask("train", replicas=1, topology="2x4", pods=2)
            await eventually(lambda: world.running("train") == 2, within_s=30)
            gke.state.forbidden = {"delete"}
            world.finish("train")
            await eventually(lambda: bool(world.conditions("DeleteRefused")), within_s=30)
            assert world.conditions("DeleteRefused")[0].startswith(sentence)
            await eventually(lambda: "DeleteRefused" in world.reasons())
            found, _ = await list_slices(Kubeconfig((tmp_path / "kubeconfig",)))
            assert [kind for one in found for kind, _ in one.problems if kind == "DeleteRefused"]
            gke.state.forbidden = set()
        async with provisioner_on_gke(world, gke, tmp_path):  # at once, not after a minute
            await eventually(lambda: not world.objects(REQUESTS) and not gke.state.pools, within_s=30)


async def test_a_refusal_that_passes_leaves_a_slice_in_its_tier(
    world: World, gke: FakeGke, tmp_path: Path
) -> None:
    gke.state.forbidden = {"create"}
    with machines(gke.state, world.state):
        async with provisioner_on_gke(world, gke, tmp_path):
            world.ask("train", replicas=1, topology="2x4", pods=2)
            await eventually(lambda: any("Required" in note for note in world.notes()), within_s=30)
            assert world.phases() == ["Creating"]
            gke.state.forbidden = set()
            await eventually(lambda: world.running("train") == 2, within_s=40)
            (one,) = world.objects(REQUESTS)
            assert (one["status"]["attempt"], one["status"]["zone"]) == (1, "us-east5-a")


class _Outage:
    """Whether no provider answers, of whichever leader."""

    def __init__(self) -> None:
        self.is_on = False


class _Silent:
    """A provider whose requests all end by their time limit during `outage`."""

    pool_label = GkeProvider.pool_label

    def __init__(self, provider: Provider, outage: _Outage) -> None:
        self._provider, self._outage = provider, outage

    async def list_pools(self) -> PoolList:
        if self._outage.is_on:
            raise ProviderError("GKE gave no answer (ReadTimeoutError)")
        return await self._provider.list_pools()

    async def create(self, plan: PoolPlan) -> Failure | None:
        return self._unanswered or await self._provider.create(plan)

    async def delete(self, pool: str) -> Failure | None:
        return self._unanswered or await self._provider.delete(pool)

    async def run(self) -> None:
        await self._provider.run()

    @property
    def _unanswered(self) -> Failure | None:
        return (
            Failure(Trouble.UNKNOWN, "GKE gave no answer (ReadTimeoutError)") if self._outage.is_on else None
        )


async def test_a_provider_that_falls_silent_is_told_of_where_slices_wait_for_it_and_harms_no_other(
    world: World, gke: FakeGke, tmp_path: Path
) -> None:
    outage = _Outage()

    def silence(name: str) -> list[str]:
        return [
            condition["status"]
            for one in world.objects(REQUESTS)
            for condition in (one.get("status") or {}).get("conditions", ())
            if condition["type"] == "ProviderSilent" and one["metadata"]["name"].startswith(name)
        ]

    with machines(gke.state, world.state):
        async with provisioner_on_gke(
            world, gke, tmp_path, behind=lambda provider: _Silent(provider, outage)
        ):
            world.ask("runs")
            await eventually(lambda: world.running("runs") == 8, within_s=30)
            outage.is_on = True
            world.ask("waits")
            await eventually(lambda: silence("waits") == ["True", "True"], within_s=30)
            note = "the provider does not answer: GKE gave no answer (ReadTimeoutError)"
            await eventually(lambda: any(note in one for one in world.notes()))
            assert (world.running("runs"), world.phases("runs")) == (8, ["Ready", "Ready"])
            assert "True" not in silence("runs"), "it waits for nobody"

            outage.is_on = False
            await eventually(lambda: world.running("waits") == 8, within_s=30)
            await eventually(lambda: "ProviderAnswers" in world.reasons())
            assert silence("waits") == ["False", "False"]
    assert (world.partial, world.killed) == ([], [])
    assert len(gke.state.pools) == 4


@pytest.mark.parametrize("status", ["", "ERROR", "STOPPING"], ids=["absent", "ERROR", "STOPPING"])
async def test_a_slice_that_works_outlives_lists_that_speak_against_its_pool(
    world: World, gke: FakeGke, tmp_path: Path, status: str
) -> None:
    with machines(gke.state, world.state):
        async with provisioner_on_gke(world, gke, tmp_path):
            world.ask("train")
            await eventually(lambda: world.running("train") == 8, within_s=30)
            await eventually(lambda: world.phases() == ["Ready", "Ready"], within_s=30)
            pools = set(gke.state.pools)
            if status:
                gke.state.slandered = dict.fromkeys(pools, status)
            else:
                gke.state.hidden = set(pools)
            world.ask("other", replicas=1)  # something comes, so that pools are listed often
            await eventually(lambda: len(world.conditions("PoolInDoubt")) == 2, within_s=30)
            assert (world.phases("train"), world.running("train")) == (["Ready", "Ready"], 8)
            gke.state.slandered, gke.state.hidden = {}, set()
            await eventually(lambda: world.conditions("PoolInDoubt") == [], within_s=30)
            await eventually(lambda: {"PoolInDoubt", "PoolFound"} <= world.reasons())
            assert world.phases("train") == ["Ready", "Ready"]
            assert pools < set(gke.state.pools)
    assert (world.partial, world.killed) == ([], [])
