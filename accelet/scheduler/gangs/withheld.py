"""Pods that are made only once their leader has a node: whose, in which domain, and what stands in for them.

The annotation `exclusive-topology` names a label of nodes. JobSet's webhook (v0.12.0,
pkg/webhooks/pod_webhook.go) refuses every pod of a Job but that with index 0 until that one has a node, and
LeaderWorkerSet (v0.8.0, pkg/controllers/pod_controller.go) makes the workers of a group only then. The
leader keeps its Job, or group, away from others by pod anti-affinity; the pods after it select its domain.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Final

from accelet.kube.objects import ObjectKey
from accelet.kube.pods import Pod
from accelet.scheduler.gangs.podsets import WORKER_INDEX
from accelet.scheduler.gangs.rank import JOBSET_GROUP, index_of
from accelet.scheduler.gangs.workload import Workload

JOB_SET_EXCLUSIVE: Final = "alpha.jobset.sigs.k8s.io/exclusive-topology"
JOB_SET_SELECTOR: Final = "alpha.jobset.sigs.k8s.io/node-selector"
LEADER_WORKER_EXCLUSIVE: Final = "leaderworkerset.sigs.k8s.io/exclusive-topology"

MOST_STAND_INS: Final = 8_000
"""Of one gang: more pods do not fit into one plan."""

_TO_COME = " (to come)"
_COMPLETION_INDEX = "batch.kubernetes.io/job-completion-index"
_JOB_NAMES = ("batch.kubernetes.io/job-name", "job-name")
_EXCLUSIVE_OF = {"JobSet": JOB_SET_EXCLUSIVE, "LeaderWorkerSet": LEADER_WORKER_EXCLUSIVE}
KINDS_WITH_LEADERS: Final = frozenset(_EXCLUSIVE_OF)
EXCLUSIVE_TOPOLOGY: Final = "exclusive-topology"
"""What people call either annotation."""


@dataclass(frozen=True, slots=True)
class OwnDomain:
    """Pods that are to have a domain to themselves: the nodes that have one value of `label`.

    `annotation` asks for it; `title` names the pods for people.
    """

    title: str
    annotation: str
    label: str
    members: frozenset[ObjectKey]


@dataclass(frozen=True, slots=True)
class FollowerToCome:
    """A pod that is still to be made, and one that asks for the same."""

    pod: Pod
    like: Pod


def is_stand_in(pod: Pod) -> bool:
    """Whether it stands for one that is still to be made: no pod can have such a name."""
    return pod.name.endswith(_TO_COME)


def own_label(pod: Pod) -> str | None:
    """The label whose domain is to be its Job's or its group's alone; None without one.

    JobSet's annotation does nothing beside its node selector.
    """
    if JOB_SET_EXCLUSIVE in pod.annotations:
        return None if JOB_SET_SELECTOR in pod.annotations else pod.annotations[JOB_SET_EXCLUSIVE]
    return pod.annotations.get(LEADER_WORKER_EXCLUSIVE)


def withholding(pods: Iterable[Pod]) -> str | None:
    """The annotation by which pods beside these are made only once one of them has a node."""
    first = next((pod for pod in pods if own_label(pod) is not None), None)
    if first is None:
        return None
    return JOB_SET_EXCLUSIVE if JOB_SET_EXCLUSIVE in first.annotations else LEADER_WORKER_EXCLUSIVE


def read_own_domains(kind: str, pods: Sequence[Pod]) -> tuple[OwnDomain, ...]:
    """Which of these pods of a gang of this kind are to have domains to themselves."""
    annotation = _EXCLUSIVE_OF.get(kind)
    if annotation is None:
        return ()
    return tuple(
        OwnDomain(title, annotation, some[0].annotations[annotation], frozenset(pod.key for pod in some))
        for title, some in _followings(kind, pods)
    )


def stand_ins(kind: str, pods: Sequence[Pod], workload: Workload | None) -> Sequence[FollowerToCome]:
    """What stands in for the pods that wait for a leader among these, which has no node yet.

    It asks for what its leader does, in a group of two templates for what the workers' says, and has the
    leader's rules for nodes and for other pods. No more than `MOST_STAND_INS`; none while leaders are missing
    themselves.
    """
    if workload is None or kind not in _EXCLUSIVE_OF:
        return ()
    led = list(_led(kind, pods))
    to_come = sum(_size(kind, leader, workload) - len(some) for leader, some in led)
    if len(pods) + to_come < workload.size:
        return ()
    return list(islice(_stand_ins(kind, led, workload), MOST_STAND_INS))


def _stand_ins(
    kind: str, led: Sequence[tuple[Pod, Sequence[Pod]]], workload: Workload
) -> Iterator[FollowerToCome]:
    for leader, some in led:
        there = {number for pod in some if (number := _number(pod)) is not None}
        for number in range(1, _size(kind, leader, workload)):
            if number not in there:
                yield _stand_in(kind, leader, workload, number)


def _stand_in(kind: str, leader: Pod, workload: Workload, number: int) -> FollowerToCome:
    like = leader
    index = _COMPLETION_INDEX
    if kind == "LeaderWorkerSet":
        index = WORKER_INDEX
        like = workload.worker or leader
    pod = replace(
        like,
        namespace=leader.namespace,
        name=f"{_name_of(kind, leader)}-{number}{_TO_COME}",
        uid="",
        created_s=leader.created_s,
        labels={**leader.labels, index: str(number)},
        annotations=leader.annotations,
        owners=leader.owners,
        gates=leader.gates,
        priority=leader.priority,
    )
    return FollowerToCome(pod, like)


def _led(kind: str, pods: Sequence[Pod]) -> Iterator[tuple[Pod, Sequence[Pod]]]:
    """Each leader that waits at a gate, and the pods of its Job or group that are there, itself included."""
    for _, some in _followings(kind, pods):
        leader = next((pod for pod in some if _number(pod) == 0), None)
        if leader is not None and leader.gates and leader.node_name is None:
            yield leader, some


def _followings(kind: str, pods: Sequence[Pod]) -> Iterator[tuple[str, Sequence[Pod]]]:
    """The pods of each Job, or group, that is to have a domain to itself, and what people call it."""
    found: defaultdict[str, list[Pod]] = defaultdict(list)
    what = "Job" if kind == "JobSet" else "group"
    for pod in pods:
        if _EXCLUSIVE_OF[kind] in pod.annotations and own_label(pod) is not None:
            found[f"{what} {_name_of(kind, pod)}"].append(pod)
    yield from found.items()


def _name_of(kind: str, pod: Pod) -> str:
    if kind == "JobSet":
        return next((pod.labels[name] for name in _JOB_NAMES if name in pod.labels), pod.name)
    return "-".join(
        pod.labels.get(f"leaderworkerset.sigs.k8s.io/{part}", "0") for part in ("name", "group-index")
    )


def _number(pod: Pod) -> int | None:
    found = index_of(pod)
    return found[1] if found else None


def _size(kind: str, leader: Pod, workload: Workload) -> int:
    """How many pods a leader's Job or group has at a time."""
    if kind == "LeaderWorkerSet":
        return workload.size
    return workload.each.get(leader.labels.get(JOBSET_GROUP, ""), 1)
