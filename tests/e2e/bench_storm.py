"""What `make bench-storm` measures: storms of pods on a real kubelet, with assignments and without."""

import sys
import tempfile
from argparse import ArgumentParser
from pathlib import Path

from tests.e2e.assigning_agent import Matches, assigning_agent
from tests.e2e.bare_requests import asking
from tests.e2e.cluster import images
from tests.e2e.cluster.binaries import cluster_binaries
from tests.e2e.cluster.control_plane import ControlPlane
from tests.e2e.cluster.node import Node
from tests.e2e.cluster.workspace import open_workspace
from tests.e2e.storms import KINDS, Figures, Place, blow, clear


def main(count: int, kinds: list[str]) -> None:
    """Each kind of storm with assignments, then each without, and how much longer the first took."""
    binaries = cluster_binaries(_say)
    with (
        open_workspace() as workspace,
        ControlPlane(workspace, binaries) as cluster,
        Node(cluster, binaries) as node,
        tempfile.TemporaryDirectory(prefix="accelet-") as folder,
    ):
        cluster.start()
        node.start([images.pause_image(workspace.folder), images.busybox_image(workspace.folder)])
        seconds: dict[str, list[float]] = {kind: [] for kind in kinds}
        for is_assigned in (True, False):
            with assigning_agent(cluster, node, Path(folder), is_assigned=is_assigned) as agent:
                for kind in kinds:
                    place = Place(node, agent, cluster.workloads)
                    figures = _blow(kind, count, place, cluster.kubeconfig, is_assigned=is_assigned)
                    seconds[kind].append(figures.seconds)
    for kind, (assigned, plain) in seconds.items():
        _say(f"{kind:32}  {assigned / plain:.2f} times the time without assignments")


def _blow(kind: str, count: int, place: Place, kubeconfig: Path, *, is_assigned: bool) -> Figures:
    run, own_count = KINDS[kind]
    assignment = "annotations" if is_assigned else "none"
    with asking(place.node, kubeconfig, f"{kind} {assignment}") as bare:
        figures = blow(run, own_count or count, place)
        answers = bare.answers()
    clear(place.workloads)
    _say(f"assignment: {assignment:11}  {kind:32} {figures}")
    _say(f"    meanwhile {answers}")
    if is_assigned:
        _say_histogram(figures.matches)
    return figures


def _say_histogram(matches: Matches) -> None:
    for bound_s, count in sorted(matches.histogram.items()):
        _say(f"    {count:4} matches within {1000 * bound_s:6.1f} ms")


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    parser = ArgumentParser(description=__doc__)
    parser.add_argument("--pods", type=int, default=110)
    parser.add_argument("kinds", nargs="*", default=list(KINDS), metavar="kind", help=", ".join(KINDS))
    chosen = parser.parse_args()
    main(chosen.pods, chosen.kinds)
