"""Has Workloads planned before they are admitted, keeps their room, and says what came of it."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from accelet.control.workqueue import WorkQueue
from accelet.kube.errors import MalformedObjectError, NotFoundError
from accelet.kube.objects import ObjectKey
from accelet.runtime.clock import Clock
from accelet.scheduler.admission.adopting import adopt
from accelet.scheduler.admission.book import AdmissionBook
from accelet.scheduler.admission.judging import Prospects, Ruling, decide, tell_ready
from accelet.scheduler.admission.kueue import KueueWorkload, PodSetQuota
from accelet.scheduler.admission.placeholders import (
    NotPlanned,
    Placeholders,
    Unplannable,
    gang_to_come,
    make_placeholders,
    placeholder_gang,
)
from accelet.scheduler.admission.telling import AdmissionWriter
from accelet.scheduler.gangs.grouping import Gang, GangKey
from accelet.scheduler.gangs.placeholders import PLACEHOLDERS
from accelet.scheduler.gangs.workload import Workload
from accelet.scheduler.placement.plan import Plan
from accelet.scheduler.record import Record
from accelet.scheduler.settings import AdmissionSettings
from accelet.scheduler.state import SchedulerState
from accelet.scheduler.writer import PlanWriter

MOST_PLACEHOLDERS = 50_000
"""At one time, of all Workloads: those beyond wait for their turn."""

_AT_ONCE = 200
"""So many placeholders come or go in some 10 ms."""

_PARALLEL = 4
_AGAIN_S = 0.2
_FULL_S = 5.0
_CHANGED_S = 5.0
"""What was written by somebody else meanwhile is news, and looked at when the watch has it."""

_LOOK_AGAIN_S = 600.0
_Quota = tuple[str, float | None, tuple[PodSetQuota, ...]]
_CHECKS = ""
"""Stands for the namespace in the keys of checks, which have none."""


class AdmissionKeeper:
    """What one leader does for Workloads, with no more than `most` placeholders at one time.

    `plans` writes plans, `wall_s` is the time of day.
    """

    def __init__(
        self,
        book: AdmissionBook,
        state: SchedulerState,
        writer: AdmissionWriter,
        plans: PlanWriter,
        settings: AdmissionSettings,
        *,
        clock: Clock,
        wall_s: Callable[[], float],
        most: int = MOST_PLACEHOLDERS,
    ) -> None:
        self._book, self._state, self._writer, self._plans = book, state, writer, plans
        self._settings, self._clock, self._wall_s = settings, clock, wall_s
        self._most = most
        self._queue: WorkQueue[ObjectKey] = WorkQueue(clock)
        self._kept: dict[ObjectKey, Placeholders] = {}
        self._refusals: dict[ObjectKey, str] = {}
        self._dropped: set[ObjectKey] = set()
        self._met: dict[ObjectKey, _Quota] = {}
        self._queued: dict[ObjectKey, tuple[_Quota, int]] = {}
        self._plan_now: Callable[[GangKey], None] = lambda _: None
        self._catch_up: Callable[[], Awaitable[object]] | None = None

    def wait_for(self, catch_up: Callable[[], Awaitable[object]]) -> None:
        """Nothing is known of Kueue before `catch_up` has ended, so that no Workload is looked at before."""
        self._catch_up = catch_up

    def closed_nodes(self) -> frozenset[str]:
        """Where room is promised to Workloads of which nothing is known yet: nobody is placed there."""
        if self._catch_up is None:
            return frozenset()
        now_s = self._wall_s()
        records = (one for one in self._state.records.values() if one.gang.kind == PLACEHOLDERS)
        return frozenset(
            placement.node for one in records if now_s < one.until_s for placement in one.placements
        )

    async def restore(self) -> None:
        """Takes the room that is promised already, before anybody else is planned.

        Raises:
            KubeError: the API server did not say which pods that is for.
        """
        for record in [one for one in self._state.records.values() if one.gang.kind == PLACEHOLDERS]:
            workload = self._book.workloads.get((record.gang.namespace, record.gang.name))
            # Where its pods have a plan already, a former leader did not come to end this one.
            if workload is not None and workload.reserved_s is not None and not self._has_pods(workload):
                await self._find_pods(workload)

    async def run(self, plan_now: Callable[[GangKey], None]) -> None:
        """Works until it is cancelled. `plan_now` is told of gangs that are to be planned."""
        self._plan_now = plan_now
        if self._catch_up is not None:
            await self._catch_up()
            self._catch_up = None
            plan_now(GangKey("", "", PLACEHOLDERS))  # nodes that were closed are open
        for record in [one for one in self._state.records.values() if one.gang.kind == PLACEHOLDERS]:
            self.see_record(record)
        for name in self._book.checks:
            self.see_check(name)
        self.see_flavor()
        await self._queue.work(self._look, parallel=_PARALLEL)

    def see_workload(self, key: ObjectKey) -> None:
        """A Workload came, changed or went."""
        self._queue.add(key)

    def see_check(self, name: str) -> None:
        """An AdmissionCheck came, changed or went."""
        self._queue.add((_CHECKS, name))
        self.see_flavor()

    def see_flavor(self) -> None:
        """What Workloads are told by has changed."""
        for key in self._book.open_workloads():
            self._queue.add(key)

    def see_record(self, record: Record) -> None:
        """A plan for a Workload came or changed, or a node of it did."""
        self._queue.add((record.gang.namespace, record.gang.name))

    def take_waiting(self, plans: Sequence[Plan]) -> None:
        """Why gangs wait, as of one round; those of placeholders among them."""
        for plan in plans:
            key = plan.gang.key.namespace, plan.gang.key.name
            if plan.gang.key.kind != PLACEHOLDERS or key not in self._kept:
                continue
            if self._state.record_of(plan.gang.key) is None:
                self._refusals[key] = plan.reason or "there is no place for it"
                self._queue.add(key)

    async def take_promised(self, gang: Gang) -> Plan | None:
        """The plan of a gang whose place was promised to its Workload; its placeholders are gone by then.

        None where nothing was, or where the pods are others than were planned: then the promise ends too.
        """
        if gang.lacking:
            return None
        for key in self._book.workloads_of(gang.key):
            kept = self._kept.get(key)
            record = self._state.record_of(kept.key) if kept else None
            if kept is None or record is None:
                continue
            is_large = len(gang.pods) > _AT_ONCE
            plan = await asyncio.to_thread(adopt, gang, record) if is_large else adopt(gang, record)
            self._met[key] = _quota(kept.workload)
            self._queue.add(key)
            if plan is not None:
                await self._drop_pods(key)
                return plan
        return None

    def forget(self) -> None:
        """Takes the placeholders out of the state: they are kept by whoever leads."""
        now_s = self._clock.now_s()
        for key, kept in self._kept.items():
            for pod in kept.pods():
                self._state.remove_pod(pod.key, now_s)
            self._state.remove_workload(PLACEHOLDERS, *key)
        self._kept.clear()

    async def _look(self, key: ObjectKey) -> float | None:
        if key[0] == _CHECKS:
            return await self._look_at_check(key[1])
        if key in self._dropped:
            return _AGAIN_S  # its placeholders are on their way out
        workload = self._book.workloads.get(key)
        if workload is None or workload.reserved_s is None:
            self._met.pop(key, None)
            return await self._give_back(key)
        kept = self._kept.get(key)
        if kept is not None and _quota(kept.workload) != _quota(workload):
            # Another Workload of this name, or another quota: nothing of the former plan holds.
            again_s = await self._give_back(key)
            return _AGAIN_S if again_s is None else again_s
        gangs = (placeholder_gang(workload), gang_to_come(workload))
        if any(gang is not None and self._state.is_assumed(gang) for gang in gangs):
            return _AGAIN_S  # its plan, or that of its pods, is being written
        return await self._carry_out(workload, await self._prospects(workload))

    async def _carry_out(self, workload: KueueWorkload, prospects: Prospects) -> float | None:
        decision = decide(prospects, self._wall_s(), self._settings.within_s)
        if decision.is_late:
            made = await self._make_pods(workload)
            if isinstance(made, NotPlanned):  # so that no plan was to be made at all
                decision = tell_ready(prospects, made.reason)
        if prospects.is_lost and prospects.promise is not None:
            await self._plans.erase(prospects.promise)
        if decision.wants_room:
            found = await self._find_pods(workload)
            if found is None:
                return _FULL_S
            if isinstance(found, NotPlanned):
                decision = tell_ready(prospects, found.reason)
            elif isinstance(found, Unplannable):
                await self._give_back(workload.key)
                self._refusals[workload.key] = found.reason
                return 0.0
            if prospects.is_lost:
                self._plan_now(placeholder_gang(workload))
        if not decision.wants_room:
            await self._give_back(workload.key)
        return await self._tell(workload, prospects, decision)

    async def _tell(self, workload: KueueWorkload, prospects: Prospects, decision: Ruling) -> float | None:
        if decision.told is not None:
            if not await self._writer.tell(workload, prospects.checks, decision.told):
                return _CHANGED_S
            self._refusals.pop(workload.key, None)
        if decision.again_s is None:
            return None
        return min(_LOOK_AGAIN_S, max(_AGAIN_S, decision.again_s - self._wall_s()))

    async def _prospects(self, workload: KueueWorkload) -> Prospects:
        promise = self._state.record_of(placeholder_gang(workload))
        is_ours = promise is not None and all(one.uid == workload.uid for one in promise.placements)
        return Prospects(
            workload,
            self._book.our_checks,
            promise,
            is_lost=promise is not None and not (is_ours and await self._is_sound(promise)),
            has_pods=self._has_pods(workload),
            refusal=self._refusals.get(workload.key),
        )

    def _has_pods(self, workload: KueueWorkload) -> bool:
        if self._met.get(workload.key) == _quota(workload):
            return True
        gang = gang_to_come(workload)
        pods = self._state.members(gang) if gang else []
        live = [pod for pod in pods if not pod.is_terminal and pod.deleted_s is None]
        return any(pod.node_name or self._state.planned_node(pod) for pod in live)

    async def _is_sound(self, promise: Record) -> bool:
        """Whether every node still takes what it is to; of a large plan part by part."""
        for first in range(0, len(promise.placements), _AT_ONCE):
            if self._state.steps(promise.part(first, _AT_ONCE)).lost:
                return False
            await asyncio.sleep(0)
        return True

    async def _find_pods(self, workload: KueueWorkload) -> Placeholders | NotPlanned | Unplannable | None:
        """The placeholders of a Workload, which are there from now on; None where there are too many."""
        quota, pods = self._queued.get(workload.key, (None, 0))
        if quota == _quota(workload) and self._is_full_for(pods):
            return None  # known without reading it again: there may be thousands, of a megabyte each
        made = await self._make_pods(workload)
        if not isinstance(made, Placeholders) or workload.key in self._kept:
            return made
        if self._is_full_for(made.count):
            self._queued[workload.key] = _quota(workload), made.count
            return None
        self._queued.pop(workload.key, None)
        self._kept[workload.key] = made
        # Kueue itself says who is evicted for whom of those that it admits.
        self._state.set_workload(Workload(PLACEHOLDERS, *workload.key, made.count, is_queued=True))
        for number, pod in enumerate(made.pods()):
            self._state.set_pod(pod)
            if number % _AT_ONCE == _AT_ONCE - 1:
                await asyncio.sleep(0)
                if self._kept.get(workload.key) is not made:
                    return made  # its own pods have taken their places meanwhile
        self._plan_now(made.key)
        return made

    def _is_full_for(self, pods: int) -> bool:
        return pods + sum(one.count for one in self._kept.values()) > self._most

    async def _make_pods(self, workload: KueueWorkload) -> Placeholders | NotPlanned | Unplannable:
        """Its placeholders, those that are there already or those that may be."""
        known = self._kept.get(workload.key)
        if known is not None:
            return known
        try:
            sets = await self._writer.read_pod_sets(workload.key)
        except MalformedObjectError as error:
            return Unplannable(str(error))
        except NotFoundError:
            return NotPlanned("it is gone")
        return make_placeholders(workload, sets, self._book.flavors, self._state.prefix)

    async def _give_back(self, key: ObjectKey) -> float | None:
        """Ends what is kept for a Workload: its placeholders, then its plan."""
        self._refusals.pop(key, None)
        self._queued.pop(key, None)
        gang = GangKey(*key, PLACEHOLDERS)
        if self._state.is_assumed(gang):
            return _AGAIN_S
        await self._drop_pods(key)
        record = self._state.record_of(gang)
        if record is not None:
            await self._plans.erase(record)
        return None

    async def _drop_pods(self, key: ObjectKey) -> None:
        """Has the placeholders of a Workload go, part by part, not to hold up the event loop."""
        kept = self._kept.pop(key, None)
        if kept is None:
            return
        self._dropped.add(key)
        pods, now_s = kept.pods(), self._clock.now_s()
        try:
            for number, pod in enumerate(pods):
                self._state.remove_pod(pod.key, now_s)
                if number % _AT_ONCE == _AT_ONCE - 1:
                    await asyncio.sleep(0)
        finally:
            for pod in pods:  # those that are left, if it was cancelled
                self._state.remove_pod(pod.key, now_s)
            self._state.remove_workload(PLACEHOLDERS, *key)
            self._dropped.discard(key)

    async def _look_at_check(self, name: str) -> float | None:
        check = self._book.checks.get(name)
        if check is None or name not in self._book.our_checks:
            return None
        return None if await self._writer.activate(check) else _CHANGED_S


def _quota(workload: KueueWorkload) -> _Quota:
    """Told apart from any other quota, of this Workload or of another that had its name.

    Kueue tells the time in seconds, and may give another quota within one.
    """
    return workload.uid, workload.reserved_s, workload.quota
