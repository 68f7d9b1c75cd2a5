"""Pods that a gang waits for and that their controller does not make while it is gated."""

from typing import Final

from accelet.kube.pods import Pod
from accelet.scheduler.gangs.grouping import Gang
from accelet.scheduler.gangs.levels import EXCLUSIVE_LEVEL

JOB_SET_EXCLUSIVE: Final = "alpha.jobset.sigs.k8s.io/exclusive-topology"
JOB_SET_SELECTOR: Final = "alpha.jobset.sigs.k8s.io/node-selector"
LEADER_WORKER_EXCLUSIVE: Final = "leaderworkerset.sigs.k8s.io/exclusive-topology"


def explain_lacking(gang: Gang) -> str:
    """How many pods of a gang are still to be created, and why they may never be, for people.

    JobSet's webhook refuses all pods of a Job but the first until that one has a node
    (jobset v0.12.0, pkg/webhooks/pod_webhook.go), and LeaderWorkerSet makes the workers of a group only once
    its leader has one. Both follow an annotation. JobSet's does nothing beside its node selector.
    """
    text = f"waits for {gang.lacking} of its {gang.size} pods to be created"
    annotation = next((found for pod in gang.pods if (found := _withholding(pod))), None)
    if annotation is None:
        return text
    return (
        f"{text}; by the annotation {annotation} they are created only once the first has a node, and it "
        "gets none without them: leave the annotation out, the scheduler places them near each other itself; "
        f"{EXCLUSIVE_LEVEL} gives them a domain of their own"
    )


def _withholding(pod: Pod) -> str | None:
    if JOB_SET_EXCLUSIVE in pod.annotations and JOB_SET_SELECTOR not in pod.annotations:
        return JOB_SET_EXCLUSIVE
    return LEADER_WORKER_EXCLUSIVE if LEADER_WORKER_EXCLUSIVE in pod.annotations else None
