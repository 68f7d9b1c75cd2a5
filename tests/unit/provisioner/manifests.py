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
