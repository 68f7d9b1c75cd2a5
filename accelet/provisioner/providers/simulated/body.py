"""A simulated pool as the ConfigMap that stands for it."""

from typing import Any, Final

import msgspec

from accelet.provisioner.pools.plan import CLUSTER_LABEL, REQUEST_LABEL, PoolPlan

POOL_LABEL: Final = "accelet.dev/simulated-pool"
DATA_KEY: Final = "pool"


class SimulatedPool(msgspec.Struct, frozen=True, rename="camel"):
    """What the ConfigMap says of a pool, and so all that its Nodes are made of."""

    mark: str
    cluster: str
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


def render_body(plan: PoolPlan) -> dict[str, Any]:
    """The ConfigMap of a pool."""
    machines = plan.machines
    pool = SimulatedPool(
        mark=plan.mark,
        cluster=plan.cluster,
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
    )
    marks = {POOL_LABEL: "true", REQUEST_LABEL: plan.mark, CLUSTER_LABEL: plan.cluster}
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": plan.name, "labels": marks},
        "data": {DATA_KEY: msgspec.json.encode(pool).decode()},
    }
