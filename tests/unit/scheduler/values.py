"""Pods that wait to be planned, and their plans."""

from collections.abc import Mapping, Sequence
from typing import Any

from accelet.kube.nodes import Node
from accelet.kube.pods import Container, Pod
from accelet.scheduler.cluster.cluster import Cluster
from accelet.scheduler.cluster.topology import Scheme
from accelet.scheduler.gangs.exclusive import occupant_of
from accelet.scheduler.gangs.grouping import GATE_PREFIX, find_gangs
from accelet.scheduler.gangs.workload import Workload
from accelet.scheduler.placement.plan import Plan, plan_gangs
from tests.fakes import pods as fakes
from tests.fakes.nodes import GPU


def pod(
    name: str,
    *,
    gpus: int = 1,
    more: Mapping[str, int] | None = None,
    on: str | None = None,
    gates: Sequence[str] = (f"{GATE_PREFIX}j",),
    **fields: Any,
) -> Pod:
    """A gated pod that asks for GPUs and `more`, or, `on` a node, a bound one."""
    asked = {"cpu": 1, **({GPU: gpus} if gpus else {}), **(more or {})}
    return fakes.pod(name, Container("main", asked), on=on, gates=() if on else gates, **fields)


def plan(nodes: Sequence[Node], pods: Sequence[Pod], workloads: Sequence[Workload] = ()) -> list[Plan]:
    """The plans of all gangs of these pods."""
    cluster = Cluster(Scheme(), nodes, pods, occupant_of=occupant_of)
    return plan_gangs(find_gangs(pods, workloads), cluster.layout, cluster.room())


def plan_one(nodes: Sequence[Node], pods: Sequence[Pod], workloads: Sequence[Workload] = ()) -> Plan:
    (only,) = plan(nodes, pods, workloads)
    return only
