"""Asks the kubelet, at each registration, which pods it admitted before it knew the resource."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import suppress

from accelet.kube.errors import KubeError
from accelet.kube.objects import ObjectKey
from accelet.kube.pods import Pod
from accelet.kube.poduid import PodUid
from accelet.kube.watching.store import precedes
from accelet.kubelet.checkpoint import Checkpoint
from accelet.kubelet.errors import MethodDisabledError, PodResourcesError
from accelet.kubelet.podresources import PodRecord, PodResources
from accelet.node.kubeletrecords import KubeletRecords
from accelet.node.pods.view import PodView
from accelet.runtime.backoff import Backoff
from accelet.runtime.clock import SYSTEM_CLOCK, Clock
from accelet.runtime.logs import Log
from accelet.runtime.waiting import wait_for_hint
from resourcemanager.holdings.ledger import ALLOCATION_ANNOTATION
from resourcemanager.manager import ResourceManager
from resourcemanager.matching.admissions import Admissions
from resourcemanager.matching.screening import Screening

BEFORE_S = 0.1
"""The longest a registration waits for answers; the kubelet refuses pods meanwhile. The rest comes later."""

LOOK_S = 0.05
"""How soon it is looked again whether the kubelet knows the resource by now; then less and less often."""

MOST_LOOK_S = 1.0
"""The longest between two looks: a kubelet that cannot write its checkpoint never says so."""

WRITING_S = 0.5
"""How long a call waits for the checkpoint that the kubelet writes when it has our list: it may be first."""

WRITING_LOOK_S = 0.02
"""How soon it is looked again for that."""

FOLLOW_S = 2.0
"""The longest it is waited at once for the watch to show what a list has shown, and with it what was deleted
before. A watch that is not behind has shown it already."""

FAILING_S = 0.1
"""The longest a call waits for what lately could not be found out."""

_log = Log(__name__)


class Screener:
    """Runs one resource's screenings while `run` runs. Each is over some time after its registration."""

    def __init__(
        self,
        manager: ResourceManager,
        records: KubeletRecords,
        pods: PodView,
        pod_resources: PodResources,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._clock = clock
        self._manager = manager
        self._log = _log.bind(resource=manager.rules.resource)
        self._records = records
        self._pods = pods
        self._pod_resources = pod_resources
        self._screening = Screening()
        self._are_late_known = True
        self._former_tokens: frozenset[str] = frozenset()
        self._round = 0
        self._problem: str | None = None
        self._is_begun = asyncio.Event()
        self._is_called = asyncio.Event()
        self._is_done = asyncio.Event()

    @property
    def _resource(self) -> str:
        return self._manager.rules.resource

    async def begin(self, admissions: Admissions, *, is_new_kubelet: bool) -> None:
        """Asks for as many pods as there is time for before the registration; `run` does the rest."""
        checkpoint = await self._records.checkpoint()
        is_known = await self._records.knows(self._resource)
        if self._is_done.is_set() and is_known and not is_new_kubelet:
            return  # the kubelet has known the resource ever since the last time
        self._round += 1
        self._is_done.clear()
        self._is_called.clear()
        self._screening, self._are_late_known = Screening(is_known), True
        self._former_tokens = frozenset()
        if not is_known and checkpoint is not None and self._resource in checkpoint.registered:
            self._former_tokens = _list_tokens(checkpoint)
        with suppress(PodResourcesError, TimeoutError):
            async with asyncio.timeout(BEFORE_S):
                pods = admissions.put_in_order(self._pods.pods())
                unasked = self._screening.list_unasked(pods, self._manager.ledger)
                async for pod, shown in self._ask(list(unasked)):
                    self._screening = self._screening.with_before(pod, shown, self._manager.ledger)
        self._is_begun.set()

    async def result(self, within_s: float) -> frozenset[PodUid] | None:
        """The pods that may have been admitted without devices, None if that cannot be told in time.

        To be asked during a call of the kubelet, which shows that it knows the resource.
        """
        self._is_called.set()
        await wait_for_hint(self._is_done, within_s if self._problem is None else FAILING_S)
        if not self._is_done.is_set():
            return None
        self._take_late()
        return self._screening.skipped

    def _take_late(self) -> None:
        """Takes over what the watch has shown since, until it has shown all that was before the list."""
        if self._are_late_known:
            return
        self._are_late_known = precedes(self._screening.as_of, self._pods.watched_to, or_equals=True)
        before = self._screening
        self._screening = before.with_late(self._pods.deleted().values(), self._manager.ledger)
        if late := self._screening.lost - before.lost:
            self._log.warning("pods may have been admitted without devices", pods=sorted(late))

    @property
    def problem(self) -> str:
        """Why a screening is not over yet, in a sentence."""
        reason = self._problem or "The kubelet or the API server did not answer in time."
        return (
            f"It is not known yet which pods the kubelet admitted before it knew {self._resource}. {reason}"
        )

    async def done(self) -> None:
        """Waits until the last screening is over."""
        await self._is_done.wait()

    async def run(self) -> None:
        """Finishes each screening once the kubelet knows the resource."""
        while True:
            await self._is_begun.wait()
            self._is_begun.clear()
            number = self._round
            if not await self._is_restored(number):
                await self._ask_rest(number)
            if number == self._round:
                self._is_done.set()
                if skipped := self._screening.skipped:
                    self._log.warning("pods were admitted without devices", pods=sorted(skipped))

    async def _is_restored(self, number: int) -> bool:
        """Waits until the kubelet knows the resource; whether it has known it since it started.

        What a former kubelet wrote of our answers is in its checkpoint only if it took the whole file over,
        with the resources that were registered. A file whose checksum is wrong it does not take over.
        """
        backoff = Backoff(LOOK_S, MOST_LOOK_S)
        while not self._is_called.is_set() and number == self._round:
            if await self._records.knows(self._resource):
                break
            await wait_for_hint(self._is_called, backoff.wait_s, self._clock)
            backoff = backoff.failed()
        if self._former_tokens:
            await self._let_kubelet_write()
        checkpoint = await self._records.checkpoint()
        is_current = checkpoint is not None and await self._records.knows(self._resource)
        if checkpoint is None or not is_current or not self._former_tokens & _list_tokens(checkpoint):
            return False
        if number == self._round:
            self._screening = Screening(is_known=True)
        return True

    async def _let_kubelet_write(self) -> None:
        for _ in range(round(WRITING_S / WRITING_LOOK_S)):
            if await self._records.knows(self._resource):
                return
            await self._clock.sleep(WRITING_LOOK_S)

    async def _ask_rest(self, number: int) -> None:
        """Asks for whoever is left, until all have been asked for or there is another registration."""
        backoff = Backoff(first_s=0.05, most_s=5.0)
        while number == self._round:
            try:
                pods = await self._pods.read_pods()
                as_of = self._pods.as_of
                if await self._is_complete(pods):
                    await self._ask_each(pods, as_of, number)
                    break
                self._problem = "The watch of this node's pods is behind."
            except (KubeError, PodResourcesError) as error:
                self._problem = str(error)
            await asyncio.sleep(backoff.wait_s)
            backoff = backoff.failed()
        self._problem = None

    async def _is_complete(self, pods: Mapping[PodUid, Pod]) -> bool:
        """Whether it is known which pods were deleted up to this list: no list tells of those."""
        behind = [pods[uid] for uid in self._pods.unwatched() if uid in pods]
        if self._screening.is_known or not behind:
            return True
        return await self._pods.follow(max(behind, key=_version), FOLLOW_S)

    async def _ask(self, pods: Sequence[Pod]) -> AsyncIterator[tuple[Pod, PodRecord | None]]:
        """What the kubelet shows of each; before 1.34 by its one way to show any."""
        shown: Mapping[ObjectKey, PodRecord] | None = None
        for pod in pods:
            if shown is None:
                try:
                    yield pod, await self._pod_resources.get(*pod.key)
                    continue
                except MethodDisabledError:
                    records = await self._pod_resources.list_all()
                    shown = {(one.namespace, one.name): one for one in records}
            yield pod, shown.get(pod.key)

    async def _ask_each(self, pods: Mapping[PodUid, Pod], as_of: str, number: int) -> None:
        is_called = self._is_called.is_set()
        screening = self._screening.again(is_during_call=is_called, as_of=as_of)
        unasked = screening.list_unasked(pods, self._manager.ledger)
        are_hidden = False
        async for pod, shown in self._ask(list(unasked)):
            screening = screening.with_after(pod, shown, self._manager.ledger)
            are_hidden |= shown is None
        if are_hidden and not screening.is_known:
            await self._pods.read_pods()  # which of them wait, and which are gone
        screening = screening.with_lost(self._pods.deleted().values(), self._manager.ledger)
        if screening.lacking and not is_called and self._is_called.is_set():
            # The caller is among them, and may not have been shown before.
            await self._ask_each(pods, as_of, number)
        elif number == self._round:
            self._screening, self._are_late_known = screening, False


def _version(pod: Pod) -> int:
    return int(pod.resource_version) if pod.resource_version.isdecimal() else 0


def _list_tokens(checkpoint: Checkpoint) -> frozenset[str]:
    """The names of our answers in it."""
    return frozenset(
        token for entry in checkpoint.entries if (token := entry.annotations.get(ALLOCATION_ANNOTATION))
    )
