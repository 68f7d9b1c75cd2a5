"""Storms of pods on a real kubelet, and what they cost it and the agent."""

import json
import re
import socket
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from random import Random

from tests.e2e.agent import AGENT, wait_for_allocatable
from tests.e2e.assigned_pods import LABEL, STAY, AssignedPod, draw_pod
from tests.e2e.cluster.control_plane import ControlPlane
from tests.e2e.cluster.https_client import Json
from tests.e2e.cluster.images import BUSYBOX_IMAGE
from tests.e2e.cluster.node import Node
from tests.e2e.cluster.node_namespace import NodeProcess
from tests.e2e.cluster.waiting import wait_until
from tests.e2e.cluster.workloads import Workloads
from tests.integration.identity.storm import CARDS, TILES
from tests.integration.identity.world import gas

GPU = "gpu.intel.com/i915"
SHARES = 300
COLLECTION = "/api/v1/namespaces/default/pods"

Run = Callable[[int, Workloads], Sequence[AssignedPod]]
"""Makes so many pods at once; returns them where their manifests are known."""


@dataclass(frozen=True, slots=True)
class Figures:
    """What one storm cost. `gets` are the kubelet's, from whomever; `histogram` counts by bound in s."""

    seconds: float
    matches: int
    gets: int
    histogram: Mapping[float, int]
    phases: Mapping[str, int]

    def quantile_ms(self, part: float) -> float:
        """The upper bound in ms below which this part of the matches lies, straight between two bounds."""
        wanted, low_s, low = part * self.matches, 0.0, 0
        for bound_s, count in sorted(self.histogram.items()):
            if count >= wanted:
                return 1000 * (low_s + (bound_s - low_s) * (wanted - low) / max(1, count - low))
            low_s, low = bound_s, count
        return float("inf")

    def __str__(self) -> str:
        if not self.matches:
            return f"{self.seconds:6.1f} s, {dict(self.phases)}"
        return (
            f"{self.seconds:6.1f} s, {self.gets / self.matches:.2f} Gets a match, match p50"
            f" {self.quantile_ms(0.5):.1f} ms, p99 {self.quantile_ms(0.99):.1f} ms, {dict(self.phases)}"
        )


@dataclass
class StormAgent:
    """An agent on the node whose metrics can be read."""

    node: Node
    process: NodeProcess
    port: int

    def read_metrics(self) -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=10) as answer:
            return str(answer.read().decode())


@contextmanager
def storm_agent(
    cluster: ControlPlane, node: Node, folder: Path, *, is_assigned: bool = True
) -> Iterator[StormAgent]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    config = write_config(folder / "storm.yaml", is_assigned=is_assigned)
    words: list[str | Path] = [AGENT, "agent", "--config", config, "--kubeconfig", cluster.kubeconfig]
    words += ["--node-name", node.name, "--http", f"127.0.0.1:{port}"]
    process = node.process("storm agent", words)
    process.start()
    wait_for_allocatable(node, GPU, CARDS * SHARES, timeout_s=90)
    try:
        yield StormAgent(node, process, port)
    finally:
        process.terminate()
        wait_for_allocatable(node, GPU, 0)


def write_config(path: Path, *, is_assigned: bool = True, options: Sequence[str] = ()) -> Path:
    lines = [f"version: v1\nresources:\n- name: {GPU}\n  backend: simulated\n  shares: {SHARES}"]
    lines += ["  assignment: annotations"] if is_assigned else []
    lines += [f"  {option}" for option in options] + ["  cards:"]
    for card in range(CARDS):
        nodes = f"nodes: [{{path: /dev/null, mount_path: /dev/dri/card{card}}}]"
        lines.append(f'  - {{pci: "0000:{card + 3:02x}:00.0", card: card{card}, tiles: {TILES}, {nodes}}}')
    path.write_text("\n".join(lines) + "\n")
    return path


def blow(run: Run, count: int, agent: StormAgent, workloads: Workloads) -> Figures:
    """One storm, from the first pod that is made until all have been admitted or refused."""
    before = _read(agent)
    started = time.monotonic()
    run(count, workloads)
    phases = wait_until(
        "all pods have been decided on",
        lambda: _decided(count, workloads),
        timeout_s=600,
        evidence=lambda: str(_phases(workloads)),
    )
    seconds = time.monotonic() - started
    after = _read(agent)
    histogram = {bound: after[2][bound] - before[2].get(bound, 0) for bound in after[2]}
    return Figures(seconds, after[0] - before[0], after[1] - before[1], histogram, phases)


def recurring_names(count: int, workloads: Workloads) -> Sequence[AssignedPod]:
    """Bare pods, each with an assignment of its own."""
    random = Random(count)
    pods = [draw_pod("plain", number, random) for number in range(count)]
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda pod: workloads.apply(pod.manifest), pods))
    return pods


def generated_names(count: int, workloads: Workloads) -> Sequence[AssignedPod]:
    """The pods of one Deployment, all with one assignment."""
    labels = {LABEL: "storm"}
    container = {
        "name": "main",
        "image": BUSYBOX_IMAGE,
        "imagePullPolicy": "Never",
        "command": ["sh", "-c", STAY],
        "resources": {"limits": {GPU: "1"}},
    }
    spec = {"hostNetwork": True, "terminationGracePeriodSeconds": 0, "containers": [container]}
    template = {"metadata": {"labels": labels, "annotations": gas("card1", "card1:gt1")}, "spec": spec}
    deployment: Json = {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "storm"},
        "spec": {"replicas": count, "selector": {"matchLabels": labels}, "template": template},
    }
    workloads.apply(deployment)
    return ()


def clear(workloads: Workloads) -> None:
    """Removes what storms leave, and waits until it is gone."""
    path = "/apis/apps/v1/namespaces/default/deployments/storm?propagationPolicy=Background"
    if workloads.client.try_get(path.partition("?")[0]):
        workloads.client.send("DELETE", path)

    def is_clear() -> bool:
        workloads.client.send("DELETE", f"{COLLECTION}?labelSelector={LABEL}", {"gracePeriodSeconds": 0})
        return not _list(workloads)

    wait_until("all pods of the storm are gone", is_clear, timeout_s=300)


def _list(workloads: Workloads) -> list[Json]:
    items: list[Json] = json.loads(workloads.client.send("GET", f"{COLLECTION}?labelSelector={LABEL}"))[
        "items"
    ]
    return items


def _phases(workloads: Workloads) -> Mapping[str, int]:
    found: dict[str, int] = {}
    for pod in _list(workloads):
        phase = pod["status"].get("phase", "Pending")
        found[phase] = found.get(phase, 0) + 1
    return found


def _decided(count: int, workloads: Workloads) -> Mapping[str, int] | None:
    phases = _phases(workloads)
    waiting = phases.get("Pending", 0)
    return phases if not waiting and sum(phases.values()) >= count else None


def _read(agent: StormAgent) -> tuple[int, int, Mapping[float, int]]:
    """Matches, the kubelet's Gets, and the matches' durations."""
    ours, kubelets = agent.read_metrics(), agent.node.metrics()
    name = "accelet_match_duration_seconds"
    pattern = rf'^{name}_bucket\{{le="([^"]+)",resource="[^"]+"\}} (\S+)'
    buckets = {float(le): int(float(n)) for le, n in re.findall(pattern, ours, re.MULTILINE) if le != "+Inf"}
    total = re.search(rf"^{name}_count\{{.*\}} (\S+)", ours, re.MULTILINE)
    gets = re.findall(r"^kubelet_pod_resources_endpoint_requests_get\{.*\} (\S+)", kubelets, re.MULTILINE)
    return int(float(total[1])) if total else 0, sum(int(float(one)) for one in gets), buckets
