"""The image that is shipped runs."""

from pathlib import Path

import pytest

from release.places import PACKAGES
from tests.e2e.cluster.node import Node
from tests.e2e.cluster.python_image import python_image
from tests.e2e.cluster.workloads import Workloads

# The first time, the project's dependencies are downloaded.
pytestmark = pytest.mark.timeout(600)

IMPORTS = """
import accelet, ctypes, google.auth, grpc, kubernetes.client, numpy, ssl, watchdog.observers, yaml
print(accelet.__file__, ssl.create_default_context().get_ca_certs() != [])
"""
IMAGE = "accelet.dev/e2e/agent:1"


def test_command_of_the_project_runs_in_a_pod(node: Node, workloads: Workloads, tmp_path: Path) -> None:
    node.containerd.import_image(python_image(IMAGE, tmp_path / "agent.tar"))
    agent = {"name": "agent", "image": IMAGE, "imagePullPolicy": "Never", "args": ["--version"]}
    python = {
        **agent,
        "name": "python",
        "command": ["python", "-c"],
        "args": [IMPORTS],
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
    assert workloads.log("agent", "python").split() == [f"/{PACKAGES}/accelet/__init__.py", "True"]
    workloads.delete_pod("agent")
