"""What authors are warned of: it may work, and nobody can tell."""

from accelet.provisioner.demand.selectors import ACCELERATOR, TOPOLOGY
from accelet.provisioner.identity.sentences import HALF, UNCHECKED, UNLIKE
from accelet.provisioner.identity.template import TpuTemplate
from accelet.provisioner.identity.worker import WorkerPod
from accelet.provisioner.identity.workloads import (
    ReplicatedJob,
    WorkerJob,
    WorkerJobSet,
    WorkerSet,
    are_alike,
    is_single,
)


def notice_job(job: WorkerJob) -> str | None:
    """What the author of a Job is warned of."""
    return _notice(job.template, is_numbered=job.is_indexed and job.completions > 1)


def notice_set(workers: WorkerSet) -> str | None:
    """What the author of a StatefulSet is warned of."""
    return _notice(workers.template, is_numbered=workers.replicas > 1)


def notice_pod(pod: WorkerPod) -> str | None:
    """What the author of a pod is warned of; controllers do not read warnings."""
    return _notice(pod.template, is_numbered=False) if pod.source == "none" else None


def notice_job_set(job_set: WorkerJobSet) -> str | None:
    """What the author of a JobSet is warned of."""
    for one in job_set.jobs:
        found = notice_job(one.job) or _notice_group(job_set, one)
        if found is not None:
            return f"replicatedJob {one.name}: {found}"
    return None


def _notice(template: TpuTemplate, *, is_numbered: bool) -> str | None:
    if template.is_left_alone or template.is_own:
        return None
    if is_numbered and not template.is_known:
        return UNCHECKED.format(missing=TOPOLOGY if template.accelerator else ACCELERATOR)
    halves = (one.sets_id() != one.sets_hostnames() for one in template.containers)
    return HALF if any(halves) else None


def _notice_group(job_set: WorkerJobSet, one: ReplicatedJob) -> str | None:
    template, mates = one.job.template, job_set.mates(one)
    if template.is_left_alone or template.is_own or is_single(one):
        return None
    return UNLIKE if sum(each.replicas for each in mates) > 1 and not are_alike(mates) else None
