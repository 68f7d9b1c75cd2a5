"""Gathers the evidence that matching asks for, until it knows whose a call is or that it cannot be told."""

import asyncio
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from accelet.kube.errors import KubeError
from accelet.kube.pods import Pod
from accelet.kube.poduid import PodUid
from accelet.kubelet.errors import MethodDisabledError, PodResourcesError
from accelet.kubelet.podresources import PodResources
from accelet.node.pods.view import PodView
from deviceplugin.reconciler import Reconciler
from resourcemanager.manager import ResourceManager
from resourcemanager.matching.admissions import Admissions
from resourcemanager.matching.caller import next_step
from resourcemanager.matching.inquiry import (
    AskAllShown,
    AskCheckpoint,
    AskShown,
    CallFacts,
    Doubt,
    FollowEnd,
    FollowWatch,
    Match,
    NoProof,
    Podresources,
    Question,
    ReadPod,
    ReadPods,
)

MakeSearch = Callable[[ResourceManager, Reconciler, PodView, PodResources], "Searching"]

FOLLOW_S = 2.5
"""How long a call waits, over the time it has, for the watch to show what was read. The kubelet admits no
other pod meanwhile, but those that are bound by then need not be waited for."""

_GRPC_OF_134 = (1, 70)
"""Kubernetes up to 1.33 calls plugins with grpc-go 1.68 and older, 1.34 with 1.72."""


@dataclass(frozen=True, slots=True)
class FoundCaller:
    """How a search ended, the pods of this node as they were known at its end, and what it asked."""

    step: Match | NoProof
    pods: Mapping[PodUid, Pod]
    asked: Sequence[Question] = ()


class Searching(Protocol):
    """Whoever finds out whose a call is; `Search` does, another may be compared with it."""

    async def find(
        self,
        size: int,
        *,
        kubelet: str,
        admissions: Admissions,
        heard_before: frozenset[PodUid],
        within_s: float,
    ) -> FoundCaller: ...

    def forget_kubelet(self) -> None:
        """Another kubelet may be another version."""
        ...


class Search:
    """Finds whose a call is; asks for nothing that matching does not ask for."""

    def __init__(
        self, manager: ResourceManager, reconciler: Reconciler, pods: PodView, pod_resources: PodResources
    ) -> None:
        self._manager = manager
        self._reconciler = reconciler
        self._pods = pods
        self._pod_resources = pod_resources
        self._has_get = True

    async def find(
        self,
        size: int,
        *,
        kubelet: str,
        admissions: Admissions,
        heard_before: frozenset[PodUid],
        within_s: float,
    ) -> FoundCaller:
        """Whose the call for `size` devices is; says so, or why not, within `within_s` seconds.

        `heard_before`: of whose deletion the kubelet had heard when it called.
        """
        known = self._pods.pods()
        pods = admissions.put_in_order(known)
        asked: list[Question] = []
        try:
            async with asyncio.timeout(within_s) as limit:
                await self._reconciler.follow_checkpoint()
                evidence = CallFacts(
                    size=size,
                    ledger=self._manager.ledger,
                    pods=pods,
                    podresources=self._kind(kubelet),
                    # A watch cannot tell that it is not behind; whose name may come again is read for that.
                    is_watch_current=False,
                    can_read=self._pods.can_read,
                    can_follow=self._pods.can_follow,
                    admissions=admissions,
                    deleted=self._pods.deleted(),
                    heard=self._pods.heard(),
                    heard_before=heard_before,
                    deletions=self._pods.deletions(),
                    deleted_before=self._pods.deleted_before(),
                    passed=admissions.list_passed(known),
                    knows_former=self._pods.knows_former,
                    unwatched=self._pods.unwatched(),
                    vanished=self._pods.vanished(),
                )
                return await self._pursue(evidence, asked, limit)
        except TimeoutError:
            reason = f"The kubelet or the API server did not answer within {within_s:.1f} s."
            return FoundCaller(NoProof(Doubt.UNANSWERED, reason), pods, asked)
        except PodResourcesError as error:
            return FoundCaller(NoProof(Doubt.UNANSWERED, str(error)), pods, asked)

    async def _pursue(self, begun: CallFacts, asked: list[Question], limit: asyncio.Timeout) -> FoundCaller:
        evidence = begun
        while True:
            step = next_step(evidence)
            if isinstance(step, Match | NoProof):
                return FoundCaller(step, evidence.pods, asked)
            asked.append(step)
            try:
                if isinstance(step, FollowWatch | FollowEnd):
                    evidence = await self._follow(step, evidence, limit)
                else:
                    evidence = await self._ask(step, evidence)
            except MethodDisabledError:
                if not self._has_get:
                    raise
                self._has_get = False
                evidence = replace(begun, podresources=Podresources.LIST_ALL)

    def _kind(self, kubelet: str) -> Podresources:
        if not self._has_get:
            return Podresources.LIST_ALL
        return Podresources.GET_ALL if is_before_134(kubelet) else Podresources.GET_ACTIVE

    async def _follow(
        self, question: FollowWatch | FollowEnd, evidence: CallFacts, limit: asyncio.Timeout
    ) -> CallFacts:
        """Waits for the watch; the call has so much longer."""
        began_s = asyncio.get_running_loop().time()
        due_s = limit.when() or began_s
        limit.reschedule(due_s + FOLLOW_S)
        match question:
            case FollowWatch(pod):
                is_told = await self._pods.follow(pod, FOLLOW_S)
                told = evidence.with_followed(pod, self._pods.deleted(), self._pods.pods())
            case FollowEnd(uid):
                is_told = await self._pods.follow_end(uid, FOLLOW_S)
                told = evidence.with_end(uid, self._pods.deleted(), self._pods.pods())
        limit.reschedule(due_s + asyncio.get_running_loop().time() - began_s)
        followed = told if is_told else evidence.without_watch()
        return replace(
            followed,
            heard=self._pods.heard(),
            deletions=self._pods.deletions(),
            deleted_before=self._pods.deleted_before(),
            knows_former=self._pods.knows_former,
            vanished=self._pods.vanished(),
        )

    async def _ask(
        self, question: AskShown | AskAllShown | AskCheckpoint | ReadPod | ReadPods, evidence: CallFacts
    ) -> CallFacts:
        match question:
            case AskShown(name):
                return evidence.with_shown(name, await self._pod_resources.get(*name))
            case AskAllShown():
                return evidence.with_all_shown(await self._pod_resources.list_all())
            case AskCheckpoint():
                await self._reconciler.follow_checkpoint(is_after_answers=True)
                return evidence.with_ledger(self._manager.ledger)
            case ReadPod() | ReadPods():
                return await self._read(question, evidence)

    async def _read(self, question: ReadPod | ReadPods, evidence: CallFacts) -> CallFacts:
        try:
            match question:
                case ReadPod(name):
                    return evidence.with_pod(name, await self._pods.read_pod(name))
                case ReadPods(after_s):
                    await asyncio.sleep(after_s)
                    return evidence.with_pods((await self._pods.read_pods()).values())
        except KubeError:
            return evidence.without_api_server()

    def forget_kubelet(self) -> None:
        """Another kubelet may be another version."""
        self._has_get = True


def is_before_134(user_agent: str) -> bool:
    """Whether the caller is a kubelet older than 1.34, by the gRPC library it was built with."""
    found = re.search(r"grpc-go/(\d+)\.(\d+)", user_agent)
    return found is not None and (int(found[1]), int(found[2])) < _GRPC_OF_134
