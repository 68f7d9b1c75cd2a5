"""The nodes that scenarios are played on: a plain one, and one that sees two NUMA nodes."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.e2e.cluster.binaries import Binaries
from tests.e2e.cluster.control_plane import ControlPlane
from tests.e2e.cluster.node import Node

SYSTEM: Final = Path("/sys/devices/system")
QUICK_STATUS: Final = {"nodeStatusUpdateFrequency": "1s"}
ALIGNING: Final = {"topologyManagerPolicy": "best-effort"}
"""Under its default policy a kubelet does not look where devices are."""


@dataclass(frozen=True, slots=True)
class Site:
    """Where a scenario is played: a node, and the control plane that its pods come from."""

    node: Node
    cluster: ControlPlane


@contextmanager
def plain_node(
    cluster: ControlPlane, binaries: Binaries, name: str, images: Sequence[Path]
) -> Iterator[Site]:
    """A node with the kubelet's defaults, but for how often it tells its status."""
    with Node(cluster, binaries, name=name, kubelet_config=QUICK_STATUS) as node:
        node.start(images)
        yield Site(node, cluster)


@contextmanager
def two_numa_nodes(
    cluster: ControlPlane, binaries: Binaries, name: str, images: Sequence[Path], folder: Path
) -> Iterator[Site]:
    """A node that aligns devices, and takes its machine for one with two NUMA nodes."""
    with Node(cluster, binaries, name=name, kubelet_config=QUICK_STATUS | ALIGNING) as node:
        pretend_two_numa_nodes(node, folder)
        node.start(images)
        yield Site(node, cluster)


def pretend_two_numa_nodes(node: Node, folder: Path) -> None:
    """Splits the processors in two halves, before the kubelet starts. `folder` holds what it reads instead.

    cadvisor learns of NUMA nodes from /sys/devices/system/node alone, and the kubelet from cadvisor.
    """
    processors = sorted(
        path.name for path in (SYSTEM / "cpu").glob("cpu[0-9]*") if (path / "topology").exists()
    )
    half = len(processors) // 2
    assert half, "a machine with one processor cannot be taken for two NUMA nodes"
    for number, own in enumerate((processors[:half], processors[half:])):
        part = folder / f"node{number}"
        part.mkdir(parents=True)
        for name in own:
            (part / name).symlink_to(SYSTEM / "cpu" / name)
        (part / "meminfo").write_text(f"Node {number} MemTotal:       1048576 kB\n")
        (part / "distance").write_text("10 20\n" if number == 0 else "20 10\n")
        (part / "hugepages").mkdir()
    node.run(["mount", "--bind", folder, SYSTEM / "node"])
