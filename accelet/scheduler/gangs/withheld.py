"""Pods that are made only once their leader has a node: whose, in which domain, and what stands in for them.

The annotation `exclusive-topology` names a label of nodes. JobSet's webhook (v0.12.0,
pkg/webhooks/pod_webhook.go) refuses every pod of a Job but that with index 0 until that one has a node, and
LeaderWorkerSet (v0.8.0, pkg/controllers/pod_controller.go) makes the workers of a group only then. The
leader keeps its Job, or group, away from others by pod anti-affinity; the pods after it select its domain.
"""

import itertools
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Final

from accelet.kube.objects import ObjectKey
from accelet.kube.pods import Pod
from accelet.scheduler.gangs.rank import JOBSET_GROUP, index_of
from accelet.scheduler.gangs.workload import LEADER_WORKER_EXCLUSIVE, Workload

JOB_SET_EXCLUSIVE: Final = "alpha.jobset.sigs.k8s.io/exclusive-topology"
JOB_SET_SELECTOR: Final = "alpha.jobset.sigs.k8s.io/node-selector"
GROUP_SIZE: Final = "leaderworkerset.sigs.k8s.io/size"

MOST_STAND_INS: Final = 4_096
"""Of one gang. One pod and a number in its owner's object are enough for so many, which take some 0.15 s."""

_TO_COME = " (to come)"
_NUMBER = re.compile(r"[0-9]{1,9}", re.ASCII)
_JOB_NAMES = ("batch.kubernetes.io/job-name", "job-name")
_EXCLUSIVE_OF = {"JobSet": JOB_SET_EXCLUSIVE, "LeaderWorkerSet": LEADER_WORKER_EXCLUSIVE}
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
    """A pod that is still to be made, one that asks for the same, its leader, and its index beside that."""

    pod: Pod
    like: Pod
    leader: Pod
    index: int


def is_stand_in(pod: Pod) -> bool:
    """Whether it stands for one that is still to be made: no pod can have such a name."""
    return pod.name.endswith(_TO_COME)


def own_label(pod: Pod, kind: str) -> str | None:
    """The label whose domain is to be its Job's or group's alone, in a gang of this kind; None without one.

    JobSet's annotation does nothing beside its node selector.
    """
    annotation = _EXCLUSIVE_OF.get(kind)
    if annotation is None or (annotation == JOB_SET_EXCLUSIVE and JOB_SET_SELECTOR in pod.annotations):
        return None
    return pod.annotations.get(annotation)


def withholding(pods: Sequence[Pod]) -> str | None:
    """The annotation by which pods beside these are made only once one of them has a node."""
    found = (
        annotation
        for kind, annotation in _EXCLUSIVE_OF.items()
        if any(own_label(pod, kind) is not None for pod in pods)
    )
    return next(found, None)


def read_own_domains(kind: str, pods: Sequence[Pod]) -> tuple[OwnDomain, ...]:
    """Which of these pods of a gang of this kind are to have domains to themselves."""
    annotation = _EXCLUSIVE_OF.get(kind)
    if annotation is None:
        return ()
    return tuple(
        OwnDomain(title, annotation, some[0].annotations[annotation], frozenset(pod.key for pod in some))
        for title, some in _followings(kind, pods)
    )


def waits_for_deletion(kind: str, pods: Sequence[Pod]) -> frozenset[ObjectKey]:
    """Pods at gates that select the domain of a leader that is gone.

    JobSet deletes them once the new leader has a node elsewhere (pkg/controllers/pod_controller.go), and
    makes others for them.
    """
    found: set[ObjectKey] = set()
    for leader, some in _led(kind, pods):
        if not any(pod.node_name for pod in some):
            found.update(pod.key for pod in some if pod is not leader and pod.gates)
    return frozenset(found)


def stand_ins(
    kind: str, pods: Sequence[Pod], workload: Workload | None, done: Mapping[str, int]
) -> Sequence[FollowerToCome]:
    """What stands in for the pods that wait for a leader among these, which has no node yet.

    It asks for what its leader does, in a group of two templates for what the workers' says, and has the
    leader's labels and rules. `done` has by the name of a Job how many of its pods are not needed any more.
    No more than `MOST_STAND_INS`; none while leaders are missing themselves.
    """
    if workload is None or kind not in _EXCLUSIVE_OF:
        return ()
    led = [
        (leader, some, _size(kind, leader, workload, done) - len(some)) for leader, some in _led(kind, pods)
    ]
    to_come = sum(count for _, _, count in led)
    if kind == "JobSet" and len(pods) + to_come < workload.size - sum(done.values()):
        return ()
    found = (
        FollowerToCome(_stand_in(kind, leader, workload, number), _like(leader, workload), leader, number)
        for leader, some, count in led
        for number in _missing(some, count)
    )
    return list(islice(found, MOST_STAND_INS))


def _missing(some: Sequence[Pod], count: int) -> Iterator[int]:
    """So many indexes that none of these pods has, the lowest first."""
    there = {_number(pod) for pod in some}
    return islice((number for number in itertools.count(1) if number not in there), max(0, count))


def _like(leader: Pod, workload: Workload) -> Pod:
    return workload.worker or leader


def _stand_in(kind: str, leader: Pod, workload: Workload, number: int) -> Pod:
    return replace(
        _like(leader, workload),
        namespace=leader.namespace,
        name=f"{_name_of(kind, leader)}-{number}{_TO_COME}",
        uid="",
        created_s=leader.created_s,
        labels=leader.labels,
        annotations=leader.annotations,
        owners=leader.owners,
        gates=leader.gates,
        priority=leader.priority,
    )


def _led(kind: str, pods: Sequence[Pod]) -> Iterator[tuple[Pod, Sequence[Pod]]]:
    """Each leader that waits at a gate, and the pods of its Job or group that are there, itself included."""
    if kind not in _EXCLUSIVE_OF:
        return
    for _, some in _followings(kind, pods):
        leader = next((pod for pod in some if _number(pod) == 0), None)
        if leader is not None and leader.gates and leader.node_name is None:
            yield leader, some


def _followings(kind: str, pods: Sequence[Pod]) -> Iterator[tuple[str, Sequence[Pod]]]:
    """The pods of each Job, or group, that is to have a domain to itself, and what people call it."""
    found: defaultdict[str, list[Pod]] = defaultdict(list)
    what = "Job" if kind == "JobSet" else "group"
    for pod in pods:
        if own_label(pod, kind) is not None:
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


def _size(kind: str, leader: Pod, workload: Workload, done: Mapping[str, int]) -> int:
    """How many pods a leader's Job or group has at a time; a group has as many as when it was made."""
    if kind == "LeaderWorkerSet":
        said = leader.annotations.get(GROUP_SIZE, "")
        return int(said) if _NUMBER.fullmatch(said) else workload.size
    each = workload.each.get(leader.labels.get(JOBSET_GROUP, ""), 1)
    return each - done.get(_name_of(kind, leader), 0)
