"""A real cluster for the tests of this folder, started once and left nowhere."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

import pytest

from tests.e2e.cluster import images
from tests.e2e.cluster.binaries import (
    Binaries,
    BinaryMissingError,
    cluster_binaries,
    kubernetes_binaries,
)
from tests.e2e.cluster.binaries import (
    cluster_api_binaries as build_cluster_api,
)
from tests.e2e.cluster.binaries import (
    dra_binaries as build_dra,
)
from tests.e2e.cluster.binaries import (
    filter_binaries as build_filters,
)
from tests.e2e.cluster.binaries import (
    helm_binaries as build_helm,
)
from tests.e2e.cluster.binaries import (
    jobset_binaries as build_jobset,
)
from tests.e2e.cluster.binaries import (
    kueue_binaries as build_kueue,
)
from tests.e2e.cluster.binaries import (
    leader_worker_binaries as build_leader_worker,
)
from tests.e2e.cluster.binaries import (
    promql_binaries as build_promql,
)
from tests.e2e.cluster.building import BuildError, Progress
from tests.e2e.cluster.control_plane import ControlPlane
from tests.e2e.cluster.node import Node
from tests.e2e.cluster.requirements import Machine, RequirementsError, check
from tests.e2e.cluster.workloads import Workloads
from tests.e2e.cluster.workspace import Workspace, open_workspace

# What each fixture stands for, built before the first test: a compiler needs more than a test's time limit.
BUILT: Mapping[str, Callable[[Progress], Binaries]] = {
    "binaries": cluster_binaries,
    "helm_binaries": build_helm,
    "jobset_binaries": build_jobset,
    "leader_worker_binaries": build_leader_worker,
    "kueue_binaries": build_kueue,
    "cluster_api_binaries": build_cluster_api,
    "promql_binaries": build_promql,
    "dra_binaries": build_dra,
    "filter_binaries": build_filters,
    "kubernetes_1_33": partial(kubernetes_binaries, "kubernetes-1.33"),
    "kubernetes_1_37": partial(kubernetes_binaries, "kubernetes-1.37"),
}
OUTCOMES = pytest.StashKey[dict[str, Binaries | str]]()


def pytest_collection_finish(session: pytest.Session) -> None:
    """Builds what the chosen tests use and nobody has built on this machine."""
    used = {name for item in session.items for name in getattr(item, "fixturenames", ())}
    wanted = [name for name in BUILT if name in used and not session.config.option.collectonly]
    progress = _terminal(session.config)
    session.config.stash[OUTCOMES] = {name: _outcome(BUILT[name], progress) for name in wanted}


def _outcome(build: Callable[[Progress], Binaries], progress: Progress) -> Binaries | str:
    """The binaries, or in words why there are none."""
    try:
        check(Machine.this())
        return build(progress)
    except (RequirementsError, BinaryMissingError, BuildError) as error:
        return str(error)


def _binaries(config: pytest.Config, name: str) -> Binaries:
    outcome = config.stash[OUTCOMES][name]
    if isinstance(outcome, str):
        # Every other test would only say the same again.
        pytest.exit(outcome, returncode=pytest.ExitCode.TESTS_FAILED)
    return outcome


def _terminal(config: pytest.Config) -> Progress:
    """Writes lines to the terminal past pytest's capturing."""
    capture = config.pluginmanager.getplugin("capturemanager")
    reporter = config.pluginmanager.getplugin("terminalreporter")

    def write(line: str) -> None:
        with capture.global_and_fixture_disabled():
            reporter.write_line(line)

    return write


@pytest.fixture(scope="session")
def say(pytestconfig: pytest.Config) -> Progress:
    """Shows a line while a test runs: a measurement, how far something is."""
    return _terminal(pytestconfig)


@pytest.fixture(scope="session")
def binaries(pytestconfig: pytest.Config) -> Binaries:
    """All that a cluster of the newest Kubernetes needs."""
    return _binaries(pytestconfig, "binaries")


@pytest.fixture(scope="session")
def helm_binaries(pytestconfig: pytest.Config) -> Binaries:
    """helm."""
    return _binaries(pytestconfig, "helm_binaries")


@pytest.fixture(scope="session")
def dra_binaries(pytestconfig: pytest.Config) -> Binaries:
    """kube-scheduler's own engines for resource claims."""
    return _binaries(pytestconfig, "dra_binaries")


@pytest.fixture(scope="session")
def filter_binaries(pytestconfig: pytest.Config) -> Binaries:
    """kube-scheduler's own filters of nodes."""
    return _binaries(pytestconfig, "filter_binaries")


@pytest.fixture(scope="session")
def promql_binaries(pytestconfig: pytest.Config) -> Binaries:
    """Prometheus' engine of expressions."""
    return _binaries(pytestconfig, "promql_binaries")


@pytest.fixture(scope="session")
def jobset_binaries(pytestconfig: pytest.Config) -> Binaries:
    """JobSet's own controller."""
    return _binaries(pytestconfig, "jobset_binaries")


@pytest.fixture(scope="session")
def leader_worker_binaries(pytestconfig: pytest.Config) -> Binaries:
    """LeaderWorkerSet's own controllers."""
    return _binaries(pytestconfig, "leader_worker_binaries")


@pytest.fixture(scope="session")
def kueue_binaries(pytestconfig: pytest.Config) -> Binaries:
    """Kueue's own manager."""
    return _binaries(pytestconfig, "kueue_binaries")


@pytest.fixture(scope="session")
def cluster_api_binaries(pytestconfig: pytest.Config) -> Binaries:
    """Cluster API's reconcilers."""
    return _binaries(pytestconfig, "cluster_api_binaries")


@pytest.fixture(scope="session")
def kubernetes_1_33(binaries: Binaries, pytestconfig: pytest.Config) -> Binaries:
    """The same with a kubelet 1.33."""
    return binaries | _binaries(pytestconfig, "kubernetes_1_33")


@pytest.fixture(scope="session")
def kubernetes_1_37(binaries: Binaries, pytestconfig: pytest.Config) -> Binaries:
    """The same with a control plane and a kubelet 1.37."""
    return binaries | _binaries(pytestconfig, "kubernetes_1_37")


@pytest.fixture(scope="session")
def workspace(binaries: Binaries) -> Iterator[Workspace]:
    """What this run takes from the machine; all of it is given back at the end."""
    with open_workspace() as workspace:
        yield workspace


@pytest.fixture(scope="session")
def base_images(tmp_path_factory: pytest.TempPathFactory) -> Sequence[Path]:
    """What every node is given: the pause image and a shell."""
    folder = tmp_path_factory.mktemp("images")
    return [images.pause_image(folder), images.busybox_image(folder)]


@pytest.fixture(scope="session")
def cluster(workspace: Workspace, binaries: Binaries) -> Iterator[ControlPlane]:
    """A control plane; `kubectl --kubeconfig` with `cluster.kubeconfig` would be its administrator."""
    with ControlPlane(workspace, binaries) as control_plane:
        control_plane.start()
        yield control_plane


@pytest.fixture(scope="session")
def node(cluster: ControlPlane, binaries: Binaries, base_images: Sequence[Path]) -> Iterator[Node]:
    """A node that is Ready, with a real kubelet."""
    with Node(cluster, binaries) as node:
        node.start(base_images)
        yield node


@pytest.fixture
def workloads(cluster: ControlPlane) -> Workloads:
    """Make objects, wait for pods, read their logs."""
    return cluster.workloads
