"""One control plane for these attacks: deploy/ installed on it, its processes as pods of the image."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.e2e.agent import wait_for_allocatable
from tests.e2e.cluster.binaries import Binaries
from tests.e2e.cluster.containerd import SOCKET
from tests.e2e.cluster.control_plane import ControlPlane
from tests.e2e.cluster.https_client import Json
from tests.e2e.cluster.node import Node
from tests.e2e.cluster.python_image import python_image
from tests.e2e.cluster.waiting import wait_until
from tests.e2e.cluster.workloads import COLLECTIONS
from tests.e2e.cluster.workspace import Workspace
from tests.e2e.kustomize import DEPLOY, build
from tests.e2e.simulated_nodes import card_nodes
from tests.e2e.tenants.conftest import NODES, two_tile_cards
from tests.e2e.tenants.installation import CARD, TILES, installed
from tests.e2e.tenants.pods.processes import (
    NAMESPACE,
    REAL,
    REAL_CARDS,
    REAL_TILES,
    RunningProcess,
    configured,
    is_agents_configuration,
    reaching,
)


@pytest.fixture(scope="package")
def manifests(binaries: Binaries) -> Sequence[Json]:
    """What deploy/ installs."""
    return build(DEPLOY, binaries.path("kubectl"))


@pytest.fixture(scope="package")
def control_plane(
    workspace: Workspace, binaries: Binaries, manifests: Sequence[Json]
) -> Iterator[ControlPlane]:
    """One of its own: the policies would judge other tests."""
    with ControlPlane(workspace.part("tenants-pods"), binaries) as control_plane:
        control_plane.start()
        nodes = dict.fromkeys(NODES, two_tile_cards())
        shipped = [configured(each) if is_agents_configuration(each) else each for each in manifests]
        with installed(control_plane, shipped), card_nodes(control_plane.client, nodes):
            yield control_plane


@pytest.fixture(scope="package")
def real_node(
    control_plane: ControlPlane,
    binaries: Binaries,
    base_images: Sequence[Path],
    manifests: Sequence[Json],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Node]:
    """Where the processes run, and pods that name it or tolerate its taint."""
    (image,) = {
        container["image"]
        for each in manifests
        if each["kind"] in ("DaemonSet", "Deployment")
        for container in each["spec"]["template"]["spec"]["containers"]
    }
    archive, name = tmp_path_factory.mktemp("image") / "accelet.tar", f"docker.io/library/{image}"
    with Node(control_plane, binaries, name="tenants-real") as node:
        node.start([*base_images, python_image(name, archive)])
        taint = {"spec": {"taints": [{"key": REAL, "effect": "NoSchedule"}]}}
        control_plane.client.send("PATCH", f"/api/v1/nodes/{node.name}", taint)
        yield node


@dataclass(frozen=True)
class Shipped:
    """What is needed to run one of the processes of deploy/."""

    control_plane: ControlPlane
    node: Node
    manifests: Sequence[Json]
    ctr: Path

    def tasks(self) -> Sequence[str]:
        """Sandboxes and containers that run on the node."""
        listed = self._ctr("tasks", "list").splitlines()[1:]
        return [line for line in listed if "RUNNING" in line]

    def _ctr(self, *words: str) -> str:
        return self.node.run([self.ctr, f"--address={SOCKET}", "--namespace=k8s.io", *words])

    def describe(self) -> str:
        """What runs on the node, for people."""
        return "\n".join([*self.tasks(), self._ctr("containers", "list")])

    def own_pods(self) -> int:
        """How many of them are of the processes themselves, at most: a sandbox and a container each."""
        path = (
            f"{COLLECTIONS['Pod'].format(namespace=NAMESPACE)}?fieldSelector=spec.nodeName={self.node.name}"
        )
        return len(json.loads(self.control_plane.client.send("GET", path))["items"])

    def is_idle(self) -> bool:
        return len(self.tasks()) <= 2 * self.own_pods()

    def running(self, kind: str) -> Iterator[RunningProcess]:
        (manifest,) = (each for each in self.manifests if each["kind"] == kind)
        manifest = reaching(manifest, self.control_plane, self.node)
        process = RunningProcess(self.control_plane, self.node, manifest, self.ctr)
        process.start()
        yield process
        process.stop()


@pytest.fixture(scope="package")
def shipped(
    control_plane: ControlPlane, real_node: Node, manifests: Sequence[Json], binaries: Binaries
) -> Shipped:
    return Shipped(control_plane, real_node, manifests, binaries.path("ctr"))


@pytest.fixture(autouse=True)
def idle_node(request: pytest.FixtureRequest) -> Iterator[None]:
    """Pods that are deleted by force run on for a while: the next test does not begin beside them."""
    is_real = "shipped" in request.fixturenames
    shipped: Shipped | None = request.getfixturevalue("shipped") if is_real else None
    yield
    if shipped is not None:
        wait_until("its pods are gone", shipped.is_idle, timeout_s=120, evidence=shipped.describe)


@pytest.fixture(scope="package")
def scheduler(shipped: Shipped) -> Iterator[RunningProcess]:
    yield from shipped.running("Deployment")


@pytest.fixture(scope="package")
def agent(shipped: Shipped) -> Iterator[RunningProcess]:
    """The agent of the real node, whose cards are published."""
    for process in shipped.running("DaemonSet"):
        wait_for_allocatable(shipped.node, TILES, REAL_CARDS * REAL_TILES)
        wait_for_allocatable(shipped.node, CARD, REAL_CARDS * 300)
        yield process
