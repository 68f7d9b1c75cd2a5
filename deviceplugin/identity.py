"""Answers the kubelet for a resource whose containers get what they are assigned."""

import asyncio
import time
import uuid
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import replace

from accelet.accelerators.device import DeviceId
from accelet.kube.poduid import PodUid
from accelet.kubelet.paths import SocketIdentity
from accelet.node.kubeletrecords import KubeletRecords
from accelet.node.pods.view import PodView
from accelet.runtime.logs import Log
from deviceplugin.metrics import ResourceMetrics
from deviceplugin.reconciler import Reconciler
from deviceplugin.screening import Screener
from deviceplugin.search import FoundCaller, Searching
from resourcemanager.allocation import Allocation, Refusal
from resourcemanager.manager import ResourceManager
from resourcemanager.matching.admissions import Admissions
from resourcemanager.matching.answered import note_answer
from resourcemanager.matching.inquiry import (
    AskAllShown,
    AskCheckpoint,
    AskShown,
    Doubt,
    FollowEnd,
    FollowWatch,
    Match,
    NoProof,
    ReadPod,
    ReadPods,
)

ALLOCATE_S = 2.0
"""The longest an Allocate takes: the kubelet admits no other pod meanwhile."""

PREFER_S = 1.5
"""Likewise for a preference. Without one the kubelet chooses by chance, which Allocate may have to refuse."""

_QUESTIONS = {
    AskShown: "get",
    AskAllShown: "list",
    AskCheckpoint: "checkpoint",
    ReadPod: "read-pod",
    ReadPods: "read-pods",
    FollowWatch: "watch",
    FollowEnd: "watch",
}
"""What metrics call the questions of a search."""

_REASONS = {"mismatch": "AssignmentMismatch", "conflict": "AssignmentConflict"}
REFUSED = "AllocationRefused"

DoubtWithin = Callable[[float], Awaitable[str]]
"""Why assignments are not believed, said within so many seconds; empty where they are."""

_log = Log(__name__)


async def undoubted(_: float) -> str:
    """For who relies on nobody, or knows that others see to it."""
    return ""


class IdentityAllocator:
    """Finds whose each call is, lets the manager decide, and says what came of it.

    One call after the other: evidence is gathered and used up under one lock.
    """

    def __init__(
        self,
        manager: ResourceManager,
        *,
        reconciler: Reconciler,
        records: KubeletRecords,
        pods: PodView,
        search: Searching,
        screener: Screener,
        metrics: ResourceMetrics,
        doubt_within: DoubtWithin = undoubted,
    ) -> None:
        self._manager = manager
        self._log = _log.bind(resource=manager.rules.resource)
        self._reconciler = reconciler
        self._records = records
        self._kubelet: SocketIdentity | None = None
        self._pods = pods
        self._metrics = metrics
        self._search = search
        self._lock = asyncio.Lock()
        self._preferred: tuple[frozenset[DeviceId], FoundCaller] | None = None
        self._screener = screener
        self._doubt_within = doubt_within
        self._admissions = Admissions()

    async def run(self) -> None:
        """Finds out, after each registration, which pods the kubelet admitted without devices."""
        await self._screener.run()

    async def screened(self) -> None:
        """Waits until that is known of the last registration."""
        await self._screener.done()

    async def before_registration(self) -> None:
        """Notes what another kubelet changes, and which pods it admitted before it knew the resource."""
        async with self._lock:
            is_new = await self._meet_kubelet()
            await self._screener.begin(self._admissions, is_new_kubelet=is_new)

    async def _meet_kubelet(self) -> bool:
        """A kubelet that has just started knows what it wrote before, and may be another version.

        It asks for pods anew that the one before it has turned away without having told the API server.
        """
        self._preferred = None
        kubelet, self._kubelet = self._kubelet, self._records.kubelet()
        if kubelet == self._kubelet:
            return False
        self._search.forget_kubelet()
        known = frozenset(self._pods.pods())
        self._admissions = Admissions(listed=known)
        self._manager.meet_kubelet(known)
        await self._reconciler.follow_checkpoint(is_after_answers=True)
        return True

    async def prefer(
        self, available: Collection[DeviceId], must_include: Collection[DeviceId], size: int, kubelet: str
    ) -> Sequence[DeviceId]:
        heard_before = self._pods.heard()
        async with self._lock:
            found = await self._find(size, kubelet, heard_before, PREFER_S)
            steering = self._manager.steer(found.step, size, found.pods)
            preferred = self._manager.prefer(available, must_include, size, steering)
            self._preferred = (frozenset(preferred), found)
            return preferred

    async def allocate(self, requested: Sequence[DeviceId], kubelet: str) -> Allocation | Refusal:
        heard_before = self._pods.heard()
        async with self._lock:
            found = self._just_found(requested)
            if found is None:
                found = await self._find(len(set(requested)), kubelet, heard_before, ALLOCATE_S)
            self._metrics.count_match(_describe(found.step))
            answer = self._manager.allocate_for(requested, found.step, found.pods, uuid.uuid4().hex)
            self._say(found.step, answer)
            self._admissions = note_answer(
                self._admissions,
                found.step,
                is_refused=isinstance(answer, Refusal),
                known=found.pods.keys() | self._pods.deleted().keys(),
            )
            return answer

    def _just_found(self, requested: Sequence[DeviceId]) -> FoundCaller | None:
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

    async def _find(
        self, size: int, kubelet: str, heard_before: frozenset[PodUid], within_s: float
    ) -> FoundCaller:
        started = time.perf_counter()
        doubt = await self._doubt_within(within_s)
        skipped = await self._screener.result(within_s - (time.perf_counter() - started))
        if doubt:
            sentence = f"Assignments are not believed yet: {doubt}."
            found = FoundCaller(NoProof(Doubt.UNGUARDED, sentence), self._pods.pods())
        elif skipped is None:
            found = FoundCaller(NoProof(Doubt.UNANSWERED, self._screener.problem), self._pods.pods())
        else:
            self._admissions = replace(self._admissions, skipped=skipped)
            found = await self._search.find(
                size,
                kubelet=kubelet,
                admissions=self._admissions,
                heard_before=heard_before,
                within_s=within_s - (time.perf_counter() - started),
            )
        self._metrics.observe_match(time.perf_counter() - started)
        for question in found.asked:
            self._metrics.count_question(_QUESTIONS[type(question)])
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
            self._log.warning(
                "not simply as assigned",
                kind=notice.kind,
                pod="" if owner is None else "/".join(owner.pod.key),
                reason=notice.sentence,
            )
            if owner is not None and notice.kind in _REASONS:
                self._pods.report(owner.pod, _REASONS[notice.kind], notice.sentence)


def _describe(step: Match | NoProof) -> str:
    """The proof, or why there is none, as metrics have it."""
    return step.proof.value if isinstance(step, Match) else f"none-{step.doubt.value}"
