"""Somebody has the scheduler's token: what its policy leaves to do with that."""

import json
from collections.abc import Iterator

import pytest

from accelet.kube.podparser import parse_pod
from accelet.scheduler.gangs.grouping import GATE_PREFIX
from accelet.scheduler.release import Lift, lift_patch
from tests.e2e.cluster.control_plane import ControlPlane
from tests.e2e.cluster.https_client import Client, Json
from tests.e2e.tenants.conftest import NODES
from tests.e2e.tenants.installation import (
    CARD,
    SchedulerProcess,
    Tenant,
    acting_as,
    pod,
    refusal,
    tile_pod,
)

ASSIGNMENT = json.dumps(
    {"version": 1, "containers": {"main": {CARD: [{"unit": "0000-01-00.0", "tiles": [0]}]}}}
)


@pytest.fixture
def thief(control_plane: ControlPlane) -> Client:
    return acting_as(control_plane, "kube-system", "accelet-scheduler")


@pytest.fixture
def gated(alice: Tenant, scheduler: SchedulerProcess) -> Iterator[Json]:
    """A pod that waits for cards, and meanwhile nobody but the thief is at work."""
    scheduler.stop()
    body = tile_pod("waiting", labels={"a": "b"}, annotations={"note": "hers"})
    body["spec"]["schedulerName"] = "nobody"
    yield alice.make("Pod", body)
    scheduler.start()


def lift(seen: Json) -> Json:
    patch: Json = lift_patch(Lift(parse_pod(seen), NODES[0], ASSIGNMENT), GATE_PREFIX)
    return patch


def test_a_release_as_the_scheduler_makes_it_is_allowed(thief: Client, alice: Tenant, gated: Json) -> None:
    thief.send("PATCH", alice.path("Pod", "waiting"), lift(gated))
    seen = alice.see("Pod", "waiting")
    assert "schedulingGates" not in seen["spec"]
    assert seen["metadata"]["annotations"]["note"] == "hers"


CHANGES: dict[str, tuple[Json, str]] = {
    "labels": ({"metadata": {"labels": {"a": "c"}}}, "no labels"),
    "finalizers": ({"metadata": {"finalizers": ["x.y/z"]}}, "no labels"),
    "annotations of others": ({"metadata": {"annotations": {"note": "mine"}}}, "say an assignment"),
    "annotations taken away": ({"metadata": {"annotations": {"note": None}}}, "say an assignment"),
    "deadline": ({"spec": {"activeDeadlineSeconds": 1}}, "gates and node affinity alone"),
    "a foreign gate": ({"spec": {"schedulingGates": [{"name": "x.y/z"}]}}, ""),
    "pod affinity": ({"spec": {"affinity": {"podAffinity": {}}}}, ""),
}


@pytest.mark.parametrize("change", CHANGES)
def test_nothing_else_of_a_gated_pod_can_be_changed(
    thief: Client, alice: Tenant, gated: Json, change: str
) -> None:
    patch, told = CHANGES[change]
    both = lift(gated)
    merged = {
        "metadata": {**both["metadata"], **patch.get("metadata", {})},
        "spec": {**both["spec"], **patch.get("spec", {})},
    }
    said = refusal(thief, "PATCH", alice.path("Pod", "waiting"), merged)
    assert said
    assert told in said


def test_no_image_of_a_gated_pod_can_be_changed(thief: Client, alice: Tenant, gated: Json) -> None:
    both = lift(gated)
    both["spec"]["containers"] = [{**gated["spec"]["containers"][0], "image": "evil"}]
    said = refusal(thief, "PATCH", alice.path("Pod", "waiting"), both)
    assert "gates and node affinity alone" in said


def test_no_other_pod_can_be_changed(thief: Client, alice: Tenant) -> None:
    alice.make("Pod", pod("free"))
    patch = {"metadata": {"annotations": {"accelet.dev/assignment": ASSIGNMENT}}}
    assert "one of its gates holds" in refusal(thief, "PATCH", alice.path("Pod", "free"), patch)
    container = alice.see("Pod", "free")["spec"]["containers"][0]
    image = {"spec": {"containers": [{**container, "image": "evil"}]}}
    assert "one of its gates holds" in refusal(thief, "PATCH", alice.path("Pod", "free"), image)


def test_a_release_without_a_pin_is_refused(thief: Client, alice: Tenant, gated: Json) -> None:
    patch = {"metadata": {"uid": gated["metadata"]["uid"]}, "spec": {"schedulingGates": None}}
    assert "adds the one node" in refusal(thief, "PATCH", alice.path("Pod", "waiting"), patch)


def test_pods_are_deleted_only_that_are_pinned_unbound_and_made_anew(
    thief: Client, alice: Tenant, gated: Json
) -> None:
    told = "evicts and deletes pods alone"
    path = alice.path("Pod", "waiting")
    assert told in refusal(thief, "DELETE", path)
    thief.send("PATCH", path, lift(gated))
    assert told in refusal(thief, "DELETE", path), "nobody would make it anew"
    uid = alice.make("ConfigMap", {"metadata": {"name": "owner"}})["metadata"]["uid"]
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": uid, "controller": True}
    alice.client.send("PATCH", path, {"metadata": {"ownerReferences": [owner]}})
    assert refusal(thief, "DELETE", path + "?dryRun=All") == ""
    there = alice.see("Pod", "waiting")["status"].get("conditions", [])
    mark = {"status": {"conditions": [*there, {"type": "DisruptionTarget", "status": "True"}]}}
    assert refusal(thief, "PATCH", f"{path}/status", mark) == ""
    for more in ({"phase": "Failed"}, {"conditions": [{"type": "Ready", "status": "True"}]}):
        said = refusal(thief, "PATCH", f"{path}/status", {"status": more})
        assert "the condition DisruptionTarget alone" in said
    said = refusal(thief, "PATCH", f"{path}/status", {"metadata": {"labels": {"a": "c"}}, **mark})
    assert "the condition DisruptionTarget alone" in said
    alice.make("Pod", pod("free", ownerReferences=[owner]))
    assert told in refusal(thief, "DELETE", alice.path("Pod", "free"))
    assert refusal(thief, "PATCH", alice.path("Pod", "free") + "/status", mark)


def test_jobs_are_suspended_only_that_allow_it_and_nothing_else_of_them_is_changed(
    thief: Client, alice: Tenant
) -> None:
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "none"}]}}
    spec = {"suspend": True, "template": template}
    for name, notes in (("open", {"accelet.dev/may-suspend": "true"}), ("closed", {})):
        body = {"metadata": {"name": name, "annotations": notes}, "spec": spec}
        alice.client.send("POST", alice.path("Job", "").rstrip("/"), body)
    patch = {"metadata": {"annotations": {"accelet.dev/suspended": "true"}}, "spec": {"suspend": False}}
    assert "accelet.dev/may-suspend" in refusal(thief, "PATCH", alice.path("Job", "closed"), patch)
    assert refusal(thief, "PATCH", alice.path("Job", "open"), patch) == ""
    for meddling in (
        {"spec": {"parallelism": 5}},
        {"metadata": {"annotations": {"accelet.dev/may-suspend": None}}},
        {"metadata": {"labels": {"a": "b"}}},
    ):
        said = refusal(thief, "PATCH", alice.path("Job", "open"), meddling)
        assert "changes alone whether it is suspended" in said
    assert refusal(thief, "DELETE", alice.path("Job", "open"))


@pytest.mark.parametrize("name", ["aws-auth", "accelet-agent", "accelet-plan-0"])
def test_no_config_map_but_a_labelled_plan_can_be_written(
    thief: Client, control_plane: ControlPlane, name: str
) -> None:
    path = "/api/v1/namespaces/kube-system/configmaps"
    assert "its own plans alone" in refusal(thief, "POST", path, {"metadata": {"name": name}})
    if name == "accelet-agent":
        assert "its own plans alone" in refusal(thief, "DELETE", f"{path}/{name}")
        body = json.loads(control_plane.client.send("GET", f"{path}/{name}"))
        assert "its own plans alone" in refusal(thief, "PUT", f"{path}/{name}", {**body, "data": {}})


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/api/v1/namespaces/kube-system/secrets"),
        ("POST", "/api/v1/namespaces/default/pods"),
        ("POST", "/api/v1/namespaces/default/pods/p/eviction"),
        ("POST", "/api/v1/namespaces/default/pods/p/exec"),
        ("POST", "/api/v1/namespaces/kube-system/serviceaccounts/accelet-agent/token"),
        (
            "DELETE",
            "/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings/accelet-scheduler",
        ),
    ],
)
def test_rights_it_does_not_have(thief: Client, method: str, path: str) -> None:
    assert refusal(thief, method, path, {"metadata": {"name": "p"}} if method == "POST" else None)
