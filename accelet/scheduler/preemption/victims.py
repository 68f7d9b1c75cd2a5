"""Which gangs may be evicted, and for which."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from accelet.kube.objects import ObjectKey
from accelet.kube.pods import Pod
from accelet.scheduler.cluster.residents import Occupant
from accelet.scheduler.gangs.grouping import COUNTED_KINDS, Gang, GangKey, Owners
from accelet.scheduler.gangs.jobs import is_queued
from accelet.scheduler.gangs.levels import EXCLUSIVE_LEVEL
from accelet.scheduler.gangs.workload import Workload
from accelet.scheduler.release import pinned_to

_MAKERS = {
    "Job": frozenset(("Job",)),
    "JobSet": frozenset(("Job",)),
    # An MPIJob's launcher is of a Job.
    "Kubeflow": COUNTED_KINDS,
    "LeaderWorkerSet": frozenset(("StatefulSet",)),
    "RayCluster": frozenset(("RayCluster",)),
    # Its driver makes the executors.
    "SparkApplication": frozenset(("SparkApplication", "Pod")),
}
"""The controllers of the pods of each kind of gang that may be a victim.

Of these alone there is an owner that says what it is, and makes evicted pods anew.
"""

_SYSTEM = "kube-system"


@dataclass(frozen=True, slots=True)
class Victim:
    """A gang that may be evicted: its `pods` that are on nodes, and the highest `priority` of them."""

    key: GangKey
    priority: int
    pods: tuple[Pod, ...]

    @property
    def nodes(self) -> frozenset[str]:
        return frozenset(pod.node_name for pod in self.pods if pod.node_name)

    @property
    def occupant(self) -> Occupant:
        """Whose its pods are, and of which level it has a domain to itself."""
        levels = (pod.annotations.get(EXCLUSIVE_LEVEL, "") for pod in self.pods)
        return Occupant(self.key, next(filter(None, levels), ""))

    @property
    def since_s(self) -> float:
        """When the oldest of its pods came."""
        return min(pod.created_s for pod in self.pods)

    @property
    def ending_s(self) -> int:
        """How long its pods are given to end, at the most."""
        return max(pod.ending_s for pod in self.pods)


def victim_of(key: GangKey, members: Iterable[Pod], owners: Owners) -> Victim | None:
    """The gang as a victim; None where it cannot be one.

    It can where an owner that is known, and that Kueue does not admit, makes it, and each of its pods is on
    the node that this scheduler has given it. A gang that is being released is left alone, and the cluster's
    own pods are: whatever labels others set, pods of a controller that makes no gangs are in none.
    """
    makers = _MAKERS.get(key.kind)
    if makers is None or key.namespace == _SYSTEM:
        return None
    live = [pod for pod in members if not pod.is_terminal and pod.deleted_s is None]
    pods = tuple(sorted((pod for pod in live if pod.node_name), key=lambda pod: pod.key))
    is_whole = all(pod.node_name or pod.gates for pod in live)
    if not pods or not is_whole or any(pinned_to(pod) != pod.node_name for pod in pods):
        return None
    if not all(_is_made_by(pod, makers) and is_left_to_us(pod, owners, key) for pod in live):
        return None
    return Victim(key, max(pod.priority for pod in pods), pods)


def _is_made_by(pod: Pod, makers: Collection[str]) -> bool:
    return all(owner.kind in makers for owner in pod.owners if owner.is_controller)


def may_preempt(gang: Gang, owners: Owners) -> bool:
    """Whether others may be evicted for this gang, of which nothing has begun.

    Not where kube-scheduler has refused it on some node: it may do so again.
    """
    if gang.is_begun or gang.objection or gang.lacking or gang.excluded:
        return False
    return may_all_preempt(gang.pods, owners, gang.key)


def may_all_preempt(pods: Sequence[Pod], owners: Owners, key: GangKey) -> bool:
    """Whether others may be evicted for these pods of one gang, whose owners, if they have any, are known.

    Not for pods with rules about other pods, by which kube-scheduler may refuse them.
    """
    if not pods or any(not pod.may_preempt or pod.has_pod_rules or is_queued(pod.labels) for pod in pods):
        return False
    owned = [pod for pod in pods if any(owner.is_controller for owner in pod.owners)]
    return all(is_left_to_us(pod, owners, key) for pod in owned)


def rank_over(pods: Iterable[Pod]) -> int:
    """Below which priority gangs may be evicted for these pods: each goes before each of theirs."""
    return min((pod.priority for pod in pods), default=0)


def is_left_to_us(pod: Pod, owners: Owners, key: GangKey) -> bool:
    """Whether the pod's owners are known, and none of them is admitted by Kueue."""
    if is_queued(pod.labels) or not any(owner.is_controller for owner in pod.owners):
        return False
    # Of a PodGroup's pods, the group is not what makes them.
    found: Sequence[Workload | None] = (
        owners.find(key, pod),
        owners.maker_of_all(key, pod),
        owners.job_of(pod),
    )
    return found[0] is not None and not any(one is not None and one.is_queued for one in found)


def is_orphan(pod: Pod, owners: Owners, key: GangKey) -> bool:
    """Whether it is of a gang that could be a victim but that its owner is gone, with which it will go."""
    is_made = key.kind in _MAKERS and any(owner.is_controller for owner in pod.owners)
    return is_made and owners.find(key, pod) is None


def pod_keys(victims: Iterable[Victim]) -> list[ObjectKey]:
    return [pod.key for victim in victims for pod in victim.pods]
