"""Doctor finds nothing wrong in a sound cluster, and each fault that is planted in it, by its name."""

import time
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from accelet.doctor.cluster.judgement import judge_cluster
from accelet.doctor.cluster.look import look_at_cluster
from accelet.doctor.findings import Finding
from accelet.fakeapi import Answer, FakeApi, Fault
from accelet.kube.client import Client

DEPLOY = Path(__file__).parents[3] / "deploy"
Json = dict[str, Any]
GPU = "gpu.intel.com/i915"
APPS, ADMISSION, LEASES = (
    "apis/apps/v1",
    "apis/admissionregistration.k8s.io/v1",
    "apis/coordination.k8s.io/v1/leases",
)
PLURALS = {
    "DaemonSet": f"{APPS}/daemonsets",
    "Deployment": f"{APPS}/deployments",
    "ConfigMap": "api/v1/configmaps",
    "ValidatingAdmissionPolicy": f"{ADMISSION}/validatingadmissionpolicies",
    "ValidatingAdmissionPolicyBinding": f"{ADMISSION}/validatingadmissionpolicybindings",
    "MutatingAdmissionPolicy": f"{ADMISSION}/mutatingadmissionpolicies",
    "MutatingAdmissionPolicyBinding": f"{ADMISSION}/mutatingadmissionpolicybindings",
}


def shipped() -> Iterator[Json]:
    """What deploy/kustomization.yaml installs, as far as doctor looks at it."""
    files = ["scheduler.yaml", "agent-cards/policy.yaml", "agent-cards/config.patch.yaml", *(
        f"policies/{name}.yaml" for name in ("assignments", "gate", "requests")
    )]  # fmt: skip
    for file in files:
        yield from yaml.safe_load_all((DEPLOY / file).read_text())
    _, daemon = yaml.safe_load_all((DEPLOY.parent / "daemonset.yaml").read_text())
    daemon["spec"]["template"]["spec"] |= {
        "serviceAccountName": "accelet-agent",
        "automountServiceAccountToken": True,
    }
    yield daemon


def now(ahead_s: float = 0.0) -> str:
    return datetime.fromtimestamp(time.time() + ahead_s, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def lease(namespace: str, name: str, *, renewed: str, duration_s: int = 40) -> Json:
    spec = {"holderIdentity": f"{name}-1", "leaseDurationSeconds": duration_s, "renewTime": renewed}
    fields = [{"manager": "x", "operation": "Update", "time": now()[:19] + "Z"}]
    return {"metadata": {"name": name, "namespace": namespace, "managedFields": fields}, "spec": spec}


def node(name: str = "node-1", **spec: object) -> Json:
    amounts = {"cpu": "8", GPU: "300"}
    status = {
        "capacity": amounts,
        "allocatable": dict(amounts),
        "conditions": [{"type": "Ready", "status": "True"}],
        "nodeInfo": {"kubeletVersion": "v1.36.0"},
    }
    return {"metadata": {"name": name}, "spec": spec, "status": status}


def pod(name: str, *, asks: str = GPU, **spec: object) -> Json:
    container = {"name": "main", "image": "busybox", "resources": {"limits": {asks: "1"}}}
    metadata = {"name": name, "namespace": "team-a"}
    return {"metadata": metadata, "spec": {"containers": [container], **spec}, "status": {"phase": "Pending"}}


@pytest.fixture
def api() -> Iterator[FakeApi]:
    with FakeApi() as api:
        for manifest in shipped():
            if manifest["kind"] not in PLURALS:
                continue
            if manifest["kind"] == "DaemonSet":
                manifest["status"] = {"desiredNumberScheduled": 1, "numberReady": 1}
            if manifest["kind"] == "Deployment":
                manifest["status"] = {"readyReplicas": 2}
            put(api, PLURALS[manifest["kind"]], manifest)
        put(api, LEASES, lease("kube-system", "accelet-scheduler", renewed=now(), duration_s=60))
        put(api, LEASES, lease("kube-node-lease", "node-1", renewed=now()))
        put(api, "api/v1/nodes", node())
        yield api


def put(api: FakeApi, resource: str, body: Json) -> None:
    api.state.create(resource, body["metadata"].get("namespace", ""), body)


async def found(api: FakeApi, folder: Path, level: str = "wrong") -> Mapping[str, Finding]:
    """The first finding of that level of each check that has any."""
    client = await Client.connect(api.write_kubeconfig(folder / "kubeconfig"), threads=4)
    try:
        verdicts = judge_cluster(await look_at_cluster(client, within_s=60))
    finally:
        client.close()
    return {v.check: one for v in verdicts for one in reversed(v.findings) if one.level == level}


async def test_nothing_is_wrong_with_a_sound_cluster(api: FakeApi, tmp_path: Path) -> None:
    assert await found(api, tmp_path) == {}
    assert await found(api, tmp_path, "unseen") == {}


def change(resource: str, namespace: str, name: str, body: Json) -> Callable[[FakeApi], object]:
    return lambda api: api.state.patch(resource, (namespace, name), "merge-patch", body)


def remove(resource: str, namespace: str, name: str) -> Callable[[FakeApi], object]:
    return lambda api: api.state.delete(resource, (namespace, name))


def add(resource: str, body: Json) -> Callable[[FakeApi], object]:
    return lambda api: put(api, resource, body)


def run_by(owner: str, image: str, labels: Mapping[str, str]) -> Json:
    """A pod of a DaemonSet that runs on node-1."""
    owners = [{"kind": "DaemonSet", "name": owner, "uid": owner, "controller": True}]
    metadata = {"name": owner, "namespace": "kube-system", "labels": labels, "ownerReferences": owners}
    spec = {"nodeName": "node-1", "containers": [{"name": "main", "image": image}]}
    return {"metadata": metadata, "spec": spec, "status": {"phase": "Running"}}


def two_agents(api: FakeApi) -> None:
    labels = {"app.kubernetes.io/part-of": "accelet", "app.kubernetes.io/component": "agent"}
    put(api, "api/v1/pods", run_by("one", "accelet:0.1.0", labels))
    put(api, "api/v1/pods", run_by("two", "accelet:0.1.0", labels))


def two_plugins(api: FakeApi) -> None:
    labels = {"app.kubernetes.io/part-of": "accelet", "app.kubernetes.io/component": "agent"}
    put(api, "api/v1/pods", run_by("one", "accelet:0.1.0", labels))
    put(api, "api/v1/pods", run_by("two", "docker.io/intel/intel-gpu-plugin:0.32", {"app": "intel"}))


def image_that_is_nowhere(api: FakeApi) -> None:
    change(f"{APPS}/daemonsets", "kube-system", "accelet-agent", {"status": {"numberReady": 0}})(api)
    labels = {"app.kubernetes.io/part-of": "accelet", "app.kubernetes.io/component": "agent"}
    one = run_by("accelet-agent", "accelet:0.1.0", labels)
    one["status"] = {
        "containerStatuses": [{"name": "agent", "state": {"waiting": {"reason": "ErrImagePull"}}}]
    }
    put(api, "api/v1/pods", one)


def gate_that_nobody_lifts(api: FakeApi) -> None:
    remove(f"{APPS}/deployments", "kube-system", "accelet-scheduler")(api)
    put(api, "api/v1/pods", pod("train", schedulingGates=[{"name": "accelet.dev/cards"}]))


FAULTS: Mapping[str, tuple[Callable[[FakeApi], object], str, str, str]] = {
    "the scheduler is scaled to 0": (
        change(f"{APPS}/deployments", "kube-system", "accelet-scheduler", {"spec": {"replicas": 0}}),
        "installed", "Deployment kube-system/accelet-scheduler", "scaled to 0",
    ),
    "an image is nowhere": (
        image_that_is_nowhere, "installed", "DaemonSet kube-system/accelet-agent", "0 pods of 1 ready",
    ),
    "nobody leads": (
        change(LEASES, "kube-system", "accelet-scheduler", {"spec": {"renewTime": now(-3600)}}),
        "leading", "Deployment kube-system/accelet-scheduler", "the lease has run out",
    ),
    "a lease was given back": (
        change(LEASES, "kube-system", "accelet-scheduler", {"spec": {"holderIdentity": ""}}),
        "leading", "Deployment kube-system/accelet-scheduler", "was given back",
    ),
    "a right is missing": (
        lambda api: api.forbid("patch", "pods"),
        "rights", "kube-system:accelet-scheduler: patch pods", "needed for the scheduler",
    ),
    "the agents' configuration has a mistake": (
        change("api/v1/configmaps", "kube-system", "accelet-agent", {"data": {"config.yaml": "version: 2"}}),
        "configuration", "ConfigMap kube-system/accelet-agent", "has a mistake",
    ),
    "the agents have no token": (
        change(f"{APPS}/daemonsets", "kube-system", "accelet-agent",
               {"spec": {"template": {"spec": {"automountServiceAccountToken": False}}}}),
        "configuration", "DaemonSet kube-system/accelet-agent", "no token",
    ),
    "a policy is missing": (
        remove(f"{ADMISSION}/validatingadmissionpolicies", "", "accelet-assignments"),
        "policies", "accelet-assignments", "this policy is missing",
    ),
    "a policy is bound to nothing": (
        remove(f"{ADMISSION}/validatingadmissionpolicybindings", "", "accelet-plans"),
        "policies", "accelet-plans", "bound to nothing",
    ),
    "a mutating policy is bound to nothing": (
        remove(f"{ADMISSION}/mutatingadmissionpolicybindings", "", "accelet-gate"),
        "policies", "accelet-gate", "bound to nothing",
    ),
    "a policy only audits": (
        change(f"{ADMISSION}/validatingadmissionpolicybindings", "", "accelet-scheduler",
               {"spec": {"validationActions": ["Audit"]}}),
        "policies", "accelet-scheduler", "do not refuse",
    ),
    "a policy fails open": (
        change(f"{ADMISSION}/validatingadmissionpolicies", "", "accelet-agent-cards",
               {"spec": {"failurePolicy": "Ignore"}}),
        "policies", "accelet-agent-cards", "requests pass",
    ),
    "a node is not ready": (
        change("api/v1/nodes", "", "node-1",
               {"status": {"conditions": [{"type": "Ready", "status": "Unknown"}]}}),
        "nodes", "node-1", "not ready",
    ),
    "a kubelet is too old": (
        change("api/v1/nodes", "", "node-1", {"status": {"nodeInfo": {"kubeletVersion": "v1.30.1"}}}),
        "versions", "node-1", "too old",
    ),
    "a kubelet is newer than its API server": (
        change("api/v1/nodes", "", "node-1", {"status": {"nodeInfo": {"kubeletVersion": "v1.37.0-rc.1"}}}),
        "versions", "node-1", "newer than",
    ),
    "a node's clock is wrong": (
        change(LEASES, "kube-node-lease", "node-1", {"spec": {"renewTime": now(10 * 86_400)}}),
        "clocks", "node-1", "ahead of",
    ),
    "devices cannot be given out": (
        change("api/v1/nodes", "", "node-1", {"status": {"allocatable": {GPU: "298"}}}),
        "devices", "node-1", f"2 of 300 {GPU}",
    ),
    "a pod asks for what nobody offers": (
        add("api/v1/pods", pod("train", asks="gpu.intel.com/i951")),
        "resource-names", "gpu.intel.com/i951", "team-a/train first",
    ),
    "a taint keeps a pod away": (
        change("api/v1/nodes", "", "node-1", {"spec": {"taints": [{"key": "ours", "effect": "NoSchedule"}]}}),
        "taints", "team-a/patient", "keeps it away",
    ),
    "a selector chooses no node that offers": (
        add("api/v1/pods", pod("train", nodeSelector={"gpu": "yes"})),
        "taints", "team-a/train", "no node that its nodeSelector",
    ),
    "a gate that nobody lifts": (
        gate_that_nobody_lifts,
        "gates", "team-a/train", "there is none here",
    ),
    "two agents are on one node": (two_agents, "one-plugin", "node-1", "2 agents"),
    "two plugins serve one resource": (two_plugins, "one-plugin", "node-1", "intel-gpu-plugin serves"),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
async def test_a_fault_is_found_and_no_other(api: FakeApi, tmp_path: Path, fault: str) -> None:
    plant, check, about, reason = FAULTS[fault]
    put(api, "api/v1/pods", pod("patient"))
    plant(api)
    wrong = await found(api, tmp_path)
    assert wrong.keys() == {check}
    assert wrong[check].about == about
    assert reason in wrong[check].reason
    assert wrong[check].cure


async def test_a_resource_name_that_is_almost_right_is_answered_with_the_right_one(
    api: FakeApi, tmp_path: Path
) -> None:
    put(api, "api/v1/pods", pod("train", asks="gpu.intel.com/i951"))
    assert f"Did they mean {GPU}?" in (await found(api, tmp_path))["resource-names"].cure


async def test_what_may_not_be_listed_is_unseen_and_the_rest_is_judged(api: FakeApi, tmp_path: Path) -> None:
    api.faults.append(Fault(Answer(403, "Forbidden"), path="/validatingadmissionpolicies", times=99))
    put(api, "api/v1/pods", pod("train", asks="gpu.intel.com/i951"))
    assert (await found(api, tmp_path, "unseen"))["seen"].about == "validatingadmissionpolicies"
    assert (await found(api, tmp_path)).keys() == {"resource-names"}


async def test_a_cluster_without_accelet_is_told_so(tmp_path: Path) -> None:
    with FakeApi() as api:
        assert (await found(api, tmp_path)).keys() == {"installed"}


async def test_objects_that_are_none_harm_no_others(api: FakeApi, tmp_path: Path) -> None:
    put(api, "api/v1/pods", {"metadata": {"name": "bad", "namespace": "x"}, "spec": {"containers": 7}})
    put(api, "api/v1/nodes", {"metadata": {"name": "bad"}, "status": {"allocatable": {"cpu": "many"}}})
    assert await found(api, tmp_path) == {}
