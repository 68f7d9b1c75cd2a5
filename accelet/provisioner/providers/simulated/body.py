"""A simulated pool as the ConfigMap that stands for it, and as the Nodes that it becomes."""

from dataclasses import dataclass
from typing import Any, Final

import msgspec

from accelet.kube.objects import RawObject, WireObject, read_object
from accelet.provisioner.demand.selectors import (
    ACCELERATOR,
    CHIP_COUNT,
    MACHINE_TYPE,
    NODE_POOL,
    TOPOLOGY,
    ZONE,
)
from accelet.provisioner.demand.slices import TPU
from accelet.provisioner.pools.plan import CLUSTER_LABEL, REQUEST_LABEL, PoolPlan
from accelet.provisioner.pools.pool import Failure, NodePool, PoolState, Trouble
from accelet.provisioner.settings import SimulatedPools

POOL_LABEL: Final = "accelet.dev/simulated-pool"
"""On everything of a simulated pool; a policy holds the provisioner to what has it."""

_DATA_KEY: Final = "pool"


class SimulatedPool(msgspec.Struct, frozen=True, rename="camel"):
    """What the ConfigMap says of a pool, and so all that its Nodes are made of. Times are of the epoch.

    `is_short`: there was no capacity left when it was asked for.
    """

    mark: str
    fingerprint: str
    accelerator: str
    topology: str
    machine_type: str
    hosts: int
    chips_per_host: int
    tier: str
    zone: str
    labels: dict[str, str]
    taints: dict[str, str]
    created_s: float = 0.0
    deleted_s: float | None = None
    is_short: bool = False


@dataclass(frozen=True, slots=True)
class KeptPool:
    """A pool and the ConfigMap it is kept in."""

    name: str
    resource_version: str
    pool: SimulatedPool


class _WireConfigMap(WireObject, frozen=True):
    data: dict[str, str] | None = None


class _WirePool(WireObject, frozen=True):
    pool: SimulatedPool


def render_body(plan: PoolPlan, *, created_s: float = 0.0, is_short: bool = False) -> dict[str, Any]:
    """The ConfigMap of a pool."""
    machines = plan.machines
    pool = SimulatedPool(
        mark=plan.mark,
        fingerprint=plan.fingerprint,
        accelerator=machines.accelerator,
        topology=machines.topology,
        machine_type=machines.machine_type,
        hosts=machines.hosts,
        chips_per_host=machines.chips_per_host,
        tier=str(plan.attempt.tier),
        zone=plan.attempt.zone,
        labels=dict(plan.all_labels),
        taints={taint.key: taint.value for taint in plan.taints},
        created_s=created_s,
        is_short=is_short,
    )
    marks = {POOL_LABEL: "true", REQUEST_LABEL: plan.mark}
    marks |= {CLUSTER_LABEL: plan.cluster} if plan.cluster else {}
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": plan.name, "labels": marks},
        "data": render_data(pool),
    }


def render_data(pool: SimulatedPool) -> dict[str, str]:
    return {_DATA_KEY: msgspec.json.encode(pool).decode()}


def parse_pool(raw: RawObject) -> KeptPool:
    """The pool that a ConfigMap stands for.

    Raises:
        MalformedObjectError: somebody has written something else into it.
    """
    wire = read_object(raw, "ConfigMap", _WireConfigMap)
    text = (wire.data or {}).get(_DATA_KEY, "null")
    data = {"metadata": {"name": wire.metadata.name}, "pool": msgspec.Raw(text.encode())}
    shaped = read_object(msgspec.json.encode(data), "ConfigMap", _WirePool)
    return KeptPool(wire.metadata.name, wire.metadata.resource_version or "", shaped.pool)


def pool_of(kept: KeptPool, settings: SimulatedPools, now_s: float) -> NodePool:
    """The pool as it is at a moment."""
    pool = kept.pool
    failure = None
    state: PoolState = "creating"
    if pool.deleted_s is not None:
        state = "deleting"
    elif now_s >= pool.created_s + settings.create_s:
        state = "failed" if pool.is_short else "running"
        if pool.is_short:
            where = f" in {pool.zone}" if pool.zone else ""
            failure = Failure(Trouble.NO_CAPACITY, f"there is no {pool.tier} capacity left{where}")
    return NodePool(kept.name, pool.mark, state, pool.fingerprint, pool.tier, pool.zone, failure)


def node_body(name: str, index: int, pool: SimulatedPool) -> dict[str, Any]:
    """A Node as its kubelet would register it: without chips, which its device plugin offers later."""
    labels = {
        **pool.labels,
        POOL_LABEL: "true",
        ACCELERATOR: pool.accelerator,
        TOPOLOGY: pool.topology,
        CHIP_COUNT: str(pool.chips_per_host),
        MACHINE_TYPE: pool.machine_type,
        NODE_POOL: name,
        "kubernetes.io/hostname": f"{name}-{index}",
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
    }
    taints = {**pool.taints, TPU: "present"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": f"{name}-{index}", "labels": labels | ({ZONE: pool.zone} if pool.zone else {})},
        "spec": {
            "taints": [
                {"key": key, "value": value, "effect": "NoSchedule"} for key, value in sorted(taints.items())
            ]
        },
    }


def status_body(pool: SimulatedPool, time: str) -> dict[str, Any]:
    """The status of a Node that is ready and offers its chips."""
    resources = {"cpu": "96", "memory": "384Gi", "pods": "15", TPU: str(pool.chips_per_host)}
    ready = {"type": "Ready", "status": "True", "reason": "Simulated"}
    times = {"lastHeartbeatTime": time, "lastTransitionTime": time}
    return {"status": {"capacity": resources, "allocatable": resources, "conditions": [ready | times]}}
