"""A real cluster for the tests of this folder, started once and left nowhere."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from tests.e2e.cluster import images
from tests.e2e.cluster.binaries import Binaries, BinaryMissingError, cluster_binaries
from tests.e2e.cluster.building import BuildError
from tests.e2e.cluster.control_plane import ControlPlane
from tests.e2e.cluster.node import Node
from tests.e2e.cluster.requirements import Machine, RequirementsError, check
from tests.e2e.cluster.workloads import Workloads
from tests.e2e.cluster.workspace import Workspace, open_workspace


@pytest.fixture(scope="session")
def say(pytestconfig: pytest.Config) -> Callable[[str], None]:
    """Writes a line to the terminal past pytest's capturing: building takes minutes."""
    capture = pytestconfig.pluginmanager.getplugin("capturemanager")
    reporter = pytestconfig.pluginmanager.getplugin("terminalreporter")

    def write(line: str) -> None:
        with capture.global_and_fixture_disabled():
            reporter.write_line(line)

    return write


@pytest.fixture(scope="session")
def binaries(say: Callable[[str], None]) -> Binaries:
    """The binaries of the cluster; built when nobody has built them on this machine."""
    try:
        check(Machine.this())
        return cluster_binaries(say)
    except (RequirementsError, BinaryMissingError, BuildError) as error:
        lacking = str(error)
    # Outside the clause: pytest would show what it was in the middle of as well.
    pytest.fail(lacking, pytrace=False)


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
