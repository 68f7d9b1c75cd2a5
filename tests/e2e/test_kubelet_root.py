"""A real kubelet with another --root-dir, as that of k0s: devices by both ways, and what the doctor says."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
import yaml

from tests.e2e.agent import AGENT, device_pod, wait_for_allocatable, write_cards
from tests.e2e.cluster.binaries import Binaries
from tests.e2e.cluster.control_plane import ControlPlane
from tests.e2e.cluster.node import Node
from tests.e2e.cluster.node_namespace import CommandFailedError
from tests.e2e.cluster.waiting import wait_until
from tests.e2e.cluster.workloads import Workloads
from tests.e2e.kustomize import DEPLOY

ROOT = Path("/run/k0s/kubelet")
FIXED = Path("/var/lib/kubelet")
BY_PLUGIN = "example.com/gpu"
SLICES = "/apis/resource.k8s.io/v1/resourceslices"
CONFIG = """\
version: v1
resources:
  - {{name: gpu.intel.com/i915, backend: simulated, file: {folder}/claimed.yaml, serve: dra}}
  - {{name: {plugin}, backend: simulated, file: {folder}/asked.yaml}}
"""


@pytest.fixture
def moved(cluster: ControlPlane, binaries: Binaries, base_images: Sequence[Path]) -> Iterator[Node]:
    with Node(cluster, binaries, name="node-root", kubelet_root=ROOT) as node:
        node.start(base_images)
        yield node


def words(
    cluster: ControlPlane, node: Node, folder: Path, command: str, *more: str | Path
) -> list[str | Path]:
    places: list[str | Path] = [
        "--config",
        folder / "config.yaml",
        "--node-name",
        node.name,
        "--http",
        "127.0.0.1:0",
    ]
    return [AGENT, command, *places, "--kubeconfig", cluster.kubeconfig, *more]


def test_a_kubelet_with_another_root_is_served_by_both_ways(
    cluster: ControlPlane, moved: Node, workloads: Workloads, tmp_path: Path
) -> None:
    write_cards(tmp_path / "claimed.yaml", 2)
    write_cards(tmp_path / "asked.yaml", 2, first_bus=40)
    (tmp_path / "config.yaml").write_text(CONFIG.format(folder=tmp_path, plugin=BY_PLUGIN))
    look = words(cluster, moved, tmp_path, "doctor", "--look-at", "node")
    with pytest.raises(CommandFailedError, match="give that as --kubelet-root-dir") as found:
        moved.run(look)
    assert f"{FIXED}/plugins_registry" in str(found.value)

    root = ("--kubelet-root-dir", ROOT)
    agent = moved.process("agent-root", words(cluster, moved, tmp_path, "agent", *root))
    classes = list(yaml.safe_load_all((DEPLOY / "agent-dra" / "classes.yaml").read_text()))
    with workloads.applied(classes), agent.running():
        wait_for_allocatable(moved, BY_PLUGIN, 2)
        wait_until(
            "the driver is registered",
            lambda: any(
                '"registered"' in line and "gpu.accelet.dev" in line for line in agent.log_text().splitlines()
            ),
            timeout_s=60,
            depends_on=[agent],
            evidence=agent.log_text,
        )
        # Tiles through DRA, under their old name; and cards of the device plugin.
        for name, resource in (("claimed", "gpu.intel.com/tiles"), ("asked", BY_PLUGIN)):
            workloads.apply(
                device_pod(name, {resource: 1}, nodeSelector={"kubernetes.io/hostname": moved.name})
            )
            workloads.wait_for_phase(name, "Running", timeout_s=90)
        record = moved.path(ROOT / "plugins/gpu.accelet.dev/checkpoint.json")
        assert "claimed" in record.read_text()
        held = json.loads(moved.path(FIXED / "device-plugins/kubelet_internal_checkpoint").read_text())
        assert [one["ResourceName"] for one in held["Data"]["PodDeviceEntries"]] == [BY_PLUGIN]
        assert sorted(path.name for path in moved.path(FIXED).iterdir()) == ["device-plugins"]
        explained = json.loads(
            moved.run(words(cluster, moved, tmp_path, "explain", *root, "--json", "default/claimed"))
        )
        assert explained["claims"]
        for name in ("claimed", "asked"):
            workloads.delete_pod(name)
