"""Other Kubernetes versions than the newest pinned one run in the same cluster or the same way."""

import json
from collections.abc import Sequence
from pathlib import Path

from tests.e2e.cluster.binaries import Binaries
from tests.e2e.cluster.control_plane import ControlPlane
from tests.e2e.cluster.node import Node
from tests.e2e.cluster.pods import shell_pod
from tests.e2e.cluster.workspace import Workspace


def test_kubelet_three_versions_behind_runs_pods(
    cluster: ControlPlane, kubernetes_1_33: Binaries, base_images: Sequence[Path]
) -> None:
    with Node(cluster, kubernetes_1_33, name="node-1-33") as node:
        node.start(base_images)
        version = node.object()["status"]["nodeInfo"]["kubeletVersion"]
        cluster.workloads.apply(shell_pod("on-1-33", "echo hello", node_name=node.name))
        cluster.workloads.wait_for_phase("on-1-33", "Succeeded")
        cluster.workloads.delete_pod("on-1-33")

    assert version.startswith("v1.33.")


def test_next_version_runs_pods_under_its_own_control_plane(
    workspace: Workspace, kubernetes_1_37: Binaries, base_images: Sequence[Path]
) -> None:
    with (
        ControlPlane(workspace.part("kubernetes-1.37"), kubernetes_1_37) as control_plane,
        Node(control_plane, kubernetes_1_37, name="node-1-37") as node,
    ):
        control_plane.start()
        node.start(base_images)
        server = json.loads(control_plane.client.send("GET", "/version"))
        kubelet = node.object()["status"]["nodeInfo"]["kubeletVersion"]
        control_plane.workloads.apply(shell_pod("on-1-37", "echo hello"))
        control_plane.workloads.wait_for_phase("on-1-37", "Succeeded")

    assert server["gitVersion"] == kubelet
    assert kubelet.startswith("v1.37.")
