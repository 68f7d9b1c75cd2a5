"""The project runs in a container made of this machine's own Python."""

from pathlib import Path

import pytest

from tests.e2e.cluster.node import Node
from tests.e2e.cluster.python_image import VERSION, python_image
from tests.e2e.cluster.workloads import Workloads

REPOSITORY = Path(__file__).parent.parent.parent
# The first time, the project's dependencies are downloaded.
pytestmark = pytest.mark.timeout(600)

IMAGE = "accelet.dev/e2e/agent:1"


def test_command_of_the_project_runs_in_a_pod(node: Node, workloads: Workloads, tmp_path: Path) -> None:
    node.containerd.import_image(python_image(IMAGE, REPOSITORY, tmp_path / "agent.tar"))
    agent = {"name": "agent", "image": IMAGE, "imagePullPolicy": "Never", "args": ["--version"]}
    python = {
        **agent,
        "name": "python",
        "command": ["python", "-c"],
        "args": ["import grpc, ssl, yaml, accelet; print(accelet.__file__)"],
    }
    workloads.apply(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "agent"},
            "spec": {"restartPolicy": "Never", "hostNetwork": True, "containers": [agent, python]},
        }
    )

    workloads.wait_for_phase("agent", "Succeeded")

    assert workloads.log("agent", "agent").strip()
    assert workloads.log("agent", "python").startswith(f"/usr/local/lib/{VERSION}/")
    workloads.delete_pod("agent")
