"""A pod's rank in its job: from an index if it has one, else from its name."""

import re
from collections.abc import Sequence

from accelet.kube.pods import Pod
from accelet.scheduler.gangs.workload import group_order

Rank = tuple[int, str, int, int, str, int, str]
"""Sorts the pods of one job; no two pods of a namespace have the same."""

_INDEX = re.compile(r"\d{1,9}", re.ASCII)
_SUFFIX = re.compile(r"(.*?)(\d{1,9})", re.ASCII | re.DOTALL)

JOBSET_GROUP = "jobset.sigs.k8s.io/replicatedjob-name"
_GLOBAL_JOB = "jobset.sigs.k8s.io/job-global-index"
_JOB = "jobset.sigs.k8s.io/job-index"
KUBEFLOW_GROUPS = ("training.kubeflow.org/replica-type", "training.kubeflow.org/job-role")
"""Of the training operator and of the MPI operator."""

RAY_GROUP = "ray.io/group"
SPARK_ROLE = "spark-role"
_INDEXES = (
    "batch.kubernetes.io/job-completion-index",
    "training.kubeflow.org/replica-index",
    "leaderworkerset.sigs.k8s.io/worker-index",
    "apps.kubernetes.io/pod-index",
)
_RANDOM_NAMES = ("ReplicaSet", "Job", "DaemonSet", "RayCluster")
"""Owners that end the names of their pods with random letters and digits."""


def rank_of(pod: Pod, groups: Sequence[str] = ()) -> Rank:
    """Where `pod` comes in its job. `groups` are the job's kinds of pods in order, where that is known.

    An index that is no number from 0 up counts as none. Pods without an index follow those with one, by
    the number their name ends with; names that end with random letters are compared as they are.
    """
    order, group, job = _group(pod, groups)
    for label in _INDEXES:
        index = _index(pod, label)
        if index is not None:
            return order, group, job, 0, "", index, pod.name
    if any(owner.is_controller and owner.kind in _RANDOM_NAMES for owner in pod.owners):
        return order, group, job, 1, pod.name, 0, pod.name
    match = _SUFFIX.fullmatch(pod.name)
    prefix, number = (match[1], int(match[2])) if match else (pod.name, 0)
    return order, group, job, 1, prefix, number, pod.name


def index_of(pod: Pod) -> tuple[str, int] | None:
    """The kind of pod that it is, in its job, and its number among these; None of one without a number.

    A pod of a Job alone is of a kind without a name, one of a JobSet of that of its replicated Job.
    """
    number = next((found for label in _INDEXES if (found := _index(pod, label)) is not None), None)
    if number is None:
        return None
    group = pod.labels.get(JOBSET_GROUP) or next(
        (pod.labels[one] for one in KUBEFLOW_GROUPS if one in pod.labels), ""
    )
    return group if JOBSET_GROUP in pod.labels else group.lower(), number


def has_index(rank: Rank) -> bool:
    """Whether the rank is from an index, which is at its place before the last."""
    return rank[3] == 0


def is_named_at_random(rank: Rank) -> bool:
    """Whether the rank is from a name alone that ends with random letters."""
    return rank[3] == 1 and rank[4] == rank[6]


def _group(pod: Pod, groups: Sequence[str]) -> tuple[int, str, int]:
    """Which kind of pod it is, and which of the Jobs of that kind it is from."""
    if JOBSET_GROUP in pod.labels:
        everywhere = _index(pod, _GLOBAL_JOB)
        if everywhere is not None:
            return 0, "", everywhere
        name = pod.labels[JOBSET_GROUP]
        return groups.index(name) if name in groups else len(groups), name, _index(pod, _JOB) or 0
    for label in KUBEFLOW_GROUPS:
        if label in pod.labels:
            return (*group_order(pod.labels[label]), 0)
    for label in (RAY_GROUP, SPARK_ROLE):
        if label in pod.labels:
            name = pod.labels[label]
            return groups.index(name) if name in groups else len(groups), name, 0
    return 0, "", 0


def _index(pod: Pod, label: str) -> int | None:
    text = pod.labels.get(label) or pod.annotations.get(label)
    return int(text) if text and _INDEX.fullmatch(text) else None
