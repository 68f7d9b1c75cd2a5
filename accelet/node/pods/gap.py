"""What is not known of a node's pods after a watch that began anew."""

from collections.abc import Iterable, Set

from accelet.kube.pods import Pod
from accelet.node.pods.former import KEPT_S
from accelet.node.pods.remains import has_begun


class WatchGap:
    """What is not known after a watch that did not go on where the one before it was.

    Pods that waited for the kubelet then may have been made under the names of others, deleted in between, to
    which it has not come yet. It has, once it has begun all of them, or one that was bound later; or it has
    had the time.
    """

    def __init__(
        self, there: Set[str] = frozenset(), waiting: Set[str] = frozenset(), until_s: float = 0.0
    ) -> None:
        self._there, self._waiting, self._until_s = there, waiting, until_s

    @classmethod
    def among(cls, pods: Iterable[Pod], now_s: float) -> "WatchGap":
        """That of a list of these pods; none where the kubelet has come to all of them."""
        there = tuple(pods)
        waiting = frozenset(pod.uid for pod in there if not _is_past(pod))
        return cls(frozenset(pod.uid for pod in there), waiting, now_s + KEPT_S)

    def note(self, pod: Pod) -> None:
        """As a pod is now."""
        if self._waiting and _is_past(pod) and not pod.is_mirror:
            self._waiting = self._waiting - {pod.uid} if pod.uid in self._there else frozenset()

    def is_over(self, now_s: float) -> bool:
        """Whether nobody is unknown any more whom the kubelet may still come to."""
        return not self._waiting or now_s >= self._until_s


def _is_past(pod: Pod) -> bool:
    """Whether the kubelet has come to the pod. Anybody can say that his mirrors one; it comes to none."""
    return has_begun(pod) or pod.is_mirror
