"""Places gangs and releases them: one look at a time at what there is, driven by events."""

import asyncio
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

from accelet.assignments.ownform import render_own
from accelet.control.workqueue import WorkQueue
from accelet.kube.objects import ObjectKey
from accelet.kube.pods import Pod
from accelet.kube.recording.eventlog import Message
from accelet.kube.watching.store import Change
from accelet.runtime.clock import SYSTEM_CLOCK, Clock
from accelet.runtime.logs import Log
from accelet.scheduler.errors import LiftRefusedError, PlanRefusedError, PlanTooLargeError
from accelet.scheduler.events import GangEvents
from accelet.scheduler.gangs.grouping import Gang, GangKey, gang_key, is_gated
from accelet.scheduler.metrics import SchedulerMetrics
from accelet.scheduler.placement.backlog import Patience, Reservation, Round, plan_backlog
from accelet.scheduler.placement.plan import Plan, describe_plan
from accelet.scheduler.record import Placement, Record
from accelet.scheduler.release import Steps
from accelet.scheduler.settings import SchedulerSettings
from accelet.scheduler.state import SchedulerState
from accelet.scheduler.writer import PlanWriter

_log = Log(__name__)

_PLANNING: ObjectKey = ("", "")
_REFUSED_FOR_S = 60.0
_INCOMPLETE_FOR_S = 10.0
"""A gang that misses pods is not worth an event before."""

_GATHER_S = 0.1
"""Room that becomes free is looked at together with what else becomes free in this time."""

_PARALLEL = 8


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
        self._state, self._writer, self._settings = state, writer, settings
        self._metrics, self._wall_s = metrics, wall_s
        self._clock = clock
        self._events = GangEvents(say, self._clock)
        self._queue: WorkQueue[ObjectKey] = WorkQueue(self._clock)
        self._arrived_s: dict[GangKey, float] = {}
        self._stranded_s: dict[str, float] = {}
        self._refused_until_s: dict[GangKey, float] = {}
        self._reservation: Reservation | None = None

    async def run(self) -> None:
        """Works until it is cancelled."""
        self.see_change()
        await self._queue.work(self._look, parallel=_PARALLEL)

    def see_pod(self, change: Change[Pod]) -> None:
        """A pod came, changed or went, and the state has it already."""
        pod = change.after or change.before
        assert pod is not None
        record = self._state.record_with(pod)
        if record is not None:
            self._queue.add(record.key)
        if is_gated(pod, self._state.prefix):
            if change.kind == "added":
                key = gang_key(pod, self._state.prefix)
                self._arrived_s[key] = self._clock.now_s()
                self._refused_until_s.pop(key, None)
            self._queue.add(_PLANNING)
        elif change.after is None or (pod.is_terminal and not (change.before and change.before.is_terminal)):
            self._stranded_s.pop(pod.uid, None)
            self._queue.add_after(_PLANNING, _GATHER_S)

    def see_change(self) -> None:
        """A node, an owner or a plan came, changed or went."""
        self._queue.add_after(_PLANNING, _GATHER_S)
        for key in self._state.records:
            self._queue.add(key)

    async def _look(self, key: ObjectKey) -> float | None:
        if key == _PLANNING:
            return await self._plan()
        record = self._state.records.get(key)
        return await self._carry_on(record) if record else None

    async def _plan(self) -> float | None:
        """One round of planning; returns after how long another one may come out differently by itself."""
        linger_s = self._state.let_go(self._clock.now_s())
        open_gangs = self._state.gangs()
        self._forget_all_but({gang.key for gang in open_gangs})
        gangs, again_s = self._ready(open_gangs)
        snapshot = self._state.cluster.snapshot()
        patience = Patience(
            now_s=self._wall_s(),
            starving_after_s=self._settings.starving_after_s,
            waiting_since={gang.key: max(pod.created_s for pod in gang.pods) for gang in gangs},
        )
        started_s = self._clock.now_s()
        found: Round = await asyncio.to_thread(plan_backlog, gangs, snapshot, patience, self._reservation)
        took_s = self._clock.now_s() - started_s
        self._metrics.plan_seconds.observe(took_s)
        self._reservation = found.reservation
        self._report_faults(found.plans)
        waiting = [plan for plan in found.plans if plan.nodes is None and plan.fault is None]
        self._metrics.waiting.set(len(waiting))
        retell_s = self._events.tell_waiting(waiting)
        begun = [plan for plan in found.plans if plan.nodes is not None]
        results = await asyncio.gather(*map(self._begin, begun), return_exceptions=True)
        for result in results:
            if isinstance(result, BaseException):
                raise result
        if took_s > _GATHER_S:
            # What happens meanwhile is looked at together: planning takes half of one core at most.
            await self._clock.sleep(took_s)
        starve_s = [left_s for plan in waiting if (left_s := patience.left_s(plan.gang)) > 0]
        return min((s for s in (*starve_s, again_s, retell_s, linger_s) if s is not None), default=None)

    def _ready(self, gangs: Sequence[Gang]) -> tuple[list[Gang], float | None]:
        """The gangs that may be planned now, and after how long the next of the others may be."""
        ready, waits_s = [], []
        now_s = self._clock.now_s()
        for gang in gangs:
            refused_until_s = self._refused_until_s.get(gang.key, 0.0)
            settled_s = now_s - self._arrived_s.get(gang.key, now_s)
            patience_s = self._patience_s(gang)
            if refused_until_s > now_s:
                waits_s.append(refused_until_s - now_s)
            elif settled_s < patience_s:
                waits_s.append(patience_s - settled_s)
            else:
                ready.append(gang)
        return ready, min(waits_s, default=None)

    def _patience_s(self, gang: Gang) -> float:
        """How long after its newest pod a gang is worth a look."""
        if gang.size is not None:
            return _INCOMPLETE_FOR_S if gang.missing else 0.0
        # An owner that can tell the size and has not been seen yet will be, unless we may not see it.
        return _INCOMPLETE_FOR_S if gang.is_counted else self._settings.quiet_s

    def _forget_all_but(self, gangs: Collection[GangKey]) -> None:
        self._events.forget_all_but(gangs)
        for known in (self._arrived_s, self._refused_until_s):
            for key in [key for key in known if key not in gangs]:
                known.pop(key, None)
        for key in gangs:
            self._arrived_s.setdefault(key, self._clock.now_s())

    async def _begin(self, plan: Plan) -> None:
        """Writes a plan down, beside what is left of the gang's former one."""
        gang, former = plan.gang, self._state.record_of(plan.gang.key)
        placements = [
            Placement(pod.name, pod.uid, node, render_own(assignment) if assignment else "")
            for (pod, node), assignment in zip(plan.placements, plan.assignments, strict=True)
        ]
        if former is not None:
            fresh = {placement.pod for placement in placements}
            placements += [placement for placement in former.placements if placement.pod not in fresh]
        record = Record(
            gang.key,
            tuple(placements),
            plan.distance or 0,
            plan.lower_bound,
            former.resource_version if former else "",
        )
        try:
            is_ours = await self._writer.write(record)
        except (PlanRefusedError, PlanTooLargeError) as error:
            self._refuse(gang.key, str(error), gang.pods)
            return
        self._queue.add(record.key)
        if not is_ours:
            return
        self._events.forget(gang.key)
        self._metrics.placed.inc()
        self._metrics.distance.observe(plan.distance or 0)
        self._metrics.gap.observe((plan.distance or 0) - plan.lower_bound)
        note = describe_plan(plan)
        _log.info("placed", gang=str(gang.key), note=note)
        self._events.tell(gang.pods[0], "Normal", "Placed", note)

    async def _carry_on(self, record: Record) -> float | None:
        """The next steps of one plan; returns after how long to look again."""
        steps = self._state.steps(record)
        self._metrics.plans.set(len(self._state.records))
        if steps.is_finished:
            await self._writer.erase(record)
            self._queue.add(_PLANNING)
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
                self._refuse(record.gang, str(error), [lift.pod for lift in steps.lifts])
                return None
        return await self._free_stranded(steps)

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
                self._refuse(record.gang, str(error), (*steps.waiting, *steps.stranded, *steps.bound))
                return
        else:
            await self._writer.erase(record)
        self._queue.add(_PLANNING)
        self._queue.add(record.key)

    async def _free_stranded(self, steps: Steps) -> float | None:
        """Deletes released pods that their node has not taken for too long, so that they are made anew."""
        now_s, grace_s = self._clock.now_s(), self._settings.stranded_after_s
        waits_s = [grace_s] if steps.waiting else []
        for pod in steps.stranded:
            since_s = self._stranded_s.setdefault(pod.uid, now_s)
            if now_s - since_s < grace_s:
                waits_s.append(since_s + grace_s - now_s)
            elif any(owner.is_controller for owner in pod.owners):
                self._metrics.repairs.labels("stranded").inc()
                note = "its node no longer has room for it; deleted to be made and placed anew"
                self._events.tell(pod, "Warning", "Stranded", note)
                await self._writer.remove(pod)
                del self._stranded_s[pod.uid]
            elif self._stranded_s[pod.uid] != float("inf"):
                self._stranded_s[pod.uid] = float("inf")
                note = "its node no longer has room for it, and nobody would make it anew: delete it yourself"
                self._events.tell(pod, "Warning", "Stranded", note)
        for pod in (*steps.waiting, *steps.bound):
            self._stranded_s.pop(pod.uid, None)
        return min(waits_s, default=None)

    def _report_faults(self, plans: Sequence[Plan]) -> None:
        for plan in plans:
            if plan.fault is not None:
                self._metrics.planning_faults.inc()
                _log.exception("fault in planning", cause=plan.fault, gang=str(plan.gang.key))
                self._refuse(plan.gang.key, plan.reason or "", plan.gang.pods)

    def _refuse(self, gang: GangKey, reason: str, pods: Sequence[Pod]) -> None:
        self._refused_until_s[gang] = self._clock.now_s() + _REFUSED_FOR_S
        _log.warning("refused", gang=str(gang), reason=reason)
        self._events.tell(pods[0], "Warning", "Refused", reason)
        self._queue.add_after(_PLANNING, _REFUSED_FOR_S)
