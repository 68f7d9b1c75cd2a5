"""Carries plans out, and has gangs planned that have none; driven by events."""

import asyncio
import time
from collections.abc import Callable
from dataclasses import replace

from accelet.control.workqueue import WorkQueue
from accelet.kube.objects import ObjectKey
from accelet.kube.pods import Pod
from accelet.kube.recording.eventlog import Message
from accelet.kube.watching.store import Change
from accelet.runtime.clock import SYSTEM_CLOCK, Clock
from accelet.runtime.logs import Log
from accelet.scheduler.errors import LiftRefusedError, PartlyRefusedError, PlanRefusedError
from accelet.scheduler.events import GangEvents
from accelet.scheduler.gangs.grouping import gang_key, is_gated
from accelet.scheduler.metrics import SchedulerMetrics
from accelet.scheduler.planning import Planner
from accelet.scheduler.record import Record
from accelet.scheduler.release import Steps
from accelet.scheduler.settings import SchedulerSettings
from accelet.scheduler.state import SchedulerState
from accelet.scheduler.writer import PlanWriter

_log = Log(__name__)

_PARALLEL = 8

_REFUSED_AGAIN_S = 10.0
_TOLD_AGAIN_S = 600.0
_UNBOUND = (
    "kube-scheduler does not bind it to the node that it was released to, by a rule that is not judged here "
    "(kubectl describe pod says which); delete it to have it made and placed anew"
)


class Controller:
    """Plans the gangs in `state` and carries the plans out. Made anew for each leadership."""

    def __init__(
        self,
        state: SchedulerState,
        writer: PlanWriter,
        settings: SchedulerSettings,
        metrics: SchedulerMetrics,
        say: Callable[[Message], None],
        *,
        clock: Clock = SYSTEM_CLOCK,
        wall_s: Callable[[], float] = time.time,
    ) -> None:
        self._state, self._writer, self._settings, self._metrics = state, writer, settings, metrics
        self._clock = clock
        self._events = GangEvents(say, self._clock)
        self._queue: WorkQueue[ObjectKey] = WorkQueue(self._clock)
        self._stranded_s: dict[str, float] = {}
        self._told_stranded: set[str] = set()
        self._unbound_s: dict[str, float] = {}
        self._planner = Planner(
            state,
            writer,
            self._events,
            settings,
            metrics,
            written=lambda record: self._queue.add(record.key),
            clock=self._clock,
            wall_s=wall_s,
        )

    async def run(self) -> None:
        """Works until it is cancelled."""
        for key in self._state.records:
            self._queue.add(key)
        async with asyncio.TaskGroup() as group:
            group.create_task(self._planner.run())
            group.create_task(self._queue.work(self._look, parallel=_PARALLEL))

    def see_pod(self, change: Change[Pod]) -> None:
        """A pod came, changed or went, and the state has it already."""
        pod = change.after or change.before
        assert pod is not None
        record = self._state.record_with(pod)
        if record is not None:
            self._queue.add(record.key)
        if is_gated(pod, self._state.prefix):
            self._planner.plan_now(gang_key(pod, self._state.prefix), is_new=change.kind == "added")
        elif change.after is None or (pod.is_terminal and not (change.before and change.before.is_terminal)):
            self._stranded_s.pop(pod.uid, None)
            self._told_stranded.discard(pod.uid)
            self._unbound_s.pop(pod.uid, None)
            self._planner.plan_soon()

    def see_node(self, name: str) -> None:
        """A node came, changed or went."""
        for key in self._state.records_on(name):
            self._queue.add(key)
        self._planner.plan_soon()

    def see_record(self, key: ObjectKey) -> None:
        """A plan came, changed or went."""
        self._queue.add(key)
        self._planner.plan_soon()

    def see_workload(self) -> None:
        """An owner of pods came, changed or went."""
        self._planner.plan_soon()

    async def _look(self, key: ObjectKey) -> float | None:
        record = self._state.records.get(key)
        return await self._carry_on(record) if record else None

    async def _carry_on(self, record: Record) -> float | None:
        """The next steps of one plan; returns after how long to look again."""
        steps = self._state.steps(record)
        self._metrics.plans.set(len(self._state.records))
        if steps.is_finished:
            await self._writer.erase(record)
            self._planner.plan_soon()
            return None
        if steps.lost:
            await self._place_anew(record, steps)
            return None
        if steps.lifts:
            try:
                if not steps.is_begun:
                    await self._writer.rehearse(steps.lifts)
                await self._writer.lift(steps.lifts)
            except LiftRefusedError as error:
                await self._writer.erase(record)
                self._planner.rest(record.gang, str(error), [lift.pod for lift in steps.lifts])
                return None
            except PartlyRefusedError as error:
                # What is released cannot be taken back: the rest must follow, or somebody must know.
                note = f"{error}; it is tried again and again"
                self._events.tell(steps.lifts[0].pod, "Warning", "Refused", note)
                return min(_REFUSED_AGAIN_S, self._settings.stranded_after_s)
        self._tell_unbound(steps)
        return await self._free_stranded(steps)

    def _tell_unbound(self, steps: Steps) -> None:
        """Says of released pods that kube-scheduler refuses them on their node, which has room for them."""
        now_s = self._clock.now_s()
        for pod in steps.bound:
            self._unbound_s.pop(pod.uid, None)
        for pod in steps.waiting:
            is_refused = any(c.type == "PodScheduled" and c.reason == "Unschedulable" for c in pod.conditions)
            if not is_refused or pod.nominated_node:
                self._unbound_s.pop(pod.uid, None)
            elif now_s - self._unbound_s.setdefault(pod.uid, now_s) >= self._settings.stranded_after_s:
                self._unbound_s[pod.uid] = now_s + _TOLD_AGAIN_S
                self._events.tell(pod, "Warning", "Unbound", _UNBOUND)

    async def _place_anew(self, record: Record, steps: Steps) -> None:
        """Takes back what has not begun: of a gang of which no pod is released, everything."""
        self._metrics.repairs.labels("node").inc(len(steps.lost))
        _log.info("placing anew", gang=str(record.gang), pods=len(steps.lost))
        lost = set(steps.lost)
        kept = tuple(placement for placement in record.placements if placement not in lost)
        if steps.is_begun:
            shorter = replace(record, placements=kept)
            try:
                await self._writer.write(shorter)
            except PlanRefusedError as error:
                self._planner.rest(record.gang, str(error), (*steps.waiting, *steps.stranded, *steps.bound))
                return
        else:
            await self._writer.erase(record)
        self._planner.plan_soon()
        self._queue.add(record.key)

    async def _free_stranded(self, steps: Steps) -> float | None:
        """Deletes released pods that their node has not taken for too long, so that they are made anew."""
        now_s, grace_s = self._clock.now_s(), self._settings.stranded_after_s
        waits_s = [grace_s] if steps.waiting else []
        for pod in steps.stranded:
            since_s = self._stranded_s.setdefault(pod.uid, now_s)
            if now_s - since_s < grace_s:
                waits_s.append(since_s + grace_s - now_s)
            elif pod.nominated_node:
                waits_s.append(grace_s)  # kube-scheduler makes room for it there
            elif any(owner.is_controller for owner in pod.owners):
                self._metrics.repairs.labels("stranded").inc()
                note = "its node no longer has room for it; deleted to be made and placed anew"
                self._events.tell(pod, "Warning", "Stranded", note)
                await self._writer.remove(pod)
                self._stranded_s.pop(pod.uid, None)
            elif pod.uid not in self._told_stranded:
                self._told_stranded.add(pod.uid)
                note = "its node no longer has room for it, and nobody would make it anew: delete it yourself"
                self._events.tell(pod, "Warning", "Stranded", note)
        for pod in (*steps.waiting, *steps.bound):
            self._stranded_s.pop(pod.uid, None)
            self._told_stranded.discard(pod.uid)
        return min(waits_s, default=None)
