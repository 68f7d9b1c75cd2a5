"""The pods that the API server had until lately; the kubelet may still show or be admitting them."""

from collections.abc import Container, Iterable, Iterator, Mapping

from accelet.kube.pods import Pod
from accelet.kube.poduid import PodUid, index_pods, leave_out_forged, may_recur
from accelet.node.pods.remains import count_parts, has_begun, strip_pod, without_start

ENDED_S = 60.0
"""How long a pod is remembered that had ended before the API server forgot it."""

KEPT_S = 360.0
"""How long another. The kubelet comes to pods, and to their deletions, one by one: where many wait it may be
behind for five minutes. It has ended what it was starting within one more."""

MOST_PARTS = 20_000
"""How much is remembered at once, in parts: pods, their containers, statuses and resources."""

MOST_PARTS_OF_POD = 1000
"""A pod of more parts is not remembered: it would take the place of many others."""


class FormerPods:
    """Remembers deleted pods in the order of their deletion; forgets by age, and the oldest for want of room.

    Whoever may write pods decides how many are deleted and how much each says. So only what finds out whose
    a call is, and what was assigned, is kept of each.
    """

    def __init__(self) -> None:
        self._pods: dict[PodUid, Pod] = {}
        self._ended_s: dict[PodUid, float] = {}
        self._others_s: dict[PodUid, float] = {}
        self._ends: dict[PodUid, int] = {}
        self._deletions = self._heard_of = 0
        self._deleted_before: dict[PodUid, int] = {}
        self._expected: set[PodUid] = set()
        self._mirrors = 0
        self._parts = 0

    def note(self, pod: Pod, now_s: float, *, is_end: bool = False) -> None:
        """The pod was deleted at `now_s`, seconds of a monotonic clock; `is_end`: it is as it was then."""
        uid = PodUid(pod.uid)
        self._forget(uid)
        if count_parts(pod) <= MOST_PARTS_OF_POD:
            self._pods[uid] = strip_pod(pod)
            (self._ended_s if pod.is_terminal else self._others_s)[uid] = now_s
            self._mirrors += pod.is_mirror
            self._parts += count_parts(pod)
            if is_end:
                self._deletions += 1
                self._ends[uid] = self._deletions
        self.forget_binding(pod.uid)
        self._prune(now_s)

    def note_binding(self, uid: str) -> None:
        """The watch has shown that this pod was bound to the node, after what it has shown to be deleted."""
        self._deleted_before[PodUid(uid)] = self._deletions

    def note_expected(self, uids: Iterable[str]) -> None:
        """These pods lived when the watch was where it goes on."""
        self._expected.update(map(PodUid, uids))

    def forget_binding(self, uid: str) -> None:
        """That pod is gone."""
        self._deleted_before.pop(PodUid(uid), None)
        self._expected.discard(PodUid(uid))

    def note_living(self, pod: Pod) -> None:
        """As a pod is now, by the watch or by a list.

        The kubelet hears of bindings and deletions in the order in which any watch shows them. If it has come
        to a pod, it has heard of all that had been deleted before that was bound.
        """
        if has_begun(pod) and not pod.is_mirror:
            self._heard_of = max(self._heard_of, self._deleted_before.get(PodUid(pod.uid), 0))

    def heard(self) -> frozenset[PodUid]:
        """Those of whose deletion the kubelet has heard."""
        return frozenset(uid for uid, number in self._ends.items() if number <= self._heard_of)

    def deletions(self) -> Mapping[PodUid, int]:
        """In which order the watch has shown these to be deleted."""
        return dict(self._ends)

    def deleted_before(self) -> Mapping[PodUid, int]:
        """By pod that lives and that the watch has shown to be bound: how many were deleted by then."""
        return dict(self._deleted_before)

    def find_vanished(self, pods: Container[str]) -> frozenset[PodUid]:
        """Those that the watch has shown to be bound and not to be deleted, and that are not in `pods`."""
        return frozenset(uid for uid in self._deleted_before.keys() | self._expected if uid not in pods)

    def forget_vanished(self, pods: Container[str]) -> None:
        """Their end no watch shows any more."""
        for uid in self.find_vanished(pods):
            self.forget_binding(uid)

    def __contains__(self, uid: str) -> bool:
        """Whether the pod with this UID of its own is remembered."""
        return uid in self._pods

    def has_had(self, uid: PodUid) -> bool:
        """Whether this is or was the UID of a pod of the API server, as far as it is remembered."""
        return uid in self._pods or uid in self._deleted_before or uid in self._expected

    def has_end(self, uid: str) -> bool:
        """Whether the pod with this UID of its own is remembered as it was at its end."""
        return uid in self._ends

    def pods(self, now_s: float) -> Iterable[Pod]:
        """Those that are remembered, the first deleted first."""
        self._prune(now_s)
        return self._pods.values()

    def list_recurring(self, now_s: float) -> Iterator[tuple[Pod, float]]:
        """Those whose names may recur and that the kubelet may still show, and how long they are gone.

        They are as for an agent that does not know what they had.
        """
        self._prune(now_s)
        heard = self.heard()
        for uid, noted_s in self._others_s.items():
            pod = self._pods[uid]
            if uid in self._ends and uid not in heard and may_recur(pod) and not pod.is_mirror:
                yield without_start(pod), now_s - noted_s

    def index(self, now_s: float, node_uid: str | None) -> Mapping[PodUid, Pod]:
        """The same by the UID the kubelet uses, without what only says that it is a mirror."""
        pods = self.pods(now_s)
        # Each call of the kubelet asks for it, and there may be thousands.
        return index_pods(leave_out_forged(pods, node_uid)) if self._mirrors else dict(self._pods)

    def _prune(self, now_s: float) -> None:
        for noted_s, kept_s in ((self._ended_s, ENDED_S), (self._others_s, KEPT_S)):
            while noted_s and next(iter(noted_s.values())) <= now_s - kept_s:
                self._forget(next(iter(noted_s)))
        while self._parts > MOST_PARTS:
            self._forget(next(iter(self._pods)))

    def _forget(self, uid: PodUid) -> None:
        if (pod := self._pods.pop(uid, None)) is not None:
            (self._ended_s if pod.is_terminal else self._others_s).pop(uid)
            self._ends.pop(uid, None)
            self._mirrors -= pod.is_mirror
            self._parts -= count_parts(pod)
