"""The cluster itself: it works, it bears what tests do to it, it leaves nothing."""

import json
from collections.abc import Sequence
from pathlib import Path

from tests.e2e.cluster import cgroups
from tests.e2e.cluster.binaries import Binaries
from tests.e2e.cluster.control_plane import ControlPlane
from tests.e2e.cluster.node import Node
from tests.e2e.cluster.node_namespace import KERNEL_SETTINGS
from tests.e2e.cluster.pods import shell_pod
from tests.e2e.cluster.waiting import wait_until
from tests.e2e.cluster.workloads import Workloads


def running_container(workloads: Workloads, pod: str) -> tuple[str, str]:
    """The id and the start of the pod's one container, which change when it is started anew."""
    (status,) = workloads.pod(pod)["status"]["containerStatuses"]
    return status["containerID"], status["state"]["running"]["startedAt"]


def test_node_is_ready_and_runs_the_pinned_kubelet(node: Node, cluster: ControlPlane) -> None:
    info = node.object()["status"]["nodeInfo"]
    server = json.loads(cluster.client.send("GET", "/version"))

    assert node.is_ready()
    assert info["kubeletVersion"] == server["gitVersion"]
    assert info["kubeletVersion"].startswith("v1.36.")
    assert info["containerRuntimeVersion"].startswith("containerd://")


def test_pod_runs_and_its_log_is_read_in_both_ways(node: Node, workloads: Workloads) -> None:
    workloads.apply(shell_pod("hello", "echo hello from $(hostname)"))

    pod = workloads.wait_for_phase("hello", "Succeeded")

    assert workloads.log("hello").startswith("hello from ")
    assert "stdout F hello from " in node.container_log(pod, "shell")
    workloads.delete_pod("hello")


def test_pod_without_the_machines_network_has_an_address_and_loopback(
    node: Node, workloads: Workloads
) -> None:
    workloads.apply(shell_pod("own-network", "ip address show; sleep 3600", host_network=False))

    pod = workloads.wait_for_phase("own-network", "Running")

    address = pod["status"]["podIP"]
    assert address != node.address
    assert wait_until(
        "the pod shows its address", lambda: address in workloads.log("own-network"), timeout_s=10
    )
    workloads.delete_pod("own-network")


def test_kubelet_tells_metrics_and_pods(node: Node, workloads: Workloads) -> None:
    workloads.apply(shell_pod("seen", "sleep 3600"))
    workloads.wait_for_phase("seen", "Running")

    assert "kubelet_running_pods" in node.metrics()
    assert "seen" in [pod["metadata"]["name"] for pod in node.pods()]
    workloads.delete_pod("seen")


def test_command_on_the_node_sees_the_kubelets_own_folders(node: Node) -> None:
    assert "kubelet.sock" in node.run(["ls", "/var/lib/kubelet/device-plugins"])
    assert node.path("/var/lib/kubelet/device-plugins/kubelet.sock").is_socket()
    assert not Path("/var/lib/kubelet/device-plugins").exists()


def test_kubelet_meets_copies_of_the_kernel_settings_it_changes(node: Node) -> None:
    for setting in KERNEL_SETTINGS:
        assert node.path(setting).stat().st_dev != setting.stat().st_dev
    assert node.path("/proc/sys/kernel/panic").read_text().strip() == "10"


def test_process_on_the_node_is_started_and_ended(node: Node) -> None:
    process = node.process(
        "a shell", ["sh", "-c", "trap 'echo bye; exit 3' TERM; echo hi; while :; do sleep 0.1; done"]
    )
    process.start()
    wait_until("it said hi", lambda: "hi" in process.log_text(), timeout_s=10, depends_on=[process])

    assert process.terminate() == 3
    assert process.log_text() == "hi\nbye\n"


def test_pod_survives_a_killed_kubelet(node: Node, workloads: Workloads) -> None:
    workloads.apply(shell_pod("survivor", "sleep 3600"))
    workloads.wait_for_phase("survivor", "Running")
    before = running_container(workloads, "survivor")

    node.kubelet.process.kill()
    node.kubelet.start()
    node.wait_until_ready()

    assert running_container(workloads, "survivor") == before
    workloads.delete_pod("survivor")


def test_pod_survives_a_killed_containerd(node: Node, workloads: Workloads) -> None:
    workloads.apply(shell_pod("survivor", "sleep 3600"))
    workloads.wait_for_phase("survivor", "Running")
    before = running_container(workloads, "survivor")

    node.containerd.process.kill()
    node.containerd.start()

    workloads.apply(shell_pod("afterwards", "echo still here"))
    workloads.wait_for_phase("afterwards", "Succeeded")
    assert running_container(workloads, "survivor") == before
    workloads.delete_pod("survivor")
    workloads.delete_pod("afterwards")


def test_api_server_comes_back_on_its_port(node: Node, cluster: ControlPlane, workloads: Workloads) -> None:
    cluster.api_server.kill()
    assert cluster.client.try_get("/readyz") is None

    cluster.start_api_server()

    assert node.object()["metadata"]["name"] == node.name
    workloads.apply(shell_pod("after-restart", "true"))
    workloads.wait_for_phase("after-restart", "Succeeded")
    workloads.delete_pod("after-restart")


def test_second_node_lives_beside_the_first_and_leaves_nothing(
    node: Node,
    cluster: ControlPlane,
    workloads: Workloads,
    binaries: Binaries,
    base_images: Sequence[Path],
) -> None:
    mounts = Path("/proc/self/mounts").read_text()
    with Node(cluster, binaries, name="node-2", kubelet_config={"maxPods": 7}) as second:
        second.start(base_images)
        assert second.object()["status"]["capacity"]["pods"] == "7"
        workloads.apply(shell_pod("on-second", "sleep 3600", node_name="node-2", host_network=False))
        workloads.wait_for_phase("on-second", "Running")
        assert cgroups.members(second.cgroup)

    assert not cgroups.exists(second.cgroup)
    assert Path("/proc/self/mounts").read_text() == mounts
    assert not Path("/sys/class/net", second.bridge.name).exists()
    assert not second.kubelet.process.is_running
    assert second.object() == {}
    assert node.is_ready()
