"""A pool as a MachineDeployment of Cluster API (cluster.x-k8s.io/v1beta2)."""

from typing import Any, Final

from accelet.provisioner.demand.selectors import ACCELERATOR, TOPOLOGY
from accelet.provisioner.pools.plan import CLUSTER_LABEL, FINGERPRINT_LABEL, REQUEST_LABEL, PoolPlan
from accelet.provisioner.settings import ClusterApiSettings, TemplateRef

CLUSTER_NAME: Final = "cluster.x-k8s.io/cluster-name"
POOL_LABEL: Final = "node.cluster.x-k8s.io/slice-pool"
"""On machines; of all labels only those below a few domains go from there to the Node, and this is one.

The others go there too where Cluster API runs with --additional-sync-machine-labels for them.
"""


def render_body(plan: PoolPlan, settings: ClusterApiSettings) -> dict[str, Any]:
    """The MachineDeployment. Its templates are found by their names, and hold what the nodes need."""
    marks = {
        REQUEST_LABEL: plan.mark,
        FINGERPRINT_LABEL: plan.fingerprint,
        CLUSTER_LABEL: plan.cluster,
        CLUSTER_NAME: settings.cluster,
    }
    machine: dict[str, Any] = {
        "clusterName": settings.cluster,
        "bootstrap": {"configRef": _reference(settings.bootstrap, plan)},
        "infrastructureRef": _reference(settings.infrastructure, plan),
    }
    if settings.version:
        machine["version"] = settings.version
    if plan.attempt.zone:
        machine["failureDomain"] = plan.attempt.zone
    chosen = {POOL_LABEL: plan.name, CLUSTER_NAME: settings.cluster}
    machines = plan.machines
    labels = {**plan.labels, ACCELERATOR: machines.accelerator, TOPOLOGY: machines.topology, **chosen}
    return {
        "apiVersion": "cluster.x-k8s.io/v1beta2",
        "kind": "MachineDeployment",
        "metadata": {"name": plan.name, "namespace": settings.namespace, "labels": marks},
        "spec": {
            "clusterName": settings.cluster,
            "replicas": plan.machines.hosts,
            "selector": {"matchLabels": chosen},
            "template": {"metadata": {"labels": labels}, "spec": machine},
        },
    }


def _reference(template: TemplateRef, plan: PoolPlan) -> dict[str, str]:
    machines = plan.machines
    name = template.name.replace("{machine_type}", machines.machine_type)
    name = name.replace("{topology}", machines.topology)
    return {"apiGroup": template.api_group, "kind": template.kind, "name": name}
