"""A pool as GKE's nodePools.create takes it."""

from typing import Any, Final

from accelet.provisioner.pools.machines import PlacementPolicy, Refusal
from accelet.provisioner.pools.plan import PoolPlan
from accelet.provisioner.settings import NodeSettings

_EFFECTS: Final = {
    "NoSchedule": "NO_SCHEDULE",
    "PreferNoSchedule": "PREFER_NO_SCHEDULE",
    "NoExecute": "NO_EXECUTE",
}
_MOST_LABELS: Final = 1024
"""Characters of all labels of a request together (container v1, NodeConfig.labels)."""


def render_body(plan: PoolPlan, node: NodeSettings) -> dict[str, Any] | Refusal:
    """The body of nodePools.create. Without autoscaling: a slice is made and deleted, never resized.

    A pool of flex-start is the exception. GKE takes it only without machines and with autoscaling, which
    makes all of them at once (container v1, NodeConfig.flexStart; GKE, "About flex-start").
    """
    size = sum(len(key) + len(value) for key, value in plan.all_labels.items())
    if size > _MOST_LABELS:
        return Refusal(f"the labels of the pool have {size} characters together; GKE takes {_MOST_LABELS}")
    pool: dict[str, Any] = {
        "name": plan.name,
        "config": _config(plan, node),
        **(_filled_later(plan) if plan.is_filled_later else _made_at_once(plan)),
        "maxPodsConstraint": {"maxPodsPerNode": str(node.pods_per_node)},
        "nodeDrainConfig": {"respectPdbDuringNodePoolDeletion": True},
    }
    if plan.attempt.zone:
        pool["locations"] = [plan.attempt.zone]
    if (placement := render_placement(plan)) is not None:
        pool["placementPolicy"] = placement
    if node.version:
        pool["version"] = node.version
    if node.networks:
        pool["networkConfig"] = {"additionalNodeNetworkConfigs": [_network(one) for one in node.networks]}
    return {"nodePool": pool}


def _made_at_once(plan: PoolPlan) -> dict[str, Any]:
    return {
        "initialNodeCount": plan.machines.hosts,
        "management": {"autoRepair": True, "autoUpgrade": True},
        "maintenancePolicy": {"exclusionUntilEndOfSupport": {"enabled": True}},
    }


def _filled_later(plan: PoolPlan) -> dict[str, Any]:
    """Upgrades replace no machine that runs (`SHORT_LIVED`), and nothing is repaired."""
    return {
        "initialNodeCount": 0,
        "autoscaling": {
            "enabled": True,
            "totalMinNodeCount": 0,
            "totalMaxNodeCount": plan.machines.hosts,
            "locationPolicy": "ANY",
        },
        "management": {"autoRepair": False, "autoUpgrade": True},
        "upgradeSettings": {"strategy": "SHORT_LIVED"},
    }


def render_placement(plan: PoolPlan) -> dict[str, str] | None:
    """The placement policy; None where a slice is a single machine, with which GKE refuses one."""
    match plan.machines.placement:
        case PlacementPolicy.NONE:
            return None
        case PlacementPolicy.COMPACT:
            return {"type": "COMPACT", "tpuTopology": plan.machines.topology}
        case PlacementPolicy.WORKLOAD_POLICY:
            return {"policyName": plan.placement_policy or ""}


def _config(plan: PoolPlan, node: NodeSettings) -> dict[str, Any]:
    config: dict[str, Any] = {
        "machineType": plan.machines.machine_type,
        "labels": dict(plan.all_labels),
        "taints": [
            {"key": taint.key, "value": taint.value, "effect": _EFFECTS[taint.effect]}
            for taint in plan.taints
        ],
        **_tier(plan, node),
    }
    if node.service_account:
        config["serviceAccount"] = node.service_account
        config["oauthScopes"] = ["https://www.googleapis.com/auth/cloud-platform"]
    if node.disk_type:
        config["diskType"] = node.disk_type
    if node.disk_size_gb is not None:
        config["diskSizeGb"] = node.disk_size_gb
    if node.boot_disk_kms_key:
        config["bootDiskKmsKey"] = node.boot_disk_kms_key
    if node.secondary_boot_disk:
        config["secondaryBootDisks"] = [
            {"diskImage": node.secondary_boot_disk, "mode": "CONTAINER_IMAGE_CACHE"}
        ]
        config["gcfsConfig"] = {"enabled": True}
    if node.tags:
        config["tags"] = list(node.tags)
    if node.secure_boot:
        config["shieldedInstanceConfig"] = {"enableSecureBoot": True, "enableIntegrityMonitoring": True}
    if node.confidential_storage:
        config["enableConfidentialStorage"] = True
    if plan.billing:
        config["resourceLabels"] = dict(plan.billing)
    return config


def _tier(plan: PoolPlan, node: NodeSettings) -> dict[str, Any]:
    tier = plan.attempt.tier
    match tier.kind:
        case "spot":
            return {"spot": True}
        case "reservation":
            affinity = {
                "consumeReservationType": "SPECIFIC_RESERVATION",
                "key": "compute.googleapis.com/reservation-name",
                "values": [tier.reservation],
            }
            return {"reservationAffinity": affinity}
        case "flex-start":
            run_s = node.flex_start_run_s
            return {
                "flexStart": True,
                "reservationAffinity": {"consumeReservationType": "NO_RESERVATION"},
                **({} if run_s is None else {"maxRunDuration": f"{run_s}s"}),
            }
        case "on-demand":
            return {}


def _network(text: str) -> dict[str, str]:
    network, _, subnetwork = text.partition(":")
    return {"network": network, "subnetwork": subnetwork}
