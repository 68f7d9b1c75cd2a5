"""JobSets and Jobs as their authors write them."""

from typing import Any

ACCELERATOR = "cloud.google.com/gke-tpu-accelerator"
TOPOLOGY = "cloud.google.com/gke-tpu-topology"
PROVISION = {"accelet.dev/provision": "true"}


def job_spec(
    accelerator: str = "tpu-v6e-slice",
    topology: str = "4x4",
    chips: object = 4,
    pods: int | None = 4,
    selector: dict[str, str] | None = None,
    **pod_spec: Any,
) -> dict[str, Any]:
    container = {"name": "main", "image": "train", "resources": {"limits": {"google.com/tpu": chips}}}
    chosen = {ACCELERATOR: accelerator, TOPOLOGY: topology, **(selector or {})}
    pod = {"nodeSelector": chosen, "containers": [container], **pod_spec}
    spec: dict[str, Any] = {"template": {"spec": pod}, "completionMode": "Indexed"}
    return spec | ({} if pods is None else {"parallelism": pods, "completions": pods})


def job(name: str = "train", **changes: Any) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "ml", "uid": f"uid-of-{name}", "annotations": PROVISION}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": job_spec(**changes)}


def job_set(name: str = "train", replicas: int = 2, **changes: Any) -> dict[str, Any]:
    metadata = {"name": name, "namespace": "ml", "uid": f"uid-of-{name}", "annotations": PROVISION}
    replicated = {"name": "w", "replicas": replicas, "template": {"spec": job_spec(**changes)}}
    return {
        "apiVersion": "jobset.x-k8s.io/v1alpha2",
        "kind": "JobSet",
        "metadata": metadata,
        "spec": {"replicatedJobs": [replicated]},
    }


def pod_template(**changes: Any) -> dict[str, Any]:
    """A template of pods that ask for TPUs, as `job_spec` has it."""
    return dict(job_spec(**changes)["template"])


def leader_worker_set(
    name: str = "serve",
    replicas: int = 2,
    size: int = 4,
    *,
    worker: dict[str, Any] | None = None,
    leader: dict[str, Any] | None = None,
    annotations: dict[str, str] | None = None,
    sub_group_policy: dict[str, Any] | None = None,
    max_surge: int | str | None = None,
) -> dict[str, Any]:
    exclusive = {"leaderworkerset.sigs.k8s.io/exclusive-topology": "cloud.google.com/gke-nodepool"}
    written = PROVISION | (exclusive if annotations is None else annotations)
    group: dict[str, Any] = {"size": size, "workerTemplate": worker or pod_template()}
    spec: dict[str, Any] = {"replicas": replicas, "leaderWorkerTemplate": group}
    if leader is not None:
        group["leaderTemplate"] = leader
    if sub_group_policy is not None:
        group["subGroupPolicy"] = sub_group_policy
    if max_surge is not None:
        spec["rolloutStrategy"] = {"rollingUpdateConfiguration": {"maxSurge": max_surge}}
    metadata = {"name": name, "namespace": "ml", "uid": f"uid-of-{name}", "annotations": written}
    return {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "metadata": metadata,
        "spec": spec,
    }


REPLICA_NAME = "ray.io/worker-group-replica-name"


def kept_apart(topology_key: str = "cloud.google.com/gke-nodepool") -> dict[str, Any]:
    """The rules that keep each replica of a worker group on one slice."""
    selector = {"topologyKey": topology_key, "labelSelector": {"matchLabels": {"ray.io/node-type": "worker"}}}
    together, apart = {"matchLabelKeys": [REPLICA_NAME]}, {"mismatchLabelKeys": [REPLICA_NAME]}
    return {
        "podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [selector | together]},
        "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [selector | apart]},
    }


def ray_group(
    name: str = "tpus",
    replicas: int | None = 1,
    hosts: int | None = 4,
    *,
    least: int | None = 0,
    most: int | None = 8,
    suspend: bool | None = None,
    **changes: Any,
) -> dict[str, Any]:
    """A worker group; `changes` are those of `job_spec`."""
    numbers = {"replicas": replicas, "minReplicas": least, "maxReplicas": most, "numOfHosts": hosts}
    given = {key: value for key, value in (numbers | {"suspend": suspend}).items() if value is not None}
    return {"groupName": name, "rayStartParams": {}, "template": pod_template(**changes)} | given


def ray_cluster(*groups: dict[str, Any], name: str = "ray", **spec: Any) -> dict[str, Any]:
    head = {"rayStartParams": {}, "template": {"spec": {"containers": [{"name": "head", "image": "ray"}]}}}
    metadata = {"name": name, "namespace": "ml", "uid": f"uid-of-{name}", "annotations": PROVISION}
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayCluster",
        "metadata": metadata,
        "spec": {"headGroupSpec": head, "workerGroupSpecs": list(groups)} | spec,
    }
