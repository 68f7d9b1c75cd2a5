"""ProvisioningRequests as Kueue makes them, and what the provisioner says on each; the test is the queue."""

import asyncio
from typing import Any

import pytest

from accelet.provisioner.settings import SimulatedCapacity, SimulatedPools
from tests.integration.kube.waiting import eventually
from tests.integration.provisioner.conftest import Start
from tests.integration.provisioner.world import JOB_SETS, NODES, REQUESTS, World
from tests.unit.provisioner.manifests import job_set

BOOKINGS = "apis/autoscaling.x-k8s.io/v1/provisioningrequests"
WORKLOADS = "apis/kueue.x-k8s.io/v1beta2/workloads"
TEMPLATES = "api/v1/podtemplates"
WITHIN_S = 200.0
SPOT = {"cloud.google.com/gke-spot": "true"}
NO_SPOT = SimulatedPools(
    create_s=0.1, join_s=0.1, delete_s=0.1, capacity=(SimulatedCapacity(tier="spot", slices=1),)
)

pytestmark = pytest.mark.timeout(450)


class Queue:
    """Does in the world what Kueue does for one JobSet, which asks for nothing itself."""

    def __init__(self, world: World, kind: str = "JobSet") -> None:
        self._world = world
        raw = job_set("train")
        raw["metadata"] = {"name": "train"}
        raw["spec"]["suspend"] = True
        self._owner = world.state.create(JOB_SETS, "ml", raw)
        reference: dict[str, Any] = {"apiVersion": "jobset.x-k8s.io/v1alpha2", "kind": kind, "name": "train"}
        reference |= {"uid": self._owner["metadata"]["uid"], "controller": True}
        body = {"metadata": {"name": "train-load", "ownerReferences": [reference]}}
        self._workload = world.state.create(WORKLOADS, "ml", body)

    def book(self, attempt: int, count: int = 8, selector: dict[str, str] | None = None) -> None:
        template = self._owner["spec"]["replicatedJobs"][0]["template"]["spec"]["template"]
        chosen = {**template["spec"]["nodeSelector"], **(selector or {})}
        tolerations = [{"key": key, "operator": "Exists"} for key in selector or ()]
        spec = {**template["spec"], "nodeSelector": chosen, "tolerations": tolerations}
        name = f"train-load-slices-{attempt}"
        body = {"metadata": {"name": f"ppt-{name}"}, "template": {"spec": spec}}
        self._world.state.create(TEMPLATES, "ml", body)
        owner: dict[str, Any] = {
            "apiVersion": "kueue.x-k8s.io/v1beta2",
            "kind": "Workload",
            "name": "train-load",
        }
        owner |= {"uid": self._workload["metadata"]["uid"], "controller": True}
        pods = [{"podTemplateRef": {"name": f"ppt-{name}"}, "count": count}]
        request: dict[str, Any] = {
            "metadata": {"name": name, "ownerReferences": [owner]},
            "spec": {"provisioningClassName": "slice.accelet.dev", "podSets": pods, "parameters": {}},
        }
        self._world.state.create(BOOKINGS, "ml", request)

    def admit(self) -> None:
        """As Kueue: the class is noted on the pods, and the JobSet runs."""
        jobs = self._owner["spec"]["replicatedJobs"]
        note = {"autoscaling.x-k8s.io/provisioning-class-name": "slice.accelet.dev"}
        jobs[0]["template"]["spec"]["template"]["metadata"] = {"annotations": note}
        self._patch(JOB_SETS, "train", {"spec": {"suspend": False, "replicatedJobs": jobs}})

    def drop(self, attempt: int) -> None:
        self._world.state.delete(BOOKINGS, ("ml", f"train-load-slices-{attempt}"))

    def said(self, attempt: int = 1) -> dict[str, str]:
        """The messages of the conditions that hold."""
        names = {one["metadata"]["name"]: one for one in self._world.objects(BOOKINGS)}
        status = names[f"train-load-slices-{attempt}"].get("status") or {}
        return {
            one["type"]: one["message"] for one in status.get("conditions") or () if one["status"] == "True"
        }

    def _patch(self, resource: str, name: str, patch: dict[str, Any]) -> None:
        self._world.state.patch(resource, ("ml", name), "merge-patch", patch)


async def test_a_suspended_job_set_is_let_run_once_all_its_slices_are_there(
    world: World, start: Start
) -> None:
    queue = Queue(world)
    async with start():
        await asyncio.sleep(0.3)
        assert world.objects(REQUESTS) == [], "it is suspended, and nobody has booked"
        queue.book(1)
        await eventually(lambda: "Provisioned" in queue.said(), within_s=WITHIN_S)
        assert world.phases() == ["Ready", "Ready"]
        assert queue.said() == {"Accepted": "2 slices are asked for", "Provisioned": "2 slices are ready"}
        booking, request = world.objects(BOOKINGS)[0], world.objects(REQUESTS)[0]
        assert booking["status"]["provisioningClassDetails"] == {"SliceSet": request["spec"]["set"]["name"]}
        queue.admit()
        await eventually(lambda: world.running("train") == 8, within_s=WITHIN_S)
        queue.drop(1)  # as the Cluster Autoscaler does with those of all classes after a week
        await asyncio.sleep(1.0)
        assert world.phases() == ["Ready", "Ready"]
        world.finish("train")
        await eventually(lambda: not world.objects(REQUESTS) and not world.objects(NODES), within_s=WITHIN_S)
    assert world.killed == []


async def test_slices_of_a_booking_that_goes_while_their_machines_join_are_given_back(
    world: World, start: Start
) -> None:
    queue = Queue(world)
    async with start(simulated=SimulatedPools(create_s=0.1, join_s=60.0, delete_s=0.1), lag_s=1.0):
        queue.book(1)
        await eventually(lambda: "Joining" in world.phases() and bool(world.objects(NODES)), WITHIN_S)
        queue.drop(1)
        await eventually(
            lambda: set(world.phases()) <= {"Pending"} and not world.objects(NODES), within_s=WITHIN_S
        )


async def test_a_new_leader_keeps_what_is_booked(world: World, start: Start) -> None:
    queue = Queue(world)
    queue.book(1)
    async with start(lag_s=1.0):
        await eventually(lambda: "Provisioned" in queue.said(), within_s=WITHIN_S)
    since = [one["status"]["since"] for one in world.objects(REQUESTS)]
    for _ in range(3):
        async with start(lag_s=1.0):
            await asyncio.sleep(0.5)
    assert [one["status"]["since"] for one in world.objects(REQUESTS)] == since
    assert world.phases() == ["Ready", "Ready"]


async def test_a_failed_booking_is_followed_by_one_of_another_flavor(world: World, start: Start) -> None:
    queue = Queue(world)
    async with start(simulated=NO_SPOT, rest_s=60.0, lag_s=1.0):
        queue.book(1, selector=SPOT)
        await eventually(lambda: "Failed" in queue.said(), within_s=WITHIN_S)
        assert "no spot capacity" in queue.said()["Failed"]
        queue.drop(1)
        queue.book(2)
        await eventually(lambda: "Provisioned" in queue.said(2), within_s=WITHIN_S)
    assert {one["status"]["tier"] for one in world.objects(REQUESTS)} == {"on-demand"}


async def test_what_cannot_be_booked_is_refused_with_a_sentence(world: World, start: Start) -> None:
    queue = Queue(world)
    async with start():
        queue.book(1, count=5)
        await eventually(lambda: "Failed" in queue.said(), within_s=WITHIN_S)
        queue.book(2, selector={"example.com/team": "a"})
        await eventually(lambda: "Failed" in queue.said(2), within_s=WITHIN_S)
    assert "it books 5 pods with TPUs, and JobSet train has 8" in queue.said()["Failed"]
    assert "the pods insist on the label example.com/team" in queue.said(2)["Failed"]
    assert world.objects(REQUESTS) == []


async def test_workloads_of_other_kinds_are_refused(world: World, start: Start) -> None:
    queue = Queue(world, kind="RayCluster")
    async with start():
        queue.book(1)
        await eventually(lambda: "Failed" in queue.said(), within_s=WITHIN_S)
    assert queue.said()["Failed"] == (
        "its Workload is of no JobSet and no Job; slices are made for these alone"
    )


async def test_slices_that_nobody_uses_are_given_back(world: World, start: Start) -> None:
    queue = Queue(world)
    async with start():
        queue.book(1)
        await eventually(lambda: "Provisioned" in queue.said(), within_s=WITHIN_S)
    async with start(hold_s=0.5):
        await eventually(lambda: "BookingExpired" in queue.said(), within_s=WITHIN_S)
        await eventually(
            lambda: world.phases() == ["Pending"] * 2 and not world.objects(NODES), within_s=WITHIN_S
        )
    assert "did not run" in queue.said()["BookingExpired"]
