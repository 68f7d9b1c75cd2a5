"""Scheduler and agent as deploy/ runs them: pods of the image with their limits and rights."""

import json
from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from tests.e2e.agent_log import LogLine, parse_log
from tests.e2e.agent_pod import container_id
from tests.e2e.cluster.containerd import SOCKET
from tests.e2e.cluster.control_plane import ControlPlane
from tests.e2e.cluster.https_client import Json
from tests.e2e.cluster.images import BUSYBOX_IMAGE
from tests.e2e.cluster.node import Node
from tests.e2e.cluster.waiting import wait_until
from tests.e2e.cluster.workloads import COLLECTIONS
from tests.e2e.tenants import installation
from tests.e2e.usage import ContainerCgroup

NAMESPACE = "kube-system"
REAL_CARDS, REAL_TILES = 4, 2
REAL = "tenants-real"
"""The node with a kubelet, and its taint: pods without its name or a toleration stay away from it."""


def real_pod(name: str, limits: Json, command: str = "sleep 3600") -> Json:
    """A pod for the real node, whose container prints its devices and runs a command."""
    body = installation.pod(name, limits)
    (container,) = body["spec"]["containers"]
    look = "ls /dev/dri; echo mask=$ZE_AFFINITY_MASK"
    container |= {"image": BUSYBOX_IMAGE, "imagePullPolicy": "Never"}
    container |= {"command": ["sh", "-c", f"{look}; {command}"]}
    body["spec"] |= {
        "restartPolicy": "Never",
        "hostNetwork": True,
        "tolerations": [{"key": REAL, "operator": "Exists"}],
        "nodeSelector": {"kubernetes.io/hostname": REAL},
    }
    return body


def is_agents_configuration(manifest: Json) -> bool:
    return bool(manifest["kind"] == "ConfigMap" and manifest["metadata"]["name"] == "accelet-agent")


def configured(manifest: Json) -> Json:
    """The agent's configuration as shipped, with simulated cards: this machine has no GPU."""
    config = yaml.safe_load(manifest["data"]["config.yaml"])
    (shipped,) = (one for one in config["resources"] if one["name"] == "gpu.intel.com/i915")
    cards = [
        {
            "pci": f"0000:{index + 3:02x}:00.0",
            "card": f"card{index}",
            "tiles": REAL_TILES,
            "memory_mib": 65536,
            "nodes": [{"path": "/dev/null", "mount_path": f"/dev/dri/card{index}"}],
        }
        for index in range(REAL_CARDS)
    ]
    kept = {key: value for key, value in shipped.items() if key != "match"}
    simulated = {**kept, "backend": "simulated", "cards": cards}
    text = yaml.safe_dump({**config, "resources": [simulated]}, sort_keys=False)
    return {**manifest, "data": {"config.yaml": text}}


def reaching(workload: Json, control_plane: ControlPlane, node: Node) -> Json:
    """A DaemonSet or Deployment as it is shipped, on the real node, with the way there is to the API server.

    There is no service network here, so the address is named, and the network is the machine's; two replicas
    would want the same port of it.
    """
    changed = deepcopy(workload)
    pod = changed["spec"]["template"]["spec"]
    pod["hostNetwork"] = True
    pod["nodeSelector"] = {"kubernetes.io/hostname": node.name}
    pod["tolerations"] = [{"operator": "Exists"}]
    (container,) = pod["containers"]
    container["env"] += [
        {"name": "KUBERNETES_SERVICE_HOST", "value": "127.0.0.1"},
        {"name": "KUBERNETES_SERVICE_PORT", "value": str(control_plane.port)},
    ]
    if "replicas" in changed["spec"]:
        changed["spec"]["replicas"] = 1
    return changed


@dataclass
class RunningProcess:
    """One workload of deploy/ with one pod; what its former pods have logged is kept."""

    control_plane: ControlPlane
    node: Node
    manifest: Json
    ctr: Path
    _former: list[str] = field(default_factory=list)
    _restarts: int = 0
    _most_mib: float = 0.0

    @property
    def name(self) -> str:
        name: str = self.manifest["metadata"]["name"]
        return name

    @property
    def _path(self) -> str:
        return f"{COLLECTIONS[self.manifest['kind']].format(namespace=NAMESPACE)}/{self.name}"

    @property
    def memory_limit(self) -> str:
        (container,) = self.manifest["spec"]["template"]["spec"]["containers"]
        limit: str = container["resources"]["limits"]["memory"]
        return limit

    def start(self) -> None:
        self.control_plane.workloads.apply(self.manifest)
        self.wait_until_ready()

    def stop(self) -> None:
        for pod in self.pods():
            self._former.append(self._log_of(pod))
            self._restarts += _restarts(pod)
        self._most_mib = self.most_mib() if self._ready() else self._most_mib
        self.control_plane.client.send("DELETE", self._path, {"propagationPolicy": "Background"})
        wait_until(f"{self.name} is gone", lambda: not self.pods(), timeout_s=60)

    def restart(self) -> None:
        self.stop()
        self.start()

    def pods(self) -> list[Json]:
        labels = self.manifest["spec"]["selector"]["matchLabels"]
        selector = ",".join(f"{key}={value}" for key, value in labels.items())
        path = f"{COLLECTIONS['Pod'].format(namespace=NAMESPACE)}?labelSelector={selector}"
        items: list[Json] = json.loads(self.control_plane.client.send("GET", path))["items"]
        return items

    def pod(self) -> Json:
        return self.wait_until_ready()

    def wait_until_ready(self) -> Json:
        return wait_until(f"{self.name} is ready", self._ready, timeout_s=90, evidence=self._describe)

    @property
    def is_running(self) -> bool:
        """Whether it runs, and no container of it has ever ended by itself."""
        return bool(self._ready()) and self.restarts == 0

    @property
    def restarts(self) -> int:
        return self._restarts + sum(map(_restarts, self.pods()))

    def run_inside(self, *words: str) -> str:
        """What a command prints in the process's container, restricted as that is."""
        exec_in = ["tasks", "exec", "--exec-id", "look", container_id(self.pod())]
        return self.node.run([self.ctr, f"--address={SOCKET}", "--namespace=k8s.io", *exec_in, *words])

    def most_mib(self) -> float:
        """The most that it has ever used at a time, as its limit counts it: file pages are in it too."""
        now = ContainerCgroup(self.node.cgroup, container_id(self.pod())).usage().most_mib
        return max(now, self._most_mib)

    def used_mib(self) -> float:
        return ContainerCgroup(self.node.cgroup, container_id(self.pod())).usage().working_set_mib

    @property
    def longest_line(self) -> int:
        return max((len(line) for line in self._log().splitlines()), default=0)

    def lines(self) -> Sequence[LogLine]:
        return parse_log(self._log())

    def faults(self) -> list[str]:
        """What it has logged of faults of its own."""
        return [line for line in self._log().splitlines() if "Traceback" in line]

    def _log(self) -> str:
        return "".join([*self._former, *map(self._log_of, self.pods())])

    def _log_of(self, pod: Json) -> str:
        return self.node.container_log(pod, pod["spec"]["containers"][0]["name"])

    def _ready(self) -> Json | None:
        for pod in self.pods():
            conditions = {each["type"]: each["status"] for each in pod["status"].get("conditions", [])}
            if conditions.get("Ready") == "True" and "deletionTimestamp" not in pod["metadata"]:
                return pod
        return None

    def _describe(self) -> str:
        return "\n".join(self._describe_each())

    def _describe_each(self) -> Iterator[str]:
        for pod in self.pods():
            yield self.control_plane.workloads.describe_pod(pod["metadata"]["name"], NAMESPACE)
            yield self._log_of(pod)[-3000:]


def _restarts(pod: Json) -> int:
    return sum(status["restartCount"] for status in pod["status"].get("containerStatuses", []))
