"""A cluster to look at by hand: `python -m tests.e2e.hold` runs until Ctrl-C and leaves nothing."""

import signal
import sys

from tests.e2e.cluster import images
from tests.e2e.cluster.binaries import cluster_binaries
from tests.e2e.cluster.control_plane import ControlPlane
from tests.e2e.cluster.node import Node
from tests.e2e.cluster.requirements import Machine, RequirementsError, check
from tests.e2e.cluster.workspace import open_workspace

STOP_SIGNALS = {signal.SIGINT, signal.SIGTERM}


def main() -> int:
    """Returns the exit code."""
    try:
        check(Machine.this())
    except RequirementsError as error:
        _say(str(error))
        return 1
    binaries = cluster_binaries(_say)
    with (
        open_workspace() as workspace,
        ControlPlane(workspace, binaries) as control_plane,
        Node(control_plane, binaries) as node,
    ):
        control_plane.start()
        node.start([images.pause_image(workspace.folder), images.busybox_image(workspace.folder)])
        _say(f"folder: {workspace.folder}")
        _say(f"administrator: {control_plane.kubeconfig}")
        _say(f"a shell on the node: {' '.join(node.command(['sh']))}")
        _say("ready; Ctrl-C ends it")
        # Blocked so that they end the waiting and not the program; no process is started after this.
        signal.pthread_sigmask(signal.SIG_BLOCK, STOP_SIGNALS)
        signal.sigwait(STOP_SIGNALS)
    return 0


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
