"""Pods of scenarios as the API server takes them, and what their containers print."""

import re
from pathlib import Path

from accelet.fakekubelet.pods import Container, Pod
from accelet.fakekubelet.scenario.format import Admit
from tests.e2e.cluster.https_client import Json
from tests.e2e.cluster.images import BUSYBOX_IMAGE
from tests.e2e.scenarios.looking import Seen

SHOW = (
    "echo \"view: $(env | grep ^DEVICES_ | tr '\\n' ' ')"
    "files: $(ls /dev | grep -E '^[a-z]+-[0-9]+$' | tr '\\n' ' ')\""
)


def manifest(action: Admit, node: str, folder: Path) -> Json:
    """Bound to its node from the start, as the scheduler would have done it."""
    pod = action.as_pod()
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": pod.name, "namespace": pod.namespace},
        "spec": {
            "nodeName": node,
            "hostNetwork": True,
            # A container that ends with 1 is restarted, and a pod whose containers end with 0 has succeeded.
            "restartPolicy": "OnFailure",
            "terminationGracePeriodSeconds": 1,
            "initContainers": [_container(pod, each) for each in pod.init_containers],
            "containers": [_container(pod, each) for each in pod.containers],
            "volumes": [{"name": "folder", "hostPath": {"path": str(folder)}}],
        },
    }


def _container(pod: Pod, container: Container) -> Json:
    end = f"/folder/end-{pod.name}-{container.name}"
    stay = f"while [ ! -e {end} ]; do sleep 0.2; done; code=$(cat {end}); rm {end}; exit $code"
    spec: Json = {
        "name": container.name,
        "image": BUSYBOX_IMAGE,
        "imagePullPolicy": "Never",
        "command": ["sh", "-c", SHOW if pod.is_plain_init(container.name) else f"{SHOW}; {stay}"],
        "resources": {"limits": {name: str(count) for name, count in container.limits.items()}},
        "volumeMounts": [{"name": "folder", "mountPath": "/folder"}],
    }
    return spec | ({"restartPolicy": container.restart_policy} if container.restart_policy else {})


def parse_seen(log: str) -> Seen:
    """What a container printed of itself in its last run."""
    found = re.findall(r"^view: (.*)files: (.*)$", log, re.MULTILINE)
    variables, files = found[-1]
    pairs = [word.split("=", 1) for word in variables.split()]
    return Seen({name: frozenset(ids.split(",")) for name, ids in pairs}, frozenset(files.split()))
