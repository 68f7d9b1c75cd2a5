"""The agent on a node of the test cluster, and the pods that ask it for devices."""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.e2e.cluster.https_client import Json
from tests.e2e.cluster.images import BUSYBOX_IMAGE
from tests.e2e.cluster.node import Node
from tests.e2e.cluster.node_namespace import NodeProcess
from tests.e2e.cluster.waiting import wait_until

AGENT = Path(sys.executable).with_name("accelet")

SHOW_DEVICES = (
    "ls /dev/dri /dev/fuse 2>/dev/null; echo mask=$ZE_AFFINITY_MASK hierarchy=$ZE_FLAT_DEVICE_HIERARCHY"
)
"""What a container runs to print its own view."""


def start_agent(node: Node, config: Path, name: str = "agent") -> NodeProcess:
    """Starts the agent in the node's namespaces, as a service of the host would."""
    process = node.process(
        name, [AGENT, "agent", "--config", config, "--node-name", node.name, "--http", "127.0.0.1:0"]
    )
    process.start()
    return process


def allocatable(node: Node, resource: str) -> int | None:
    """How many of a resource the API server would let pods ask for; None where it knows of none."""
    amounts: Mapping[str, str] = node.object().get("status", {}).get("allocatable", {})
    return int(amounts[resource]) if resource in amounts else None


def wait_for_allocatable(node: Node, resource: str, amount: int, *, timeout_s: float = 60) -> None:
    wait_until(
        f"{node.name} has {amount} {resource}",
        lambda: allocatable(node, resource) == amount,
        timeout_s=timeout_s,
        evidence=lambda: f"allocatable is {allocatable(node, resource)}",
    )


def device_pod(
    name: str, resources: Mapping[str, int], script: str = f"{SHOW_DEVICES}; sleep 3600", **spec: Any
) -> Json:
    """A pod whose one container asks for devices and runs a script."""
    amounts = {resource: str(count) for resource, count in resources.items()}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {
            "restartPolicy": "Always",
            "hostNetwork": True,
            "terminationGracePeriodSeconds": 0,
            "containers": [
                {
                    "name": "main",
                    "image": BUSYBOX_IMAGE,
                    "imagePullPolicy": "Never",
                    "command": ["sh", "-c", script],
                    "resources": {"limits": amounts},
                }
            ],
            **spec,
        },
    }


def write_cards(
    path: Path, cards: int, *, tiles: int = 2, unhealthy: Sequence[int] = (), first_bus: int = 3
) -> None:
    """A file of simulated GPUs: card N on PCI bus `first_bus` + N, standing for /dev/null, seen as cardN."""
    lines = ["cards:"]
    for index in range(cards):
        lines += [
            f'- pci: "0000:{first_bus + index:02x}:00.0"',
            f"  nodes: [{{path: /dev/null, mount_path: /dev/dri/card{index}}}]",
            f"  tiles: {tiles}",
            f"  numa_node: {index * 2 // max(cards, 1)}",
            *(["  unhealthy: the test says so"] if index in unhealthy else []),
        ]
    fresh = path.with_suffix(".new")
    fresh.write_text("\n".join(lines) + "\n")
    fresh.rename(path)
