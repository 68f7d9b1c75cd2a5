"""Every part of deploy/ is removed as docs/operating.md says, beside the others and what people have made."""

import json
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.e2e.cluster.binaries import Binaries
from tests.e2e.cluster.control_plane import ControlPlane
from tests.e2e.cluster.workspace import Workspace
from tests.e2e.kustomize import build
from tests.unit.shipping.removal import PROJECT, removals

Identity = tuple[str, str, str]
TASK = {"container": {"image": "registry.example.com/train:1"}}
TENANTS: Sequence[dict[str, Any]] = (
    {"apiVersion": "accelet.dev/v1alpha1", "kind": "GPUTask", "metadata": {"name": "train"}, "spec": TASK},
    {
        "apiVersion": "falldio.com/v1",
        "kind": "GPUTask",
        "metadata": {"name": "original"},
        "spec": {"gpu": "a100", "gpu-amount": "1", "cpu": "1", "memory": "1Gi", "priority": ""},
    },
    {
        "apiVersion": "accelet.dev/v1alpha1",
        "kind": "SliceRequest",
        "metadata": {"name": "workers", "finalizers": ["accelet.dev/slice"]},
        "spec": {
            "accelerator": "tpu-v5-lite-podslice",
            "topology": "2x4",
            "chipsPerPod": 4,
            "set": {"name": "workers"},
        },
    },
)
"""What people have made, and a slice that nobody has given back yet."""


class Kubectl:
    """kubectl, as the administrator of one control plane."""

    def __init__(self, program: Path, kubeconfig: Path) -> None:
        self._words = [str(program), f"--kubeconfig={kubeconfig}"]

    def run(self, *words: str, text: str = "") -> str:
        """What it prints; fails the test where it fails, or says nothing for a minute."""
        done = subprocess.run(
            [*self._words, *words],
            input=text,
            capture_output=True,
            text=True,
            check=False,
            cwd=PROJECT,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def there(self, kinds: Sequence[str]) -> set[Identity]:
        """All objects of these kinds that are not on their way out."""
        listed = json.loads(self.run("get", ",".join(kinds), "--all-namespaces", "--output=json"))
        return {identity(each) for each in listed["items"] if "deletionTimestamp" not in each["metadata"]}


def identity(manifest: dict[str, Any]) -> Identity:
    return manifest["kind"], manifest["metadata"].get("namespace", ""), manifest["metadata"]["name"]


@pytest.fixture
def control_plane(workspace: Workspace, binaries: Binaries) -> Iterator[ControlPlane]:
    """One of its own: its kinds and policies come and go."""
    with ControlPlane(workspace.part("removal"), binaries) as control_plane:
        control_plane.start()
        yield control_plane


@pytest.fixture
def kubectl(control_plane: ControlPlane, binaries: Binaries) -> Kubectl:
    return Kubectl(binaries.path("kubectl"), Path(control_plane.kubeconfig))


def objects(part: str, binaries: Binaries) -> set[Identity]:
    path = PROJECT / part
    made = build(path, binaries.path("kubectl")) if path.is_dir() else yaml.safe_load_all(path.read_text())
    return {identity(each) for each in made if each and not each["apiVersion"].startswith("monitoring.")}


def option(part: str) -> str:
    return "-k" if (PROJECT / part).is_dir() else "-f"


def test_removing_any_part_leaves_the_others_and_what_people_made(
    kubectl: Kubectl, control_plane: ControlPlane, binaries: Binaries
) -> None:
    rows = [each for each in removals() if each.commands]
    made = {part: objects(part, binaries) for row in rows for part in row.parts}
    kinds = sorted({kind for each in made.values() for kind, *_ in each})
    for kind in ("podmonitors", "prometheusrules"):
        kubectl.run("apply", "-f", "-", text=json.dumps(foreign_kind(kind)))
    for part in sorted(made, key=lambda part: not part.startswith("deploy/crds")):
        kubectl.run("apply", option(part), part)
    kubectl.run("wait", "--for=condition=Established", "--timeout=30s", "customresourcedefinitions", "--all")
    kubectl.run("apply", "-f", "-", text=yaml.safe_dump_all(TENANTS))

    there = kubectl.there(kinds)
    assert there >= set().union(*made.values())
    for row in rows:
        if "deploy/crds" in row.parts:
            assert len(tenants(kubectl)) == len(TENANTS)
            forget_slice(control_plane)
        for command in row.commands:
            kubectl.run(*command.split())
        there = kubectl.there(kinds)
        assert not any(made.pop(part) & there for part in row.parts), row.title
        assert there >= set().union(*made.values()), row.title


def tenants(kubectl: Kubectl) -> set[Identity]:
    return kubectl.there(
        ("gputasks.accelet.dev", "gputasks.falldio.com", "slicerequests.accelet.dev"),
    )


def forget_slice(control_plane: ControlPlane) -> None:
    """As the table advises where the provisioner has gone before a slice."""
    words = ["-m", "accelet", "slices", "forget", "workers", "--pool-stays"]
    subprocess.run(
        [sys.executable, *words, f"--kubeconfig={control_plane.kubeconfig}"], check=True, timeout=60
    )


def foreign_kind(plural: str) -> dict[str, Any]:
    """A kind of the Prometheus operator, without its schema."""
    kind = {"podmonitors": "PodMonitor", "prometheusrules": "PrometheusRule"}[plural]
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {
            "openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        },
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.monitoring.coreos.com"},
        "spec": {
            "group": "monitoring.coreos.com",
            "scope": "Namespaced",
            "names": {"kind": kind, "plural": plural},
            "versions": [version],
        },
    }
