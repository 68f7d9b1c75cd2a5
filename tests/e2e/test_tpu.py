"""A v5e host of eight chips on a real kubelet: pods get boxes of chips and see what they were given."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.agent import AGENT, device_pod, wait_for_allocatable
from tests.e2e.cluster.node import Node
from tests.e2e.cluster.waiting import wait_until
from tests.e2e.cluster.workloads import Workloads
from tests.e2e.cluster.workspace import Workspace
from tests.e2e.tpu_host import tpu_chips

TPU = "google.com/tpu"

CONFIG = """\
version: v1
resources:
- {{name: google.com/tpu, backend: tpu, mode: sub-host, log_folder: {logs}}}
"""
SHOW = "ls /dev/vfio | xargs echo files; env | grep TPU_; touch /tmp/tpu_logs/seen && echo end; sleep 3600"
HALVES = ({"3", "2", "4", "7"}, {"1", "5", "6", "0"})
"""The VFIO groups of each half of the host, in whatever order."""


@pytest.fixture(scope="module", autouse=True)
def served(node: Node, workspace: Workspace, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """An agent that sees the chips' tree; the node has their device files where nobody else does."""
    root = tmp_path_factory.mktemp("v5e-8")
    with tpu_chips(node, workspace, root):
        config = root / "config.yaml"
        config.write_text(CONFIG.format(logs=root / "logs"))
        places: list[str | Path] = ["--host-root", root, "--config", config]
        agent = node.process(
            "tpu-agent", [AGENT, "agent", *places, "--node-name", node.name, "--http", "127.0.0.1:0"]
        )
        with agent.running():
            wait_for_allocatable(node, TPU, 8)
            yield


def test_two_pods_of_four_chips_see_disjoint_halves_and_their_environment(workloads: Workloads) -> None:
    seen, ports = [], []
    for name in ("left", "right"):
        workloads.apply(device_pod(name, {TPU: 4}, script=SHOW))
        workloads.wait_for_phase(name, "Running")
        view = _own_view(workloads, name)
        seen.append(set(view[0].split()[1:]) - {"vfio"})
        assert "TPU_CHIPS_PER_PROCESS_BOUNDS=1,4,1" in view
        assert "TPU_PROCESS_BOUNDS=1,1,1" in view
        assert "TPU_TOPOLOGY=1x4" in view
        assert "TPU_ACCELERATOR_TYPE=v5litepod-4" in view
        (told,) = (line for line in view if line.startswith("TPU_RUNTIME_METRICS_PORTS="))
        ports += told.partition("=")[2].split(",")

    assert seen in ([*HALVES], [*reversed(HALVES)])
    assert sorted(ports) == [str(port) for port in range(8431, 8439)]
    for name in ("left", "right"):
        workloads.delete_pod(name)


def test_pod_that_asks_for_three_chips_reads_why_not(workloads: Workloads) -> None:
    workloads.apply(device_pod("three", {TPU: 3}, script=SHOW))
    pod = workloads.wait_for_phase("three", "Failed")

    assert pod["status"]["reason"] == "UnexpectedAdmissionError"
    assert not pod["status"].get("containerStatuses"), "by that a task knows that no program ran"
    assert (
        "3 TPU chips of this node cannot be used together: ask for 1, 2, 4 or 8" in pod["status"]["message"]
    )
    workloads.delete_pod("three")


def _own_view(workloads: Workloads, pod: str) -> list[str]:
    """What the container printed of itself, line by line; its last word comes after its log folder."""
    return wait_until(
        f"{pod} has printed its view",
        lambda: text.splitlines() if "end\n" in (text := workloads.log(pod)) else None,
        timeout_s=20,
    )
