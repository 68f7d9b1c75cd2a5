"""The Jobs and pods that controllers make, with the marks by which their workers are known.

As JobSet 0.12 (pkg/controllers) and Kubernetes 1.36 (pkg/controller/job) make them, and as the policies write
on them: where there is no cluster, plans and demos go this way.
"""

from collections.abc import Mapping
from typing import Any, Final

from accelet.provisioner.identity.names import INDEX, JOB_INDEX, JOB_SET
from accelet.provisioner.identity.worker import environment_of, parse_worker_pod
from accelet.provisioner.identity.workloads import parse_worker_job, parse_worker_job_set

Object = dict[str, Any]

REPLICATED_JOB: Final = "jobset.sigs.k8s.io/replicatedjob-name"
JOB_NAME: Final = "batch.kubernetes.io/job-name"


def job_of_set(job_set: Object, replicated_job: str, index: int) -> Object:
    """The Job of that number, stamped.

    Raises:
        MalformedObjectError: the JobSet is not what the API promises.
        StopIteration: it has no such replicatedJob.
    """
    parsed = parse_worker_job_set(job_set)
    name, spec = job_set["metadata"]["name"], job_set["spec"]
    place = next(place for place, one in enumerate(parsed.jobs) if one.name == replicated_job)
    marks = {JOB_SET: name, REPLICATED_JOB: replicated_job, JOB_INDEX: str(index)}
    job = {"completionMode": "Indexed", **spec["replicatedJobs"][place]["template"]["spec"]}
    job["template"] = _marked(job["template"], marks, parsed.stamps(parsed.jobs[place]))
    if parsed.has_names:
        subdomain = (spec.get("network") or {}).get("subdomain") or name
        job["template"]["spec"] = {**job["template"]["spec"], "subdomain": subdomain}
    return stamped_job(
        {
            "apiVersion": "batch/v1",
            "kind": "Job",
            "metadata": {
                "name": f"{name}-{replicated_job}-{index}",
                "namespace": job_set["metadata"].get("namespace", "default"),
                "labels": marks,
                "ownerReferences": [_reference(job_set)],
            },
            "spec": job,
        }
    )


def stamped_job(job: Object) -> Object:
    """The Job with what is written on its template when it is made."""
    stamps = parse_worker_job(job).stamps
    template = _marked(job["spec"]["template"], {}, stamps)
    return {**job, "spec": {**job["spec"], "template": template}}


def pod_of_job(job: Object, index: int) -> Object:
    """The pod of that number of an Indexed Job, without what is written on pods."""
    name, template = job["metadata"]["name"], job["spec"]["template"]
    marked = _marked(template, {JOB_NAME: name}, {INDEX: str(index)})
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            **marked["metadata"],
            "name": f"{name}-{index}",
            "namespace": job["metadata"].get("namespace", "default"),
            "ownerReferences": [_reference(job)],
        },
        "spec": {**template["spec"], "hostname": f"{name}-{index}"},
    }


def worker_environment(pod: Object) -> Mapping[str, str]:
    """What the pod's TPU container is given.

    Raises:
        MalformedObjectError: the pod is not what the API promises.
    """
    return environment_of(parse_worker_pod(pod))


def first_worker(owner: Object, replicated_job: str | None, index: int) -> Mapping[str, str]:
    """What the first worker of a slice is given: of a Job, or of that Job of a JobSet.

    Raises:
        MalformedObjectError: the owner is not what the API promises.
        StopIteration: the JobSet has no such replicatedJob.
    """
    made = stamped_job(owner) if replicated_job is None else job_of_set(owner, replicated_job, index)
    return worker_environment(pod_of_job(made, 0))


def _marked(template: Object, labels: Mapping[str, str], annotations: Mapping[str, str]) -> Object:
    metadata = template.get("metadata") or {}
    written = {
        "labels": {**(metadata.get("labels") or {}), **labels},
        "annotations": {**(metadata.get("annotations") or {}), **annotations},
    }
    return {**template, "metadata": {**metadata, **written}}


def _reference(owner: Object) -> Object:
    metadata = owner["metadata"]
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": metadata["name"],
        "uid": metadata.get("uid", ""),
        "controller": True,
    }
