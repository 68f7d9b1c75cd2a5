"""How much memory the picture of a cluster takes: `python -m benches.scheduler.memory [NODES PODS]`.

Without a size, of 5,000 nodes and 50,000 pods, also with the containers' environments.
"""

import json
import subprocess
import sys
from pathlib import Path

import msgspec

from accelet.kube.nodes import parse_node
from accelet.kube.podparser import parse_pod
from accelet.scheduler.cluster.topology import Scheme
from accelet.scheduler.gangs.grouping import GATE_PREFIX
from accelet.scheduler.state import SchedulerState

NODES, PODS = 5_000, 50_000
VARIABLES = 20
HOSTILE = 5
"""Pods that ask for 10,000 resources of names of their own, on nodes of names of their own."""


def raw_node(number: int) -> bytes:
    labels = {"kubernetes.io/hostname": f"node-{number}"}
    labels |= dict(
        zip(Scheme().label_sets[0], (f"b{number // 100}", f"s{number // 10}", f"h{number}"), strict=True)
    )
    amounts = {
        "cpu": "64",
        "memory": "256Gi",
        "pods": "110",
        "ephemeral-storage": "1Ti",
        "gpu.intel.com/i915": "8",
    }
    status = {
        "capacity": amounts,
        "allocatable": amounts,
        "conditions": [{"type": "Ready", "status": "True"}],
    }
    metadata = {"name": f"node-{number}", "uid": f"{number:036}", "resourceVersion": "1", "labels": labels}
    return json.dumps({"metadata": metadata, "spec": {}, "status": status}).encode()


def raw_pod(number: int, nodes: int = NODES) -> bytes:
    env = [
        {"name": f"VARIABLE_{index}", "value": f"value-{number}-{index}" * 3} for index in range(VARIABLES)
    ]
    limits = {"cpu": "1", "memory": "2Gi", "gpu.intel.com/i915": "1"}
    container = {"name": "main", "image": "example.com/train:1", "env": env, "resources": {"limits": limits}}
    metadata = {
        "name": f"train-{number}",
        "namespace": f"team-{number % 50}",
        "uid": f"{number:036}",
        "resourceVersion": "1",
        "labels": {"job-name": f"train-{number // 8}", "app": "train"},
        "annotations": {"batch.kubernetes.io/job-completion-index": str(number % 8)},
    }
    spec = {"nodeName": f"node-{number % nodes}", "containers": [container]}
    return json.dumps({"metadata": metadata, "spec": spec, "status": {"phase": "Running"}}).encode()


def _hostile(number: int) -> bytes:
    limits = {f"x{number}.example.com/{index}": "1" for index in range(10_000)}
    metadata = {"name": f"hostile-{number}", "namespace": "bad", "uid": f"h{number}", "resourceVersion": "1"}
    spec = {"nodeName": f"nowhere-{number}", "containers": [{"name": "c", "resources": {"limits": limits}}]}
    return json.dumps({"metadata": metadata, "spec": spec, "status": {"phase": "Pending"}}).encode()


def _resident_mib() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 / 2**20


def _measure(nodes: int, pods: int, *, keeps_environment: bool) -> None:
    state = SchedulerState(Scheme(), GATE_PREFIX)
    started = _resident_mib()
    for number in range(nodes):
        state.set_node(parse_node(msgspec.Raw(raw_node(number))))
    for number in range(pods):
        raw = msgspec.Raw(raw_pod(number, nodes))
        state.set_pod(parse_pod(raw, keeps_environment=keeps_environment))
    state.cluster.snapshot()
    filled = _resident_mib()
    for number in range(HOSTILE):
        state.set_pod(parse_pod(msgspec.Raw(_hostile(number)), keeps_environment=keeps_environment))
    state.cluster.snapshot()
    attacked = _resident_mib()
    kept = "with" if keeps_environment else "without"
    print(  # noqa: T201 - what the command is for
        f"{kept} environments: {started:.0f} MiB, {filled:.0f} MiB with {nodes:,} nodes and {pods:,} pods, "
        f"{attacked:.0f} MiB with {HOSTILE} hostile pods more"
    )


def main() -> None:
    match sys.argv[1:]:
        case [nodes, pods]:
            _measure(int(nodes), int(pods), keeps_environment=False)
        case [kept]:
            _measure(NODES, PODS, keeps_environment=kept == "with")
        case _:
            for kept in ("with", "without"):
                subprocess.run([sys.executable, "-m", "benches.scheduler.memory", kept], check=True)


if __name__ == "__main__":
    main()
