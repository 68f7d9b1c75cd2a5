"""What is known of this node's pods from the API server, for those who only look."""

from collections.abc import Mapping
from typing import Protocol

from accelet.kube.objects import ObjectKey
from accelet.kube.pods import Pod
from accelet.kube.poduid import PodUid


class PodView(Protocol):
    """The pods of this node. `read_*` raise accelet.kube.errors.KubeError where nobody answers in time."""

    @property
    def is_synced(self) -> bool:
        """Whether the pods have been listed once."""
        ...

    @property
    def can_read(self) -> bool:
        """Whether asking the API server is worth the time: it did not fail just now."""
        ...

    @property
    def as_of(self) -> str:
        """The resourceVersion of which `pods` are: of the last list, or of what the watch has shown since."""
        ...

    @property
    def watched_to(self) -> str:
        """The resourceVersion that the watch has come to; a list may have overtaken it."""
        ...

    def pods(self) -> Mapping[PodUid, Pod]:
        """As the watch has them, in the order in which it first showed them: that of their binding."""
        ...

    def deleted(self) -> Mapping[PodUid, Pod]:
        """Those that went a moment ago, as last seen."""
        ...

    def heard(self) -> frozenset[PodUid]:
        """Those of `deleted` of whose deletion the kubelet has heard: it does not show them any more."""
        ...

    def unwatched(self) -> frozenset[PodUid]:
        """Those of `pods` that a list has shown and the watch not yet, nor who had their names before."""
        ...

    def vanished(self) -> frozenset[PodUid]:
        """Those of which is not known what they were: bound by the watch, and in no list since."""
        ...

    def deletions(self) -> Mapping[PodUid, int]:
        """Those of `deleted` whose end the watch has shown: in which order, as numbers."""
        ...

    def deleted_before(self) -> Mapping[PodUid, int]:
        """By pod that the watch has shown to be bound: how many it had shown to be deleted by then."""
        ...

    @property
    def knows_former(self) -> bool:
        """Whether `deleted` has whoever the kubelet may still come to under the name of another."""
        ...

    async def follow(self, pod: Pod, within_s: float) -> bool:
        """Waits until the watch has shown this version of the pod, and all before it; whether it has."""
        ...

    @property
    def can_follow(self) -> bool:
        """Whether waiting for the watch is worth the time: it was not too far behind just now."""
        ...

    async def follow_end(self, uid: PodUid, within_s: float) -> bool:
        """Waits until the watch has shown how this pod, which is gone, was at its end; whether it has."""
        ...

    async def synced(self, within_s: float) -> bool:
        """Waits until the pods have been listed once; whether they have."""
        ...

    async def read_pod(self, name: ObjectKey) -> Pod | None:
        """What the API server has under this name on this node, at this moment."""
        ...

    async def read_pods(self) -> Mapping[PodUid, Pod]:
        """All pods of this node, no older than the question."""
        ...

    def report(self, pod: Pod, reason: str, note: str) -> None:
        """Puts a warning in the pod's events, later; never blocks and never fails."""
        ...
