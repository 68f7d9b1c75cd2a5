"""The pods that the API server had until lately; the kubelet may still show or be admitting them."""

from collections.abc import Iterable, Mapping
from dataclasses import replace

from accelet.assignments.annotations import ASSIGNED_BY
from accelet.kube.objects import EMPTY
from accelet.kube.pods import Container, Pod
from accelet.kube.poduid import PodUid, index_pods, leave_out_forged

KEPT_S = 60.0
"""How long a pod that the API server no longer has is remembered."""

UNBEGUN_S = 300.0
"""How long, if the kubelet has not begun it: so far behind may its admissions be where many pods wait."""

MOST_PARTS = 20_000
"""How much is remembered at once, in parts: pods, their containers, statuses and resources."""

MOST_PARTS_OF_POD = 1000
"""A pod of more parts is not remembered: it would take the place of many others."""

LONGEST_ANNOTATIONS = 4096
"""Of a pod with a longer assignment, in characters, only what it is a mirror of is kept."""

_MIRROR = "kubernetes.io/config.mirror"
_LONGEST_MIRROR = 256


class FormerPods:
    """Remembers deleted pods in the order of their deletion; forgets by age, and the oldest for want of room.

    Whoever may write pods decides how many are deleted and how much each says. So only what finds out whose
    a call is, and what was assigned, is kept of each.
    """

    def __init__(self) -> None:
        self._pods: dict[PodUid, Pod] = {}
        self._begun_s: dict[PodUid, float] = {}
        self._unbegun_s: dict[PodUid, float] = {}
        self._ends: set[PodUid] = set()
        self._mirrors = 0
        self._parts = 0

    def note(self, pod: Pod, now_s: float, *, is_end: bool = False) -> None:
        """The pod was deleted at `now_s`, seconds of a monotonic clock; `is_end`: it is as it was then."""
        uid = PodUid(pod.uid)
        self._forget(uid)
        if count_parts(pod) <= MOST_PARTS_OF_POD:
            self._pods[uid] = strip_pod(pod)
            (self._begun_s if has_begun(pod) else self._unbegun_s)[uid] = now_s
            self._mirrors += pod.is_mirror
            self._parts += count_parts(pod)
            if is_end:
                self._ends.add(uid)
        self._prune(now_s)

    def __contains__(self, uid: str) -> bool:
        """Whether the pod with this UID of its own is remembered."""
        return uid in self._pods

    def has_end(self, uid: str) -> bool:
        """Whether the pod with this UID of its own is remembered as it was at its end."""
        return uid in self._ends

    def pods(self, now_s: float) -> Iterable[Pod]:
        """Those that are remembered, the first deleted first."""
        self._prune(now_s)
        return self._pods.values()

    def index(self, now_s: float, node_uid: str | None) -> Mapping[PodUid, Pod]:
        """The same by the UID the kubelet uses, without what only says that it is a mirror."""
        pods = self.pods(now_s)
        # Each call of the kubelet asks for it, and there may be thousands.
        return index_pods(leave_out_forged(pods, node_uid)) if self._mirrors else dict(self._pods)

    def _prune(self, now_s: float) -> None:
        for noted_s, kept_s in ((self._begun_s, KEPT_S), (self._unbegun_s, UNBEGUN_S)):
            while noted_s and next(iter(noted_s.values())) <= now_s - kept_s:
                self._forget(next(iter(noted_s)))
        while self._parts > MOST_PARTS:
            self._forget(next(iter(self._pods)))

    def _forget(self, uid: PodUid) -> None:
        if (pod := self._pods.pop(uid, None)) is not None:
            (self._begun_s if has_begun(pod) else self._unbegun_s).pop(uid)
            self._ends.discard(uid)
            self._mirrors -= pod.is_mirror
            self._parts -= count_parts(pod)


def has_begun(pod: Pod) -> bool:
    """Whether the kubelet has written anything of its containers: then it has admitted it."""
    return pod.has_started or bool(pod.statuses)


def count_parts(pod: Pod) -> int:
    """How much is to be remembered of the pod; the same before and after `strip_pod`."""
    containers = pod.all_containers
    resources = sum(len(one.requests) + len(one.limits) for one in containers)
    return 1 + len(containers) + resources + len(pod.statuses) + len(pod.claimed_resources) + len(pod.owners)


def strip_pod(pod: Pod) -> Pod:
    """The pod with what says who it is, how far it came, and what it was to get; without all else."""
    return Pod(
        namespace=pod.namespace,
        name=pod.name,
        uid=pod.uid,
        resource_version=pod.resource_version,
        created_s=pod.created_s,
        deleted_s=pod.deleted_s,
        grace_s=pod.grace_s,
        annotations=_strip_annotations(pod),
        owners=pod.owners,
        node_name=pod.node_name,
        phase=pod.phase,
        restart_policy=pod.restart_policy,
        init_containers=tuple(_strip_container(one) for one in pod.init_containers),
        containers=tuple(_strip_container(one) for one in pod.containers),
        statuses={
            name: replace(status, allocated=None, actuated=None) for name, status in pod.statuses.items()
        },
        has_resource_claims=pod.has_resource_claims,
        claimed_resources=pod.claimed_resources,
    )


def _strip_container(container: Container) -> Container:
    return replace(container, environment=EMPTY, referred_environment=frozenset())


def _strip_annotations(pod: Pod) -> dict[str, str]:
    """One annotation of an assignment without the others would say another assignment: all or none."""
    assigned = {name: pod.annotations[name] for name in ASSIGNED_BY if name in pod.annotations}
    kept = assigned if sum(map(len, assigned.values())) <= LONGEST_ANNOTATIONS else {}
    mirror = {_MIRROR: pod.annotations[_MIRROR][:_LONGEST_MIRROR]} if pod.is_mirror else {}
    return kept | mirror
