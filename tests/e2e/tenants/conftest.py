"""One control plane for all attacks: deploy/ installed on it, a scheduler, nodes that publish cards."""

from collections.abc import Iterator, Sequence

import pytest

from accelet.accelerators.device import UnitId
from accelet.assignments.nodecards import NodeCard
from tests.e2e.cluster.binaries import Binaries
from tests.e2e.cluster.control_plane import ControlPlane
from tests.e2e.cluster.https_client import Json
from tests.e2e.cluster.workspace import Workspace
from tests.e2e.kustomize import DEPLOY, build
from tests.e2e.simulated_nodes import card_nodes
from tests.e2e.tenants.installation import (
    CARD,
    SchedulerProcess,
    Tenant,
    installed,
    make_tenant,
    remove_tenant,
    scheduler_kubeconfig,
)

NODES = ("tenants-a", "tenants-b")


def two_tile_cards(count: int = 4) -> list[NodeCard]:
    return [
        NodeCard(
            UnitId(f"0000-0{index}-00.0"), CARD, card=f"card{index}", tiles=2, memory_bytes=2**34, shares=300
        )
        for index in range(1, count + 1)
    ]


@pytest.fixture(scope="package")
def manifests(binaries: Binaries) -> Sequence[Json]:
    """What deploy/ installs."""
    return build(DEPLOY, binaries.path("kubectl"))


@pytest.fixture(scope="package")
def control_plane(
    workspace: Workspace, binaries: Binaries, manifests: Sequence[Json]
) -> Iterator[ControlPlane]:
    """One of its own: the policies would judge other tests."""
    with ControlPlane(workspace.part("tenants"), binaries) as control_plane:
        control_plane.start()
        nodes = dict.fromkeys(NODES, two_tile_cards())
        with installed(control_plane, manifests), card_nodes(control_plane.client, nodes):
            yield control_plane


@pytest.fixture(scope="package")
def scheduler(
    control_plane: ControlPlane, manifests: Sequence[Json], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SchedulerProcess]:
    """With the settings that are shipped."""
    folder = tmp_path_factory.mktemp("scheduler")
    (settings,) = (
        each["data"]["config.yaml"]
        for each in manifests
        if (each["kind"], each["metadata"]["name"]) == ("ConfigMap", "accelet-scheduler")
    )
    (folder / "config.yaml").write_text(settings)
    process = SchedulerProcess(
        scheduler_kubeconfig(control_plane, folder / "kubeconfig"),
        folder / "config.yaml",
        folder / "scheduler.log",
    )
    process.start()
    yield process
    process.stop()


@pytest.fixture
def mallory(control_plane: ControlPlane) -> Iterator[Tenant]:
    """The tenant who attacks."""
    tenant = make_tenant(control_plane, "mallory")
    yield tenant
    remove_tenant(control_plane, tenant)


@pytest.fixture
def alice(control_plane: ControlPlane) -> Iterator[Tenant]:
    """A tenant who only wants her pods placed."""
    tenant = make_tenant(control_plane, "alice")
    yield tenant
    remove_tenant(control_plane, tenant)
