"""What `make bench-storm` measures: storms of pods on a real kubelet, with assignments and without."""

import sys
import tempfile
from pathlib import Path

from tests.e2e.cluster import images
from tests.e2e.cluster.binaries import cluster_binaries
from tests.e2e.cluster.control_plane import ControlPlane
from tests.e2e.cluster.node import Node
from tests.e2e.cluster.workspace import open_workspace
from tests.e2e.storms import blow, clear, generated_names, recurring_names, storm_agent

KINDS = {"generated names": generated_names, "names that may recur": recurring_names}


def main(count: int) -> None:
    binaries = cluster_binaries(_say)
    with (
        open_workspace() as workspace,
        ControlPlane(workspace, binaries) as cluster,
        Node(cluster, binaries) as node,
        tempfile.TemporaryDirectory(prefix="accelet-") as folder,
    ):
        cluster.start()
        node.start([images.pause_image(workspace.folder), images.busybox_image(workspace.folder)])
        for is_assigned in (True, False):
            with storm_agent(cluster, node, Path(folder), is_assigned=is_assigned) as agent:
                for kind, run in KINDS.items():
                    figures = blow(run, count, agent, cluster.workloads)
                    _say(f"assignment: {'annotations' if is_assigned else 'none':11}  {kind:22} {figures}")
                    for bound_s, matches in sorted(figures.histogram.items()) if is_assigned else ():
                        _say(f"    {matches:4} matches within {1000 * bound_s:6.1f} ms")
                    clear(cluster.workloads)


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 110)
