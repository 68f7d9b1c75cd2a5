"""What is remembered of the pods that one life of the kubelet admits, and in which order it comes to them."""

from collections.abc import Mapping, Set
from dataclasses import dataclass, replace

from accelet.kube.pods import Pod
from accelet.kube.poduid import PodUid, kubelet_uid


@dataclass(frozen=True, slots=True)
class Admissions:
    """What one life of the kubelet has done so far, as far as its calls tell. A new kubelet begins anew.

    `listed`: pods that were there when it started. It takes those from one list, by their creation.
    `last`: the pod that the last call was for.
    `turned_away`: pods whose call was answered with an error; the kubelet does not ask for them again.
    `skipped`: pods it may have admitted without devices, since it did not know the resource then.
    """

    listed: frozenset[PodUid] = frozenset()
    last: PodUid | None = None
    turned_away: frozenset[PodUid] = frozenset()
    skipped: frozenset[PodUid] = frozenset()

    def put_in_order(self, pods: Mapping[PodUid, Pod]) -> Mapping[PodUid, Pod]:
        """`pods`, which are in the order of their binding, in the order in which the kubelet comes to them.

        Its watch shows it one pod after the other as they are bound; what it found in the list of its start
        comes before, the oldest first (pkg/kubelet/kubelet.go, HandlePodAdditions). Whom it came to last is
        the first here; those before that one come last. The order only says who is asked for first.
        """
        passed, rest = self._divide(pods)
        return {uid: pods[uid] for uid in rest + passed}

    def list_passed(self, pods: Mapping[PodUid, Pod]) -> frozenset[PodUid]:
        """Those of `pods` that the kubelet came to before the one that it came to last."""
        return frozenset(self._divide(pods)[0])

    def _divide(self, pods: Mapping[PodUid, Pod]) -> tuple[list[PodUid], list[PodUid]]:
        listed = sorted((uid for uid in pods if uid in self.listed), key=lambda uid: pods[uid].created_s)
        uids = listed + [uid for uid in pods if uid not in self.listed]
        begin = uids.index(self.last) if self.last is not None and self.last in pods else 0
        return uids[:begin], uids[begin:]

    def are_over_for(self, pod: Pod) -> bool:
        """Whether the kubelet may have admitted the pod, if only without devices.

        It writes statuses of containers of those alone that it has admitted. Of a static pod the API server
        knows nothing before.
        """
        has_status = pod.phase != "Pending" or bool(pod.statuses)
        return has_status or pod.is_mirror or kubelet_uid(pod) in self.skipped

    def came_to(self, uid: PodUid) -> "Admissions":
        return replace(self, last=uid)

    def turn_away(self, uid: PodUid, known: Set[PodUid]) -> "Admissions":
        """As it is once a call was answered with an error, and the kubelet will not ask for this pod again.

        What is remembered of pods that are not `known` any more is forgotten.
        """
        return replace(self, turned_away=(self.turned_away & known) | {uid})
