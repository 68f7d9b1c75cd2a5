"""The agent on a real node: its resources come up, and a pod is given what it asked for."""

import sys
from pathlib import Path

from tests.e2e.cluster.node import Node
from tests.e2e.cluster.pods import shell_pod
from tests.e2e.cluster.waiting import wait_until
from tests.e2e.cluster.workloads import Workloads

RESOURCE = "gpu.intel.com/max-tile"
CONFIG = f"""\
version: v1
resources:
  - name: {RESOURCE}
    backend: simulated
    unit: tile
    cards:
      - {{pci: "0000:83:00.0", card: card2, device_id: "0x0bd5", tiles: 2,
         nodes: [{{path: /dev/null, mount_path: /dev/dri/card2}}]}}
"""


def test_pod_is_given_a_tile_of_a_simulated_card(node: Node, workloads: Workloads, tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(CONFIG)
    agent = node.process(
        "agent",
        [sys.executable, "-m", "accelet", "agent", "--config", config, "--http", "127.0.0.1:0"],
    )
    agent.start()
    wait_until(
        "the node offers two tiles",
        lambda: node.object()["status"]["allocatable"].get(RESOURCE) == "2",
        timeout_s=60,
        depends_on=[agent],
    )

    workloads.apply(shell_pod("wants-a-tile", "env; ls -l /dev/dri", limits={RESOURCE: "1"}))
    workloads.wait_for_phase("wants-a-tile", "Succeeded")

    log = workloads.log("wants-a-tile")
    assert "ZE_AFFINITY_MASK=" in log
    assert "card2" in log
    workloads.delete_pod("wants-a-tile")
    assert agent.terminate() == 0
