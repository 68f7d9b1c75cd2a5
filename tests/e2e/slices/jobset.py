"""JobSets as JobSet's own controller takes them, without its webhooks."""

from typing import Any

from accelet.provisioner.demand.selectors import NODE_POOL
from accelet.provisioner.demand.slices import TPU
from accelet.provisioner.watching import JOB_SETS
from tests.unit.provisioner.manifests import PROVISION, job_spec

SLICES, HOSTS = 2, 4
TOPOLOGIES = {2: "2x4", 4: "4x4"}
"""Of as many machines of four chips."""
_KEYS = ("exclusive-topology", "node-selector")


def job_set(name: str, hosts: int = HOSTS) -> dict[str, Any]:
    """As JobSet's webhook would have filled it in."""
    spec = job_spec(topology=TOPOLOGIES[hosts], pods=hosts, restartPolicy="Never")
    spec["template"]["spec"]["tolerations"] = [{"key": TPU, "operator": "Exists"}]
    bound = {
        f"alpha.jobset.sigs.k8s.io/{key}": value for key, value in zip(_KEYS, (NODE_POOL, ""), strict=True)
    }
    job = {"metadata": {"annotations": bound}, "spec": spec | {"backoffLimit": 0}}
    replicated = {"name": "w", "replicas": SLICES, "groupName": "default", "template": job}
    return {
        "apiVersion": JOB_SETS.api_version,
        "kind": "JobSet",
        "metadata": {"name": name, "annotations": PROVISION},
        "spec": {
            "replicatedJobs": [replicated],
            "network": {"enableDNSHostnames": True, "publishNotReadyAddresses": True},
            "successPolicy": {"operator": "All", "targetReplicatedJobs": []},
            "startupPolicy": {"startupPolicyOrder": "AnyOrder"},
        },
    }
