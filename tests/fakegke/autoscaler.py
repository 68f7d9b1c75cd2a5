"""What GKE's autoscaler does for pools of flex-start: it fills them for pods that wait for their nodes."""

from collections.abc import Iterable
from typing import Final

from tests.fakegke.state import Gke, Json, is_flex

_STARTUP: Final = "startup-taint.cluster-autoscaler.kubernetes.io/"
_ACCELERATORS: Final = {"ct6e": "tpu-v6e-slice", "ct5lp": "tpu-v5-lite-podslice", "ct5p": "tpu-v5p-slice"}


def fill_pools(gke: Gke, pods: Iterable[Json]) -> None:
    """Fills each empty pool on whose nodes a pod would fit that kube-scheduler found unschedulable.

    A slice of several machines is filled whole, however few pods wait (GKE's autoscaler, `IncreaseSize`).
    """
    waiting = [pod for pod in pods if _is_unschedulable(pod)]
    for pool in gke.list_truly()["nodePools"]:
        if is_flex(pool) and pool["status"] == "RUNNING" and any(_fits(pod, pool) for pod in waiting):
            gke.fill(pool["name"])


def labels_of(pool: Json) -> dict[str, str]:
    """The labels of a pool's nodes: its own, and those that GKE puts there."""
    config = pool["config"]
    found = {**config["labels"], "cloud.google.com/gke-nodepool": pool["name"]}
    topology = (pool.get("placementPolicy") or {}).get("tpuTopology")
    if topology:
        found["cloud.google.com/gke-tpu-topology"] = topology
    family = config["machineType"].partition("-")[0]
    if family in _ACCELERATORS:
        found["cloud.google.com/gke-tpu-accelerator"] = _ACCELERATORS[family]
    if is_flex(pool):
        found["cloud.google.com/gke-flex-start"] = "true"
        found["cloud.google.com/gke-provisioning"] = "flex-start"
    return found


def _is_unschedulable(pod: Json) -> bool:
    """As kube-scheduler says it: of a pod at a gate it says something else."""
    conditions = (pod.get("status") or {}).get("conditions") or ()
    told = {one["type"]: (one["status"], one.get("reason")) for one in conditions}
    return not pod["spec"].get("nodeName") and told.get("PodScheduled") == ("False", "Unschedulable")


def _fits(pod: Json, pool: Json) -> bool:
    """Whether the pod would run on such a node; taints of a node's start are passed over."""
    labels, spec = labels_of(pool), pod["spec"]
    kept = [one["key"] for one in pool["config"]["taints"] if not one["key"].startswith(_STARTUP)]
    tolerated = {one.get("key") for one in spec.get("tolerations") or ()}
    selects = all(labels.get(key) == value for key, value in (spec.get("nodeSelector") or {}).items())
    return selects and all(key in tolerated or None in tolerated for key in kept)
