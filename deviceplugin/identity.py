"""Answers the kubelet for a resource whose containers get what they are assigned."""

import asyncio
import time
import uuid
from collections.abc import Collection, Sequence

from accelet.accelerators.device import DeviceId
from accelet.kube.poduid import PodUid
from accelet.kubelet.paths import SocketIdentity
from accelet.node.kubeletrecords import KubeletRecords
from accelet.node.podview import PodView
from accelet.runtime.logs import Log
from deviceplugin.metrics import ResourceMetrics
from deviceplugin.reconciler import Books
from deviceplugin.search import Found, Searching
from resourcemanager.allocation import Allocation, Refusal
from resourcemanager.manager import ResourceManager
from resourcemanager.matching.candidates import list_needs
from resourcemanager.matching.inquiry import Match, NoProof

ALLOCATE_S = 2.0
"""The longest an Allocate takes: the kubelet admits no other pod meanwhile."""

PREFER_S = 1.5
"""Likewise for a preference. Without one the kubelet chooses by chance, which Allocate may have to refuse."""

FIRST_LIST_S = 2.0
"""How long the first registration waits for the pods of this node."""

_REASONS = {"mismatch": "AssignmentMismatch", "conflict": "AssignmentConflict"}
REFUSED = "AllocationRefused"

_log = Log(__name__)


class IdentityAllocator:
    """Finds whose each call is, lets the manager decide, and says what came of it.

    One call after the other: evidence is gathered and used up under one lock.
    """

    def __init__(
        self,
        manager: ResourceManager,
        *,
        books: Books,
        records: KubeletRecords,
        pods: PodView,
        search: Searching,
        metrics: ResourceMetrics,
    ) -> None:
        self._manager = manager
        self._books = books
        self._records = records
        self._kubelet: SocketIdentity | None = None
        self._pods = pods
        self._metrics = metrics
        self._search = search
        self._lock = asyncio.Lock()
        self._preferred: tuple[frozenset[DeviceId], Found] | None = None
        self._turned_away: frozenset[PodUid] = frozenset()
        self._older: frozenset[PodUid] = frozenset()

    @property
    def _resource(self) -> str:
        return self._manager.rules.resource

    async def before_registration(self) -> None:
        """Notes the pods that a kubelet which did not know the resource may have admitted without devices."""
        async with self._lock:
            await self._meet_kubelet()
        checkpoint = await self._records.checkpoint()
        if checkpoint is not None and self._resource in checkpoint.registered:
            return
        await self._pods.synced(FIRST_LIST_S)
        pods = self._pods.pods()
        self._older = frozenset(uid for uid, pod in pods.items() if list_needs(pod, self._resource))

    async def _meet_kubelet(self) -> None:
        """A kubelet that has just started knows what it wrote before, and may be another version."""
        self._preferred = None
        kubelet, self._kubelet = self._kubelet, self._records.kubelet()
        if kubelet != self._kubelet:
            self._search.forget_kubelet()
            await self._books.follow_checkpoint(is_after_answers=True)

    async def prefer(
        self, available: Collection[DeviceId], must_include: Collection[DeviceId], size: int, kubelet: str
    ) -> Sequence[DeviceId]:
        async with self._lock:
            found = await self._find(size, kubelet, PREFER_S)
            steering = self._manager.steer(found.step, size, found.pods)
            preferred = self._manager.prefer(available, must_include, size, steering)
            self._preferred = (frozenset(preferred), found)
            return preferred

    async def allocate(self, requested: Sequence[DeviceId], kubelet: str) -> Allocation | Refusal:
        async with self._lock:
            found = self._just_found(requested)
            if found is None:
                found = await self._find(len(set(requested)), kubelet, ALLOCATE_S)
            self._metrics.count_match(_describe(found.step))
            answer = self._manager.allocate_for(requested, found.step, found.pods, uuid.uuid4().hex)
            self._say(found.step, answer)
            if isinstance(answer, Refusal) and isinstance(found.step, Match):
                self._note_turned_away(found.step, found)
            return answer

    def _just_found(self, requested: Sequence[DeviceId]) -> Found | None:
        """What was found when the preference for exactly these devices was asked for, just before.

        From there the kubelet goes straight on to Allocate for the same container; all it can find in
        between is that our endpoint is gone, and then it has to meet us anew. Any other call that could
        come in between is of a container that lacks devices, and then there would have been no match. Before
        1.34 looking again would do harm as well: a List while the kubelet has reserved devices can make it
        give them twice, and when it asks for a preference it has not reserved any.
        """
        preferred, self._preferred = self._preferred, None
        if preferred is None or preferred[0] != set(requested):
            return None
        return preferred[1] if isinstance(preferred[1].step, Match) else None

    def _note_turned_away(self, match: Match, found: Found) -> None:
        """An admission that was refused is over; for a container that starts again the kubelet asks again."""
        if not match.pod.has_started:
            self._turned_away = (self._turned_away & found.pods.keys()) | {match.owner.pod_uid}

    async def _find(self, size: int, kubelet: str, within_s: float) -> Found:
        started = time.perf_counter()
        found = await self._search.find(
            size,
            kubelet=kubelet,
            turned_away=self._turned_away,
            older_than_resource=self._older,
            within_s=within_s,
        )
        self._metrics.observe_match(time.perf_counter() - started)
        return found

    def _say(self, step: Match | NoProof, answer: Allocation | Refusal) -> None:
        owner = step if isinstance(step, Match) and step.proof.is_exact else None
        if isinstance(answer, Refusal):
            if owner is not None:
                self._pods.report(owner.pod, REFUSED, answer.sentence)
            if answer.code in _REASONS:
                self._metrics.count_deviation(answer.code)
            return
        for notice in answer.notices:
            self._metrics.count_deviation(notice.kind)
            _log.warning(
                "not simply as assigned",
                resource=self._resource,
                kind=notice.kind,
                pod="" if owner is None else "/".join(owner.pod.key),
                reason=notice.sentence,
            )
            if owner is not None and notice.kind in _REASONS:
                self._pods.report(owner.pod, _REASONS[notice.kind], notice.sentence)


def _describe(step: Match | NoProof) -> str:
    """The proof, or why there is none, as metrics have it."""
    return step.proof.value if isinstance(step, Match) else f"none-{step.doubt.value}"
