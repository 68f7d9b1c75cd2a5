"""Whole runs of the provisioner against an API server, with the simulated provider."""

import asyncio
from pathlib import Path

from click.testing import CliRunner, Result

from accelet.cli import main
from accelet.fakeapi import Answer, Drop, Fault
from accelet.provisioner.settings import (
    GkeSettings,
    LimitSettings,
    NodeSettings,
    SimulatedCapacity,
    SimulatedPools,
)
from tests.integration.kube.waiting import eventually
from tests.integration.provisioner.conftest import Start
from tests.integration.provisioner.world import EVENTS, JOB_SETS, MAPS, NODES, REQUESTS, World
from tests.output_forms import read_form
from tests.unit.provisioner.manifests import job_set

SCARCE = SimulatedPools(
    create_s=0.2,
    join_s=0.1,
    delete_s=0.1,
    capacity=(SimulatedCapacity(tier="spot", slices=1), SimulatedCapacity(tier="on-demand", slices=2)),
)


async def test_a_job_set_gets_its_slices_whole_and_gives_them_back(world: World, start: Start) -> None:
    async with start():
        world.ask("train")
        await eventually(lambda: world.phases() == ["Ready", "Ready"] and world.running("train") == 8)
        node = world.objects(NODES)[0]
        assert node["metadata"]["labels"]["alpha.jobset.sigs.k8s.io/namespaced-job"].startswith("ml_train-w-")
        assert len(world.objects(NODES)) == 8
        world.finish("train")
        await eventually(
            lambda: not world.objects(REQUESTS) and not world.objects(MAPS) and not world.objects(NODES)
        )
        await eventually(lambda: {"SliceReady", "SliceReleased"} <= world.reasons())
    assert world.partial == []
    assert world.killed == []


async def test_pods_that_still_run_keep_their_nodes(world: World, start: Start) -> None:
    async with start():
        world.ask("train", replicas=1)
        await eventually(lambda: world.running("train") == 4)
        world.state.delete(JOB_SETS, ("ml", "train"))
        await eventually(
            lambda: any("pods still run on 4 of its 4 nodes" in str(one) for one in world.objects(REQUESTS))
        )
        assert len(world.objects(NODES)) == 4
        world.end_pods("train")
        await eventually(lambda: not world.objects(NODES) and not world.objects(REQUESTS))
    assert world.killed == []


async def test_a_set_falls_back_as_a_whole_to_the_next_tier(world: World, start: Start) -> None:
    tolerations = [{"operator": "Exists"}]
    async with start(simulated=SCARCE, tiers=("spot", "on-demand")):
        world.ask("train", tolerations=tolerations)
        await eventually(lambda: world.phases() == ["Ready", "Ready"], within_s=20)
        await eventually(lambda: any("there is no spot capacity left" in note for note in world.notes()))
    assert {one["status"]["tier"] for one in world.objects(REQUESTS)} == {"on-demand"}
    assert world.partial == []


async def test_a_job_set_made_anew_under_its_name_takes_the_slices_that_are_given_back(
    world: World, start: Start
) -> None:
    """There is room for one of both at a time, and nothing is parked."""
    async with start(limits=LimitSettings(slices=2)):
        world.ask("train")
        await eventually(lambda: world.running("train") == 8)
        former = {one["metadata"]["name"] for one in world.objects(REQUESTS)}
        pools = {one["metadata"]["name"] for one in world.objects(MAPS)}
        world.state.delete(JOB_SETS, ("ml", "train"))
        world.ask("train")
        await eventually(lambda: {one["metadata"]["name"] for one in world.objects(REQUESTS)} > former)
        world.end_pods("train")
        await eventually(
            lambda: (
                not former & {one["metadata"]["name"] for one in world.objects(REQUESTS)}
                and world.phases() == ["Ready", "Ready"]
            ),
            within_s=30,
        )
        assert pools == {one["metadata"]["name"] for one in world.objects(MAPS)}
    assert (world.partial, world.killed) == ([], [])


async def test_of_two_job_sets_that_make_a_job_of_one_name_the_later_waits_and_says_so(
    world: World, start: Start
) -> None:
    """`a` with its `b-w` and `a-b` with its `w` make a Job `a-b-w-0` each: its labels would be on both."""
    async with start():
        first = job_set("a", 1)
        first["spec"]["replicatedJobs"][0]["name"] = "b-w"
        del first["metadata"]["uid"]
        world.state.create(JOB_SETS, "ml", first)
        await eventually(lambda: world.running("a") == 4)
        world.ask("a-b", 1)
        sentence = "the JobSet a makes the Job a-b-w-0 too: one of both needs another name"
        await eventually(lambda: any(sentence in note for note in world.notes()))
        assert sorted(world.phases()) == ["Pending", "Ready"]
        assert sum(sentence in str(one.get("status")) for one in world.objects(REQUESTS)) == 1
        assert len(world.objects(MAPS)) == 1
        world.finish("a")
        await eventually(lambda: world.running("a-b") == 4, within_s=90)
    assert world.killed == []


async def test_what_is_given_back_while_nothing_comes_or_goes_is_gone_as_soon_as_a_list_can_tell(
    world: World, start: Start
) -> None:
    """Pools are listed each five minutes then: the end of a slice without one is not to wait for that."""
    none = SimulatedPools(capacity=(SimulatedCapacity(tier="on-demand", slices=0),))
    async with start(simulated=none, rest_s=600.0, lag_s=1.0):
        world.ask("train", 1)
        await eventually(lambda: world.phases() == ["BackingOff"], within_s=60)
        await asyncio.sleep(1.0)
        world.state.delete(JOB_SETS, ("ml", "train"))
        await eventually(lambda: not world.objects(REQUESTS), within_s=60)


async def test_a_job_set_that_learns_of_its_tpus_when_it_is_let_run_gets_its_slices(
    world: World, start: Start
) -> None:
    """As Kueue does it: one update with the node labels of its ResourceFlavor and without `suspend`."""
    raw = job_set("train", 2)
    del raw["metadata"]["uid"]
    raw["spec"]["suspend"] = True
    replicated = raw["spec"]["replicatedJobs"]
    pods = replicated[0]["template"]["spec"]["template"]["spec"]
    flavor = pods.pop("nodeSelector")
    world.state.create(JOB_SETS, "ml", raw)
    async with start():
        world.ask("other", replicas=1)
        await eventually(lambda: world.phases("other") == ["Ready"], within_s=30)
        assert world.phases("train") == []
        pods["nodeSelector"] = flavor
        let_run = {"spec": {"suspend": False, "replicatedJobs": replicated}}
        world.state.patch(JOB_SETS, ("ml", "train"), "merge-patch", let_run)
        await eventually(lambda: world.phases("train") == ["Ready", "Ready"], within_s=30)
    assert not [note for note in world.notes() if "do not select" in note]


async def test_limits_keep_a_set_waiting_with_a_reason(world: World, start: Start) -> None:
    async with start(limits=LimitSettings(slices=2)):
        world.ask("first")
        await eventually(lambda: world.phases("first") == ["Ready", "Ready"])
        world.ask("second")
        await eventually(lambda: "waits for room" in str(world.objects(REQUESTS)))
        assert set(world.phases("second")) == {"Pending"}
        world.finish("first")
        await eventually(lambda: world.phases("second") == ["Ready", "Ready"])


async def test_a_paused_provisioner_begins_nothing_and_ends_what_is_over(world: World, start: Start) -> None:
    async with start():
        world.ask("first")
        await eventually(lambda: world.running("first") == 8)
    async with start(paused=True):
        world.ask("second")
        await eventually(lambda: str(world.objects(REQUESTS)).count("the provisioner is paused") >= 2)
        await eventually(lambda: any("is paused: its settings say so" in note for note in world.notes()))
        assert set(world.phases("second")) == {"Pending"}
        assert world.phases("first") == ["Ready", "Ready"]
        world.finish("first")
        await eventually(lambda: len(world.objects(REQUESTS)) == 2 and not world.objects(MAPS), within_s=30)
    async with start():
        await eventually(lambda: world.phases("second") == ["Ready", "Ready"], within_s=30)
    assert world.killed == []


async def test_what_cannot_be_had_is_told_the_owner(world: World, start: Start) -> None:
    async with start():
        world.ask("train", pods=2)
        await eventually(
            lambda: any(
                "4x4 with 4 chips a pod needs 4 pods, the Job has 2" in note for note in world.notes()
            )
        )
    assert world.objects(REQUESTS) == []


async def test_a_quota_that_refuses_slice_requests_is_told_the_owner(world: World, start: Start) -> None:
    quota = Answer(403, "Forbidden", 'slicerequests "train-w-0" is forbidden: exceeded quota: small')
    world.api.faults.append(Fault(quota, method="POST", path="/slicerequests", times=1000))
    async with start():
        world.ask("train")
        await eventually(lambda: any("exceeded quota: small" in note for note in world.notes()))
    (event,) = (one for one in world.objects(EVENTS) if "exceeded quota: small" in one["note"])
    assert (event["reason"], event["regarding"]["kind"]) == ("SliceRefused", "JobSet")
    assert event["note"].startswith("the API server refuses train-w-0")
    assert world.api.count(method="POST", path="/slicerequests") <= 2


async def test_faults_and_a_killed_provisioner_leave_nothing_partial_and_nothing_behind(
    world: World, start: Start
) -> None:
    world.api.faults += [
        Fault(Drop(after=True), method="POST", path="configmaps", times=2),
        Fault(Drop(), method="PATCH", path="slicerequests", times=4),
        Fault(Answer(500, "InternalError"), method="PATCH", path="nodes", times=3),
    ]
    for name in ("one", "two", "three"):
        world.ask(name)
    for pause_s in (0.3, 0.6, 0.9, 1.2):
        async with start():
            await asyncio.sleep(pause_s)
    async with start():
        await eventually(lambda: world.phases() == ["Ready"] * 6, within_s=30)
        for name in ("one", "two", "three"):
            world.finish(name)
        await eventually(lambda: not world.objects(REQUESTS) and not world.objects(MAPS), within_s=30)
    assert world.objects(NODES) == []
    assert world.partial == []
    assert world.killed == []


async def test_a_pool_whose_request_was_forgotten_is_given_back(world: World, start: Start) -> None:
    async with start():
        world.ask("train", replicas=1)
        await eventually(lambda: world.phases() == ["Ready"])
        world.state.patch(JOB_SETS, ("ml", "train"), "merge-patch", {"metadata": {"annotations": None}})
        request = world.objects(REQUESTS)[0]["metadata"]
        world.end_pods("train")
    world.state.patch(REQUESTS, ("ml", request["name"]), "merge-patch", {"metadata": {"finalizers": None}})
    world.state.delete(REQUESTS, ("ml", request["name"]))
    async with start():
        await eventually(lambda: not world.objects(MAPS) and not world.objects(NODES), within_s=20)


async def test_people_and_machines_see_every_slice_and_why(world: World, tmp_path: Path) -> None:
    kubeconfig = world.api.write_kubeconfig(tmp_path / "kubeconfig")
    status = {"phase": "BackingOff", "why": "[red]no capacity[/]", "tier": "spot"}
    spec = {"accelerator": "tpu-v6e-slice", "topology": "4x4", "chipsPerPod": 4, "set": {"name": "a-set"}}
    for name, content in (("good", spec), ("odd", {**spec, "chipsPerPod": "four"})):
        world.state.create(REQUESTS, "ml", {"metadata": {"name": name}, "spec": content, "status": status})

    def run(*flags: str) -> Result:
        return CliRunner().invoke(main, ["slices", "--kubeconfig", str(kubeconfig), *flags])

    shown = await asyncio.to_thread(run)
    told = await asyncio.to_thread(run, "--json")
    beside = await asyncio.to_thread(run, "--namespace", "other")

    assert shown.exit_code == told.exit_code == beside.exit_code == 0
    assert beside.stdout == "No slice is asked for.\n"
    assert "BackingOff" in shown.stdout
    assert "[red]no capacity[/]" in shown.stdout
    assert "not shown: SliceRequest ml/odd: spec.chipsPerPod" in shown.stderr
    (one,) = read_form("slices", told.stdout)["slices"]
    assert (one["name"], one["status"]["phase"], one["spec"]["topology"]) == ("good", "BackingOff", "4x4")


async def test_a_slice_can_be_forgotten_and_its_pool_stays(
    world: World, start: Start, tmp_path: Path
) -> None:
    kubeconfig = world.api.write_kubeconfig(tmp_path / "kubeconfig")

    def forget(*words: str) -> Result:
        return CliRunner().invoke(main, ["slices", "forget", "--kubeconfig", str(kubeconfig), *words])

    async with start():
        world.ask("train", replicas=1)
        await eventually(lambda: world.phases() == ["Ready"])
    (request,) = world.objects(REQUESTS)
    name, pool = request["metadata"]["name"], request["status"]["pool"]

    unsaid = await asyncio.to_thread(forget, name, "-n", "ml")
    assert unsaid.exit_code == 2
    assert "--pool-stays" in unsaid.stderr
    assert len(world.objects(REQUESTS)) == 1

    done = await asyncio.to_thread(forget, name, "-n", "ml", "--pool-stays")
    assert done.stdout == f"ml/{name} is forgotten; its pool {pool} stays with the provider\n"
    assert world.objects(REQUESTS) == []
    assert [one["metadata"]["name"] for one in world.objects(MAPS)] == [pool]

    absent = await asyncio.to_thread(forget, name, "-n", "ml", "--pool-stays")
    assert absent.exit_code == 1
    assert absent.stderr == f"there is no SliceRequest {name} in the namespace ml\n"


async def test_a_headless_service_that_is_missing_is_told_and_that_it_came(
    world: World, start: Start
) -> None:
    def missing() -> list[str]:
        return [
            one["status"]
            for request in world.objects(REQUESTS)
            for one in (request.get("status") or {}).get("conditions", ())
            if one["type"] == "ServiceMissing"
        ]

    async with start():
        world.ask("train", replicas=1)
        await eventually(lambda: missing() == ["True"])
        await eventually(
            lambda: any("by the headless Service train, and there" in one for one in world.notes())
        )
        for name, address in (("other", "None"), ("train", "10.0.0.1")):
            world.state.create(
                "api/v1/services", "ml", {"metadata": {"name": name}, "spec": {"clusterIP": address}}
            )
        world.state.delete("api/v1/services", ("ml", "train"))
        assert missing() == ["True"]
        world.state.create(
            "api/v1/services", "ml", {"metadata": {"name": "train"}, "spec": {"clusterIP": "None"}}
        )
        await eventually(lambda: missing() == ["False"])
        await eventually(lambda: "ServiceFound" in world.reasons())
        assert world.phases() == ["Ready"]


async def test_a_pool_made_by_other_settings_is_noted_and_left_alone(world: World, start: Start) -> None:
    def drifted() -> list[str]:
        return [
            one["status"]
            for request in world.objects(REQUESTS)
            for one in (request.get("status") or {}).get("conditions", ())
            if one["type"] == "Drifted"
        ]

    async with start():
        world.ask("train", replicas=1)
        await eventually(lambda: world.running("train") == 4)
        assert drifted() == []
    async with start(gke=GkeSettings(node=NodeSettings(tags=("new",)))):
        await eventually(lambda: drifted() == ["True"])
        assert world.phases() == ["Ready"]
        assert world.running("train") == 4
    async with start():
        await eventually(lambda: drifted() == ["False"])
    assert world.killed == []
