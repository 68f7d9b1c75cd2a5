"""Pods that are planned before they are there: told from real ones by a name that no pod can have."""

from accelet.kube.pods import Pod

POD_SET = "accelet.dev/pod-set"
"""On a placeholder: the name of its pod set."""

PLACEHOLDERS = "placeholders"
"""The kind of a gang of placeholders, which has the name of their Workload."""


def placeholder_name(workload: str, rank: int) -> str:
    return f"{workload}/{rank}"


def placeholder_rank(name: str) -> int | None:
    """The rank that such a name says; None of any other."""
    _, slash, rank = name.partition("/")
    return int(rank) if slash and rank.isdecimal() and len(rank) < 10 else None


def is_placeholder(pod: Pod) -> bool:
    """Whether the pod stands for one that a Workload of Kueue will have."""
    return "/" in pod.name and bool(pod.owners)
