"""The agent as `daemonset.yaml` runs it, on a node of the test cluster."""

import json
from datetime import UTC, datetime
from pathlib import Path

import yaml

from tests.e2e.agent_log import LogLine, parse_log
from tests.e2e.cluster.binaries import Binaries
from tests.e2e.cluster.containerd import SOCKET
from tests.e2e.cluster.https_client import Json
from tests.e2e.cluster.node import Node
from tests.e2e.cluster.python_image import python_image
from tests.e2e.cluster.waiting import wait_until
from tests.e2e.cluster.workloads import COLLECTIONS, Workloads

PROJECT = Path(__file__).parent.parent.parent
MANIFEST = PROJECT / "daemonset.yaml"
RESTARTED_AT = "kubectl.kubernetes.io/restartedAt"


def read_manifest(path: Path) -> list[Json]:
    return list(yaml.safe_load_all(path.read_text()))


class AgentPod:
    """The DaemonSet and its one pod.

    Only two things differ from the manifest: the image has the manifest's name and another content, made
    without Docker, and the ConfigMap holds what this node can serve.
    """

    def __init__(self, node: Node, binaries: Binaries, workloads: Workloads) -> None:
        self.config_map, self.daemonset = read_manifest(MANIFEST)
        self.namespace: str = self.daemonset["metadata"]["namespace"]
        self.name: str = self.daemonset["metadata"]["name"]
        self.image: str = self.daemonset["spec"]["template"]["spec"]["containers"][0]["image"]
        self.node = node
        self._ctr = binaries.path("ctr")
        self.workloads = workloads

    def start(self, config: str, folder: Path) -> Json:
        """Applies the manifest with this configuration; returns the pod once it is ready."""
        archive = python_image(f"docker.io/library/{self.image}", folder / "agent.tar")
        self.node.containerd.import_image(archive)
        self.configure(config)
        self.workloads.apply(self.daemonset)
        return self.wait_until_ready()

    def configure(self, config: str) -> None:
        self.workloads.apply({**self.config_map, "data": {"config.yaml": config}})

    def restart(self) -> None:
        """What `kubectl rollout restart` does."""
        annotations = {RESTARTED_AT: datetime.now(UTC).isoformat()}
        path = f"{COLLECTIONS['DaemonSet'].format(namespace=self.namespace)}/{self.name}"
        change = {"spec": {"template": {"metadata": {"annotations": annotations}}}}
        self.workloads.client.send("PATCH", path, change)

    def pods(self) -> list[Json]:
        """The DaemonSet's pods, those about to go included."""
        labels = self.daemonset["spec"]["selector"]["matchLabels"]
        selector = ",".join(f"{key}={value}" for key, value in labels.items())
        path = COLLECTIONS["Pod"].format(namespace=self.namespace)
        answer: Json = json.loads(self.workloads.client.send("GET", f"{path}?labelSelector={selector}"))
        items: list[Json] = answer["items"]
        return items

    def ready_pod(self, *, other_than: str = "") -> Json | None:
        """The pod that is ready and stays, unless it has the name of one that does not count."""
        for pod in self.pods():
            conditions = {each["type"]: each["status"] for each in pod["status"].get("conditions", [])}
            is_going = "deletionTimestamp" in pod["metadata"]
            if conditions.get("Ready") == "True" and not is_going and pod["metadata"]["name"] != other_than:
                return pod
        return None

    def wait_until_ready(self, *, other_than: str = "", timeout_s: float = 90) -> Json:
        return wait_until(
            f"a pod of {self.name} is ready",
            lambda: self.ready_pod(other_than=other_than),
            timeout_s=timeout_s,
            evidence=self._describe,
        )

    def delete_at_once(self, pod: Json) -> None:
        """As `kubectl delete pod --grace-period=0 --force`: SIGKILL, and the object is gone immediately."""
        path = f"{COLLECTIONS['Pod'].format(namespace=self.namespace)}/{pod['metadata']['name']}"
        self.workloads.client.send("DELETE", path, {"gracePeriodSeconds": 0})

    def remove(self) -> None:
        """Deletes everything; returns when the pod is gone."""
        for made in (self.daemonset, self.config_map):
            collection = COLLECTIONS[made["kind"]].format(namespace=self.namespace)
            self.workloads.client.send("DELETE", f"{collection}/{self.name}", {})
        wait_until(f"{self.name} is gone", lambda: not self.pods(), timeout_s=60, evidence=self._describe)

    def run_inside(self, pod: Json, script: str) -> str:
        """The last line a Python script prints in the agent's container, restricted as the agent is."""
        words = ["tasks", "exec", "--exec-id", "look", container_id(pod), "python3", "-c", script]
        said = self.node.run([self._ctr, f"--address={SOCKET}", "--namespace=k8s.io", *words])
        return said.splitlines()[-1]  # before it, containerd may warn of something

    def log_file(self, pod: Json) -> Path:
        """Where the first life of a pod's container logs; the kubelet removes it with the pod."""
        meta = pod["metadata"]
        folder = f"{meta['namespace']}_{meta['name']}_{meta['uid']}"
        return self.node.path(f"/var/log/pods/{folder}/agent/0.log")

    def log(self, pod: Json) -> list[LogLine]:
        """Everything the agent of a pod has logged, over all its container's lives."""
        return parse_log(self.node.container_log(pod, "agent"))

    def _describe(self) -> str:
        names = [pod["metadata"]["name"] for pod in self.pods()]
        return "\n".join(self.workloads.describe_pod(name, self.namespace) for name in names)


def container_id(pod: Json) -> str:
    """The id of a pod's one container, as containerd knows it."""
    text: str = pod["status"]["containerStatuses"][0]["containerID"]
    return text.removeprefix("containerd://")


def restarts(pod: Json) -> int:
    count: int = pod["status"]["containerStatuses"][0]["restartCount"]
    return count
