"""The objects that are made for a task, and the patches that change them."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import msgspec

from accelet.gputask.objects.jobs import TaskJob
from accelet.gputask.objects.launchers import DEFAULT_CLUSTER_DOMAIN, read_world
from accelet.gputask.objects.names import ATTEMPT, DEADLINE, QUEUE, TASK, TASK_UID, WORLD, job_name
from accelet.gputask.objects.task import GpuTask
from accelet.gputask.objects.template import pod_template
from accelet.kinds.gputask import GPU_TASKS
from accelet.kube.apiresources import JOBS, Body
from accelet.kube.writing.ownership import owner_reference


def job_body(
    task: GpuTask,
    attempt: int,
    gate_prefix: str,
    deadline_s: int | None,
    cluster_domain: str = DEFAULT_CLUSTER_DOMAIN,
) -> dict[str, Any]:
    """The Job of one attempt. In a queue it begins suspended: the queue lets it go.

    Raises:
        OverlayError: what the task's `template` says cannot be laid over its pods.
    """
    spec = task.spec
    body: dict[str, Any] = {
        "completionMode": "Indexed",
        "parallelism": spec.replicas,
        "completions": spec.replicas,
        "suspend": spec.suspend or spec.queue is not None,
        "podReplacementPolicy": "Failed",
        "podFailurePolicy": {"rules": _failure_rules(task)},
        "template": pod_template(task, attempt, gate_prefix, cluster_domain),
    }
    if task.restart == "Rank":
        body |= {"backoffLimitPerIndex": task.failure.retries, "maxFailedIndexes": 0}
    else:
        body["backoffLimit"] = 0
    if spec.success == "RankZero":
        body["successPolicy"] = {"rules": [{"succeededIndexes": "0"}]}
    if deadline_s is not None:
        body["activeDeadlineSeconds"] = deadline_s
    labels = {**_labels(task), ATTEMPT: str(attempt)}
    if spec.queue is not None:
        labels[QUEUE] = spec.queue
    return {
        "apiVersion": JOBS.api_version,
        "kind": JOBS.kind,
        "metadata": {
            "name": job_name(task.name, attempt),
            "labels": labels,
            "annotations": {WORLD: read_world(task), DEADLINE: _note_deadline(spec.deadline_seconds)},
            "ownerReferences": [_owner(task)],
        },
        "spec": body,
    }


def restarting_all(task: GpuTask) -> GpuTask:
    """The same task, of which all ranks begin anew in new pods when one fails."""
    failure = msgspec.structs.replace(task.failure, restart="All")
    return replace(task, spec=msgspec.structs.replace(task.spec, on_failure=failure))


def service_body(task: GpuTask) -> dict[str, Any]:
    """The headless Service by which the ranks find each other, ready or not."""
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": task.name, "labels": _labels(task), "ownerReferences": [_owner(task)]},
        "spec": {"clusterIP": "None", "publishNotReadyAddresses": True, "selector": {TASK_UID: task.uid}},
    }


def suspend_patch(job: TaskJob, *, suspended: bool) -> Body:
    return _patch(job, {"suspend": suspended})


def scale_patch(job: TaskJob, replicas: int) -> Body:
    """Both together: the API server takes an Indexed Job's completions only with its parallelism."""
    return _patch(job, {"parallelism": replicas, "completions": replicas})


def deadline_patch(job: TaskJob, deadline_s: int | None, deadline_of: int | None) -> Body:
    """A Job's own deadline, and the `deadlineSeconds` of its task that it comes from; None takes it away."""
    noted = {DEADLINE: _note_deadline(deadline_of)}
    return _patch(job, {"activeDeadlineSeconds": deadline_s}, noted)


def _note_deadline(deadline_of: int | None) -> str:
    return "" if deadline_of is None else str(deadline_of)


def _failure_rules(task: GpuTask) -> list[dict[str, Any]]:
    """Disruptions end an attempt of which all ranks restart, and are ignored where each rank is its own."""
    rules: list[dict[str, Any]] = []
    if codes := sorted(task.failure.fatal_exit_codes):
        rules.append({"action": "FailJob", "onExitCodes": {"operator": "In", "values": codes}})
    action = _forgiven(task) if task.restart == "Rank" else "FailJob"
    rules.append({"action": action, "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]})
    return rules


def _forgiven(task: GpuTask) -> str:
    return "Ignore" if task.failure.forgive_disruptions else "Count"


def _labels(task: GpuTask) -> dict[str, str]:
    return {TASK: task.name, TASK_UID: task.uid}


def _owner(task: GpuTask) -> dict[str, object]:
    return owner_reference(GPU_TASKS, task.name, task.uid)


def _patch(job: TaskJob, spec: Body, annotations: Mapping[str, str] | None = None) -> Body:
    """A merge patch for this version of this Job alone."""
    metadata: dict[str, object] = {"uid": job.uid, "resourceVersion": job.resource_version}
    if annotations is not None:
        metadata["annotations"] = annotations
    return {"metadata": metadata, "spec": spec}
