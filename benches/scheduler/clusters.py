"""Clusters of a fixed generator: same numbers, same cluster."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from accelet.kube.nodes import Node
from accelet.kube.objects import Condition
from accelet.kube.pods import Container, Pod
from accelet.scheduler.cluster.cluster import Cluster
from accelet.scheduler.cluster.topology import Scheme
from accelet.scheduler.gangs.grouping import EXCLUSIVE, GATE_PREFIX, Gang, find_gangs
from accelet.scheduler.placement.plan import Plan

GPU = "nvidia.com/gpu"
GPUS = 8
_LABELS = Scheme().label_sets[0]


@dataclass(frozen=True, slots=True)
class Size:
    """Blocks of sub-blocks of hosts."""

    blocks: int
    subblocks: int
    hosts: int

    @property
    def nodes(self) -> int:
        return self.blocks * self.subblocks * self.hosts


def make_nodes(size: Size) -> list[Node]:
    """Hosts of 8 GPUs, one node each."""
    return [
        Node(
            name=f"node-{block:03}-{subblock:03}-{host:03}",
            labels=dict(
                zip(
                    _LABELS,
                    (f"b{block:03}", f"s{block:03}-{subblock:03}", f"h{block:03}-{subblock:03}-{host:03}"),
                    strict=True,
                )
            ),
            conditions=(Condition("Ready", "True"),),
            allocatable={"cpu": 128, "memory": 2**40, "pods": 110, GPU: GPUS},
        )
        for block in range(size.blocks)
        for subblock in range(size.subblocks)
        for host in range(size.hosts)
    ]


def used_gpus(
    size: Size, how: str, occupancy: float, seed: int
) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """How many GPUs of each node are in use.

    `gpus`: each GPU by itself; `nodes`: each node wholly or not at all; `sub-blocks`: each GPU by itself,
    at a rate of its sub-block's own (uniform between 0 and twice the occupancy, at most 1).
    """
    random = np.random.default_rng(seed)
    if how == "nodes":
        return np.where(random.random(size.nodes) < occupancy, GPUS, 0)
    rate = np.full(size.nodes, occupancy)
    if how == "sub-blocks":
        of_subblock = random.uniform(0, min(2 * occupancy, 1), size.blocks * size.subblocks)
        rate = np.repeat(of_subblock, size.hosts)
    return random.binomial(GPUS, rate)


def occupy(cluster: Cluster, nodes: list[Node], used: np.ndarray[tuple[int], np.dtype[np.int64]]) -> None:
    """Binds one pod a node that holds its used GPUs; the same pods again replace those of before."""
    for node, gpus in zip(nodes, used.tolist(), strict=True):
        requests = {"cpu": gpus, GPU: gpus} if gpus else {}
        bound = Pod("busy", node.name, node_name=node.name, phase="Running", containers=(_box(requests),))
        cluster.set_pod(bound)


def make_gang(pods: int, gpus: int, *, with_launcher: bool = False) -> Gang:
    """Gated pods of so many GPUs each (whole nodes exclusively), and, if asked, a first one without."""
    annotations = {EXCLUSIVE: "true"} if gpus == GPUS else {}
    (gang,) = find_gangs(
        Pod(
            "ml",
            f"train-{rank}",
            labels={"job-name": "train"},
            annotations=annotations,
            gates=(f"{GATE_PREFIX}train",),
            containers=(_box({"cpu": 100} if with_launcher and rank == 0 else {"cpu": gpus, GPU: gpus}),),
        )
        for rank in range(pods)
    )
    return gang


def _box(requests: dict[str, int]) -> Container:
    return Container("main", requests)


def refuse_faults(plans: Iterable[Plan]) -> None:
    """Ends a bench one of whose plans breaks a promise: what is measured is not what is wanted."""
    for plan in plans:
        if plan.fault is not None:
            raise plan.fault
