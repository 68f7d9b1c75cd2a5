"""A tenant writes what an API server takes and nobody expects: huge numbers, depth, long texts."""

import json

import pytest

from accelet.scheduler.gangs.grouping import GANG_SIZE, GATE_PREFIX
from accelet.scheduler.gangs.levels import REQUIRED_LEVEL
from tests.e2e.cluster.control_plane import ControlPlane
from tests.e2e.cluster.https_client import Json
from tests.e2e.cluster.waiting import wait_until
from tests.e2e.tenants.installation import (
    TILES,
    SchedulerProcess,
    Tenant,
    assigned_tiles,
    pod,
    tile_pod,
    wait_until_placed,
)

DIGITS = "9" * 5000
GATE = f"{GATE_PREFIX}job"


def gated(name: str, **annotations: str) -> Json:
    body = tile_pod(name, annotations=annotations)
    body["spec"]["schedulingGates"] = [{"name": GATE}]
    return body


def deep_pod(name: str, depth: int) -> Json:
    fields: Json = {}
    for _ in range(depth):
        fields = {"f:a": fields}
    entry = {
        "manager": "mallory",
        "operation": "Update",
        "apiVersion": "v1",
        "fieldsType": "FieldsV1",
        "fieldsV1": fields,
    }
    return pod(name, managedFields=[entry])


ATTACKS = {
    "digits": pod("bad", {"x.y/z": DIGITS}),
    "exponent": pod("bad", {"memory": "1e10001", "cpu": "1e-10001"}),
    "gang-size": gated("bad", **{GANG_SIZE: DIGITS}),
    "level": gated("bad", **{REQUIRED_LEVEL: "x" * 100_000}),
    "tiles": pod("bad", {TILES: DIGITS}),
    "assigned-cards": tile_pod("bad", annotations={"gas-allow": "card0," * 20_000}),
}


@pytest.mark.parametrize("attack", ATTACKS)
def test_nobody_else_is_harmed(
    attack: str, mallory: Tenant, alice: Tenant, scheduler: SchedulerProcess
) -> None:
    mallory.make("Pod", ATTACKS[attack])
    alice.make("Pod", tile_pod("before"))
    wait_until_placed(alice, "before")
    scheduler.restart()
    alice.make("Pod", tile_pod("after"))
    wait_until_placed(alice, "after")
    assert scheduler.is_running
    assert scheduler.faults() == []
    assert scheduler.longest_line < 5_000


def test_long_text_is_cut_where_it_is_said(mallory: Tenant, scheduler: SchedulerProcess) -> None:
    mallory.make("Pod", gated("wordy", **{REQUIRED_LEVEL: "x" * 100_000}))
    wait_until("she is told why it waits", lambda: mallory.events("wordy"), timeout_s=60)
    assert scheduler.longest_line < 5_000
    assert all(len(note.encode()) <= 1024 for _, note in mallory.events("wordy"))


def test_pod_of_endless_rules_is_told_so_and_harms_nobody(
    mallory: Tenant, alice: Tenant, scheduler: SchedulerProcess
) -> None:
    """Each label of its selector once took 8 bytes a node, and stayed."""
    wordy = gated("wordy")
    wordy["spec"]["nodeSelector"] = {f"a{number:05}": "" for number in range(50_000)}
    mallory.make("Pod", wordy)
    wait_until(
        "she is told what there is too much of",
        lambda: any("at most 1,000 are read" in text for _, text in mallory.events("wordy")),
        timeout_s=60,
        evidence=lambda: str(mallory.events("wordy")),
    )
    alice.make("Pod", tile_pod("after"))
    wait_until_placed(alice, "after")
    assert scheduler.is_running
    assert scheduler.faults() == []


@pytest.mark.parametrize("depth", [1_200, 9_900])
def test_depth_harms_nobody(depth: int, mallory: Tenant, alice: Tenant, scheduler: SchedulerProcess) -> None:
    text = json.dumps(deep_pod("deep", 1)).replace('{"f:a": {}}', '{"f:a":' * depth + "{}" + "}" * depth)
    mallory.client.send_text("POST", mallory.path("Pod"), text.encode())
    alice.make("Pod", tile_pod("before"))
    wait_until_placed(alice, "before")
    scheduler.restart()
    alice.make("Pod", tile_pod("after"))
    wait_until_placed(alice, "after")
    assert scheduler.is_running
    assert scheduler.faults() == []


def may_resize(control_plane: ControlPlane, tenant: Tenant) -> None:
    """Gives the tenant a right that `edit` does not have in Kubernetes 1.36."""
    here = {"name": "resize", "namespace": tenant.namespace}
    rules = [{"apiGroups": [""], "resources": ["pods/resize"], "verbs": ["update"]}]
    control_plane.workloads.apply({"kind": "Role", "metadata": here, "rules": rules})
    control_plane.workloads.apply(
        {
            "kind": "RoleBinding",
            "metadata": here,
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "resize"},
            "subjects": [{"kind": "ServiceAccount", "name": "tenant", "namespace": tenant.namespace}],
        }
    )


def test_holder_resized_to_an_absurd_amount_keeps_its_tiles(
    mallory: Tenant, alice: Tenant, scheduler: SchedulerProcess, control_plane: ControlPlane
) -> None:
    may_resize(control_plane, mallory)
    held = tile_pod("holder", tiles=2)
    held["spec"]["containers"][0]["resources"]["limits"]["memory"] = "1Mi"
    mallory.make("Pod", held)
    mine = assigned_tiles(wait_until_placed(mallory, "holder"))
    wait_until("it is bound", lambda: mallory.see("Pod", "holder")["spec"].get("nodeName"), timeout_s=30)
    path = mallory.path("Pod", "holder") + "/resize"
    seen = mallory.see("Pod", "holder")
    seen["spec"]["containers"][0]["resources"]["limits"]["memory"] = "1e10001"
    mallory.client.send("PUT", path, seen)
    scheduler.restart()
    theirs = set()
    for number in range(8):
        alice.make("Pod", tile_pod(f"p{number}", tiles=1))
        theirs |= set(assigned_tiles(wait_until_placed(alice, f"p{number}")))
    assert len(theirs) == 8
    assert not theirs & set(mine)
