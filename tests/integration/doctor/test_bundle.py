"""A support bundle has no text in it that somebody else wrote: secrets planted everywhere are not in it."""

import json
import stat
import tarfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from accelet.cli import main
from accelet.fakeapi import FakeApi

SECRET = "hunter2-in-plain-sight"
LABELS = {"app.kubernetes.io/part-of": "accelet"}
ADMISSION = "apis/admissionregistration.k8s.io/v1"
Json = dict[str, Any]


def noted(name: str, namespace: str = "", component: str = "", **more: object) -> Json:
    labels = {**LABELS, "app.kubernetes.io/component": component} if component else {}
    return {
        "name": name,
        **({"namespace": namespace} if namespace else {}),
        "labels": {**labels, "x": SECRET, SECRET: "y"},
        "annotations": {"note": SECRET, SECRET: "z"},
        **more,
    }


def container(**limits: str) -> Json:
    return {
        "name": "main",
        "image": f"registry/{SECRET}/intel-gpu-plugin",
        "command": ["sh", "-c", SECRET],
        "args": [f"--password={SECRET}"],
        "env": [{"name": "PASSWORD", "value": SECRET}, {"name": SECRET, "value": "x"}],
        "resources": {"limits": limits},
    }


def condition(kind: str, status: str) -> Json:
    return {"type": kind, "status": status, "reason": SECRET, "message": SECRET}


def pods() -> Iterator[Json]:
    status = {"phase": "Pending", "message": SECRET, "conditions": [condition("PodScheduled", "False")]}
    stuck = [{"name": "main", "state": {"waiting": {"reason": SECRET, "message": SECRET}}}]
    gates = [{"name": "accelet.dev/cards"}, {"name": SECRET}]
    spec: Json = {"containers": [container(**{"gpu.intel.com/i951": "1"})]}
    selecting = {**spec, "nodeSelector": {SECRET: SECRET}}
    tolerating = {**spec, "tolerations": [{"key": SECRET, "value": SECRET, "operator": "Equal"}]}
    yield {"metadata": noted("waits", "team-a"), "spec": selecting, "status": status}
    yield {"metadata": noted("gated", "team-a"), "spec": {**spec, "schedulingGates": gates}, "status": status}
    yield {"metadata": noted("tolerates", "team-a"), "spec": tolerating, "status": status}
    refused = {"phase": "Failed", "reason": "UnexpectedAdmissionError", "message": SECRET}
    yield {"metadata": noted("refused", "team-a"), "spec": spec, "status": refused}
    runs = {"nodeName": "node-1", "containers": [container()]}
    own = noted("agent-1", "kube-system", "agent")
    yield {"metadata": own, "spec": runs, "status": {"containerStatuses": stuck, "reason": SECRET}}


def objects() -> Iterator[tuple[str, Json]]:
    yield (
        "api/v1/nodes",
        {
            "metadata": noted("node-1"),
            "spec": {
                "taints": [{"key": "ours", "value": SECRET, "effect": "NoSchedule"}],
                "providerID": SECRET,
            },
            "status": {
                "capacity": {"gpu.intel.com/i915": "4"},
                "allocatable": {"gpu.intel.com/i915": "2"},
                "conditions": [condition("Ready", "False")],
                "nodeInfo": {"kubeletVersion": f"v1.20.0-{SECRET}", "osImage": SECRET},
            },
        },
    )
    for pod in pods():
        yield "api/v1/pods", pod
    template = {"spec": {"containers": [container()], "volumes": [{"configMap": {"name": "agent"}}]}}
    for kind, component in (("daemonsets", "agent"), ("deployments", "scheduler")):
        metadata = noted(f"accelet-{component}", "kube-system", component)
        yield f"apis/apps/v1/{kind}", {"metadata": metadata, "spec": {"template": template}, "status": {}}
    config = f"version: v1\nresources:\n- {{name: {SECRET}, backend: {SECRET}}}\n"
    yield "api/v1/configmaps", {"metadata": noted("agent", "kube-system"), "data": {"config.yaml": config}}
    made = datetime.fromtimestamp(time.time(), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    spec: Json = {"holderIdentity": SECRET, "leaseDurationSeconds": 60, "renewTime": made}
    for namespace, name in (("kube-system", "accelet-scheduler"), ("kube-node-lease", "node-1")):
        yield "apis/coordination.k8s.io/v1/leases", {"metadata": noted(name, namespace), "spec": spec}
    warnings = {"typeChecking": {"expressionWarnings": [{"fieldRef": SECRET, "warning": SECRET}]}}
    validations = [{"expression": SECRET, "message": SECRET}]
    policy = {"metadata": noted("accelet-plans"), "spec": {"validations": validations}, "status": warnings}
    yield f"{ADMISSION}/validatingadmissionpolicies", policy
    binding = {"policyName": "accelet-plans", "validationActions": [SECRET]}
    yield (
        f"{ADMISSION}/validatingadmissionpolicybindings",
        {"metadata": noted("accelet-plans"), "spec": binding},
    )
    event = {"regarding": {"kind": "Pod", "namespace": "team-a", "name": "gated"}, "reason": "Waiting"}
    yield "apis/events.k8s.io/v1/events", {"metadata": noted("e", "team-a"), **event, "note": SECRET}


@pytest.fixture
def api() -> Iterator[FakeApi]:
    with FakeApi() as api:
        api.version = f"v1.36.0-{SECRET}"
        for resource, body in objects():
            api.state.create(resource, body["metadata"].get("namespace", ""), body)
        yield api


def doctor(folder: Path, *options: str) -> str:
    """Looks at a node and a cluster; both have their faults."""
    plugins = folder / "device-plugins"
    plugins.mkdir(exist_ok=True)
    entry = {
        "PodUID": "u",
        "ContainerName": "main",
        "ResourceName": "gpu.intel.com/i915",
        "DeviceIDs": {"-1": ["a"]},
        "AllocResp": SECRET,
    }
    (plugins / "kubelet_internal_checkpoint").write_text(json.dumps({"Data": {"PodDeviceEntries": [entry]}}))
    (folder / "config.yaml").write_text(f"version: v1\nresources:\n- {{name: a/b, backend: {SECRET}}}\n")
    words = [
        "--look-at",
        "node",
        "--look-at",
        "cluster",
        "--kubelet-dir",
        str(folder),
        "--http",
        "127.0.0.1:1",
    ]
    words += ["--config", str(folder / "config.yaml"), "--kubeconfig", str(folder / "kubeconfig")]
    done = CliRunner().invoke(main, ["doctor", *words, *options])
    assert isinstance(done.exception, SystemExit)
    return done.output


def read_all(path: Path) -> str:
    with tarfile.open(path) as archive:
        files = (archive.extractfile(member) for member in archive.getmembers())
        return "\n".join(file.read().decode() for file in files if file is not None)


def test_no_secret_is_in_a_bundle_and_every_object_is(api: FakeApi, folder: Path) -> None:
    api.write_kubeconfig(folder / "kubeconfig", token=SECRET)
    shown = doctor(folder, "--bundle", str(folder / "bundle.tar.gz"), "--json")
    held = read_all(folder / "bundle.tar.gz")
    assert SECRET in shown, "whoever looks may read what is there; otherwise nothing was planted"
    assert SECRET not in held
    assert SECRET[:10] not in held
    for name in ("node-1", "waits", "gated", "tolerates", "refused", "agent-1", "accelet-scheduler"):
        assert f'"{name}"' in held
    assert "UnexpectedAdmissionError" in held
    assert '"accelet-plans"' in held


def test_a_bundle_is_its_owners_alone_and_replaces_no_file(api: FakeApi, folder: Path) -> None:
    api.write_kubeconfig(folder / "kubeconfig")
    bundle = folder / "bundle.tar.gz"
    doctor(folder, "--bundle", str(bundle))
    assert stat.S_IMODE(bundle.stat().st_mode) == 0o600
    before = bundle.read_bytes()
    assert "File exists" in doctor(folder, "--bundle", str(bundle))
    assert bundle.read_bytes() == before
