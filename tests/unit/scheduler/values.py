"""Nodes and pods to plan with, as short as they can be said."""

from collections.abc import Mapping, Sequence

from accelet.kube.nodes import Node
from accelet.kube.objects import Condition, Owner
from accelet.kube.pods import Container, Pod
from accelet.kube.selection import NodeTerm, Taint, Toleration
from accelet.scheduler.cluster.cluster import Cluster
from accelet.scheduler.cluster.topology import Scheme
from accelet.scheduler.gangs.grouping import GATE_PREFIX, find_gangs
from accelet.scheduler.gangs.workload import Workload
from accelet.scheduler.placement.plan import Plan, plan_gangs

BLOCK, SUBBLOCK, HOST = Scheme().label_sets[0]
GPU = "nvidia.com/gpu"


def place(block: str, subblock: str, host: str) -> dict[str, str]:
    """The labels of a node that is there."""
    return {BLOCK: block, SUBBLOCK: subblock, HOST: host}


def node(
    name: str,
    where: str = "",
    *,
    gpus: int = 8,
    labels: Mapping[str, str] | None = None,
    taints: Sequence[Taint] = (),
    is_cordoned: bool = False,
    ready: str = "True",
    more: Mapping[str, int] | None = None,
) -> Node:
    """A node at `where` (`b0/s0/h0`), or nowhere."""
    parts = where.split("/")
    at = place(*parts) if where else {}
    return Node(
        name=name,
        labels={"kubernetes.io/hostname": name, **at, **(labels or {})},
        unschedulable=is_cordoned,
        taints=tuple(taints),
        conditions=(Condition("Ready", ready),),
        allocatable={"cpu": 64, "memory": 2**38, "pods": 110, GPU: gpus, **(more or {})},
    )


def pod(
    name: str,
    *,
    gpus: int = 1,
    on: str | None = None,
    gates: Sequence[str] = (f"{GATE_PREFIX}j",),
    namespace: str = "ml",
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    owner: Owner | None = None,
    selector: Mapping[str, str] | None = None,
    terms: tuple[NodeTerm, ...] | None = None,
    tolerations: Sequence[Toleration] = (),
    phase: str = "Pending",
    priority: int = 0,
    created_s: float = 0.0,
    more: Mapping[str, int] | None = None,
) -> Pod:
    """A gated pod, or, `on` a node, a bound one."""
    return Pod(
        namespace=namespace,
        name=name,
        created_s=created_s,
        labels=labels or {},
        annotations=annotations or {},
        owners=(owner,) if owner else (),
        node_name=on,
        phase="Running" if on and phase == "Pending" else phase,
        gates=() if on else tuple(gates),
        priority=priority,
        node_selector=selector or {},
        required_terms=terms,
        tolerations=tuple(tolerations),
        containers=(Container("main", {"cpu": 1, **({GPU: gpus} if gpus else {}), **(more or {})}),),
    )


def plan(nodes: Sequence[Node], pods: Sequence[Pod], workloads: Sequence[Workload] = ()) -> list[Plan]:
    """The plans of all gangs of these pods."""
    cluster = Cluster(Scheme(), nodes, pods)
    return plan_gangs(find_gangs(pods, workloads), cluster.layout, cluster.room())


def plan_one(nodes: Sequence[Node], pods: Sequence[Pod], workloads: Sequence[Workload] = ()) -> Plan:
    (only,) = plan(nodes, pods, workloads)
    return only
