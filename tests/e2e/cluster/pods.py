"""The pods that tests of the cluster run."""

from tests.e2e.cluster.https_client import Json
from tests.e2e.cluster.images import BUSYBOX_IMAGE


def shell_pod(
    name: str,
    script: str,
    *,
    node_name: str | None = None,
    host_network: bool = True,
    limits: Json | None = None,
) -> Json:
    """A pod with one container "shell" that runs a script of busybox's shell, never restarted.

    `limits` are the container's resources: {"gpu.intel.com/i915": "1"}.
    """
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {
            "restartPolicy": "Never",
            "hostNetwork": host_network,
            "terminationGracePeriodSeconds": 0,
            "nodeSelector": {"kubernetes.io/hostname": node_name} if node_name else {},
            "containers": [
                {
                    "name": "shell",
                    "image": BUSYBOX_IMAGE,
                    "imagePullPolicy": "Never",
                    "command": ["sh", "-c", script],
                    "resources": {"limits": limits or {}},
                }
            ],
        },
    }
