"""A tenant writes the plan of her own pod, whose name she can work out, to get more than she may."""

import json
from collections.abc import Iterator
from contextlib import contextmanager

from accelet.scheduler.gangs.grouping import GangKey
from accelet.scheduler.record import LABEL, Placement, Record
from tests.e2e.cluster.control_plane import ControlPlane
from tests.e2e.cluster.https_client import Json
from tests.e2e.cluster.waiting import wait_until
from tests.e2e.cluster.workloads import COLLECTIONS
from tests.e2e.tenants.conftest import NODES
from tests.e2e.tenants.installation import (
    CARD,
    SchedulerProcess,
    Tenant,
    assigned_tiles,
    refusal,
    tile_pod,
    wait_until_placed,
)

BOTH = json.dumps({"version": 1, "containers": {"main": {CARD: [{"unit": "0000-01-00.0", "tiles": [0, 1]}]}}})


def forged(tenant: Tenant, seen: Json, assignment: str = BOTH) -> Json:
    """The plan that gives a pod both tiles of a card, on a node of the tenant's choice."""
    meta = seen["metadata"]
    placement = Placement(meta["name"], meta["uid"], NODES[0], assignment)
    return dict(Record(GangKey(tenant.namespace, meta["name"], "pod"), (placement,), 0, 0).to_body())


def unlabelled(body: Json) -> Json:
    return {**body, "metadata": {**body["metadata"], "labels": {}}}


def test_plan_cannot_be_written_by_name_or_by_label(mallory: Tenant, control_plane: ControlPlane) -> None:
    body = forged(mallory, {"metadata": {"name": "greedy", "uid": "u"}})
    path = mallory.path("ConfigMap")
    assert "is a plan of the scheduler" in mallory.refusal("POST", path, body)
    assert "is a plan of the scheduler" in mallory.refusal("POST", path, unlabelled(body))
    other = {**body, "metadata": {**body["metadata"], "name": "other"}}
    assert "is a plan of the scheduler" in mallory.refusal("POST", path, other)
    assert "is a plan of the scheduler" in refusal(control_plane.client, "POST", path, unlabelled(body))


def test_label_cannot_be_put_on_or_taken_off_later(mallory: Tenant) -> None:
    mallory.make("ConfigMap", {"metadata": {"name": "plain"}, "data": {}})
    path = mallory.path("ConfigMap", "plain")
    change = {"metadata": {"labels": {LABEL: "v1"}}}
    assert "is a plan of the scheduler" in mallory.refusal("PATCH", path, change)


@contextmanager
def plans_unguarded(control_plane: ControlPlane) -> Iterator[None]:
    """Takes the policy away for a while: what is written now is there when it is in force again."""
    path = f"{COLLECTIONS['ValidatingAdmissionPolicyBinding']}/accelet-plans"
    binding = json.loads(control_plane.client.send("GET", path))
    control_plane.client.send("DELETE", path)
    plan = {"metadata": {"name": "accelet-plan-0"}}
    trial = "/api/v1/namespaces/default/configmaps?dryRun=All"
    wait_until(
        "plans are unguarded", lambda: not refusal(control_plane.client, "POST", trial, plan), timeout_s=30
    )
    yield
    kept = {"name": binding["metadata"]["name"]}
    control_plane.workloads.apply({**binding, "metadata": kept, "kind": "ValidatingAdmissionPolicyBinding"})
    wait_until("plans are guarded", lambda: refusal(control_plane.client, "POST", trial, plan), timeout_s=30)


def test_plan_from_before_the_policy_gives_no_more_than_is_asked_for(
    mallory: Tenant, alice: Tenant, scheduler: SchedulerProcess, control_plane: ControlPlane
) -> None:
    scheduler.stop()
    seen = mallory.make("Pod", tile_pod("greedy"))
    with plans_unguarded(control_plane):
        mallory.make("ConfigMap", forged(mallory, seen))
    alice.make("Pod", tile_pod("modest"))
    scheduler.start()
    assert len(assigned_tiles(wait_until_placed(alice, "modest"))) == 1
    assert len(assigned_tiles(wait_until_placed(mallory, "greedy"))) == 1


def test_config_map_of_a_plans_name_is_not_taken_for_a_plan(
    mallory: Tenant, alice: Tenant, scheduler: SchedulerProcess, control_plane: ControlPlane
) -> None:
    scheduler.stop()
    seen = mallory.make("Pod", tile_pod("greedy"))
    with plans_unguarded(control_plane):
        mallory.make("ConfigMap", unlabelled(forged(mallory, seen)))
    alice.make("Pod", tile_pod("modest"))
    scheduler.start()
    wait_until_placed(alice, "modest")
    wait_until(
        "she is told what is in the way",
        lambda: any(reason == "Refused" and "delete it" in text for reason, text in mallory.events("greedy")),
        timeout_s=30,
    )
    assert mallory.see("Pod", "greedy")["spec"]["schedulingGates"]
