"""What the watch and lists of this node's pods have told so far."""

import time
from collections.abc import Callable, Mapping, Sequence

from accelet.kube.barepod import render_pod
from accelet.kube.errors import MalformedObjectError
from accelet.kube.podparser import parse_pod
from accelet.kube.pods import Pod
from accelet.kube.poduid import PodUid, index_pods, leave_out_forged
from accelet.kube.watching.position import WatchPosition
from accelet.kube.watching.store import Change
from accelet.kube.watching.watchrecord import GoneObject, WatchRecord
from accelet.node.pods.former import FormerPods
from accelet.node.pods.gap import WatchGap
from accelet.node.pods.remains import without_start

REST_S = 5.0
"""After a read that failed, so long nobody waits for another; nor for a watch that was too far behind, until
it has shown what was waited for."""


MOST_THERE = 20_000
"""How many pods that live are named to the next agent: far more than a node runs."""


class KnownPods:
    """Takes what is told of pods; says who there is, who there was, and how far the watch has come.

    `node_uid` is that of the Node, None where it is not known: no mirror is believed then.
    """

    def __init__(self) -> None:
        self._pods: dict[str, Pod] = {}
        self._former = FormerPods()
        self._position = WatchPosition()
        self._gap = WatchGap()
        self._listed: dict[PodUid, str] = {}
        self._was_behind_at = float("-inf")
        self._is_awaited: Callable[[], bool] = lambda: False

    def __len__(self) -> int:
        return len(self._pods)

    def recall(self, record: WatchRecord | None) -> Sequence[str]:
        """Where the watch can go on, of this process or of the one before it; knows what that one knew."""
        if self._position.version or record is None:
            return (self._position.version,) if self._position.version else ()
        now_s = time.monotonic()
        try:
            for gone in record.gone:
                self._former.note(parse_pod(gone.object), now_s - gone.age_s, is_end=True)
        except MalformedObjectError:
            return ()
        self._former.note_expected(record.there)
        self._position.advance(record.version)
        return (record.version,)

    def make_record(self) -> WatchRecord | None:
        """None where it is not known who was deleted: then no agent may go on from here."""
        now_s = time.monotonic()
        if not self._position.version.isdecimal() or not self._gap.is_over(now_s):
            return None
        recurring = self._former.list_recurring(now_s)
        gone = tuple(GoneObject(age_s, render_pod(pod)) for pod, age_s in recurring)
        return WatchRecord(self._position.version, gone, tuple(self._pods)[:MOST_THERE])

    def begin_watch(self, resource_version: str) -> None:
        """A watch that does not go on where the last one was tells not who was deleted in between."""
        if resource_version != self._position.version:
            self._gap = WatchGap.among(self._pods.values(), time.monotonic())
            self._former.forget_vanished(self._pods)
        self.take_position(resource_version, "", None)

    def take_change(self, change: Change[Pod]) -> None:
        """A list or an event of the watch has changed what there is."""
        if change.before is not None and change.after is None:
            self._pods.pop(change.before.uid, None)
            if change.before.uid not in self._former:
                self._former.note(change.before, time.monotonic())
        elif change.after is not None:
            self._pods[change.after.uid] = change.after
            self._gap.note(change.after)
            self._former.note_living(change.after)
            if change.before is None and not self._position.has_reached(change.after.resource_version):
                self._listed[PodUid(change.after.uid)] = change.after.resource_version

    def take_position(
        self, resource_version: str, bound: str, deleted: Pod | None, *, was_told: bool = False
    ) -> None:
        """The watch has come to here. How a pod was at its end no list can tell that has overtaken it.

        Nor in which order pods were bound and deleted. `was_told`: the agent before this one was told as
        well, and only it knew what devices the pod had.
        """
        if bound:
            self._former.note_binding(bound)
            if (pod := self._pods.get(bound)) is not None:
                self._former.note_living(pod)
        if deleted is not None:
            gone = without_start(deleted) if was_told else deleted
            self._former.note(gone, time.monotonic(), is_end=True)
        self._position.advance(resource_version)
        if self._listed:
            later = self._listed.items()
            self._listed = {uid: at for uid, at in later if not self._position.has_reached(at)}

    def put_in_order(self) -> None:
        """A list comes by name. What waits was written last when it was bound; so it is admitted."""
        self._pods = dict(sorted(self._pods.items(), key=lambda item: _version(item[1])))

    def forget_living(self) -> None:
        """Nothing is known any more of who there is."""
        self._pods.clear()
        self._listed.clear()

    def pods(self, node_uid: str | None) -> Mapping[PodUid, Pod]:
        believed = leave_out_forged(self._pods.values(), node_uid)
        return index_pods(believed, self._former.has_had)

    def deleted(self, node_uid: str | None) -> Mapping[PodUid, Pod]:
        return self._former.index(time.monotonic(), node_uid)

    def heard(self) -> frozenset[PodUid]:
        return self._former.heard()

    def deletions(self) -> Mapping[PodUid, int]:
        return self._former.deletions()

    def deleted_before(self) -> Mapping[PodUid, int]:
        return self._former.deleted_before()

    def vanished(self) -> frozenset[PodUid]:
        return self._former.find_vanished(self._pods)

    def unwatched(self) -> frozenset[PodUid]:
        return frozenset(self._listed)

    @property
    def watched_to(self) -> str:
        return self._position.version

    @property
    def knows_former(self) -> bool:
        return self._gap.is_over(time.monotonic())

    @property
    def can_follow(self) -> bool:
        return time.monotonic() - self._was_behind_at > REST_S or self._is_awaited()

    async def follow(self, pod: Pod, within_s: float) -> bool:
        """Waits until the watch has shown this version of the pod; whether it has."""
        return await self._follow(lambda: self._position.has_reached(pod.resource_version), within_s)

    async def follow_end(self, uid: PodUid, within_s: float) -> bool:
        """Waits until the watch has shown how the pod was at its end; whether it has."""
        return await self._follow(lambda: self._former.has_end(uid), within_s)

    async def _follow(self, is_awaited: Callable[[], bool], within_s: float) -> bool:
        if await self._position.until(is_awaited, within_s):
            return True
        self._was_behind_at, self._is_awaited = time.monotonic(), is_awaited
        return False


def _version(pod: Pod) -> int:
    return int(pod.resource_version) if pod.resource_version.isdecimal() else 0
