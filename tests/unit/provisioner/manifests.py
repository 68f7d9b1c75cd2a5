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
