"""What is to be done for a released pod that cannot be on the node that it was released to."""

from typing import Literal

from accelet.kube.pods import Pod
from accelet.scheduler.gangs.jobs import JobTerms

Remedy = Literal["evict", "suspend", "tell"]
"""Evict the pod for its owner to make it anew; suspend and resume its Job; tell people, who must act."""

_INDEX_FAILURES = "batch.kubernetes.io/job-index-failure-count"
_MOST_DIGITS = 9


def remedy_for(pod: Pod, job: JobTerms | None, *, may_cost_a_retry: bool) -> Remedy:
    """What frees a pod at no cost, or, if it `may_cost_a_retry`, at the cost of one that its Job has left.

    `job` is None where the pod's owner is no Job, or one that nobody has seen: what a pod costs such a Job is
    not known.
    """
    owner = next((owner for owner in pod.owners if owner.is_controller), None)
    if owner is None:
        return "tell"
    if owner.kind != "Job" or (job is None and may_cost_a_retry):
        return "evict"
    if job is None:
        return "tell"
    if job.forgives_disruption or (may_cost_a_retry and _has_retries(pod, job)):
        return "evict"
    return "suspend" if job.may_suspend else "tell"


def _has_retries(pod: Pod, job: JobTerms) -> bool:
    if job.retries_left <= 0:
        return False
    if job.retries_each is None:
        return True
    text = pod.annotations.get(_INDEX_FAILURES, "0")
    is_number = text.isascii() and text.isdigit() and len(text) <= _MOST_DIGITS
    return is_number and int(text) < job.retries_each
