"""Carries plans out, and has gangs planned that have none; driven by events."""

import asyncio
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import partial

from accelet.control.workqueue import WorkQueue
from accelet.kinds.move import Move
from accelet.kube.objects import ObjectKey
from accelet.kube.pods import Pod
from accelet.kube.recording.eventlog import Message
from accelet.kube.served import ListApi
from accelet.kube.watching.store import Change
from accelet.runtime.clock import SYSTEM_CLOCK, Clock
from accelet.runtime.logs import Log
from accelet.scheduler.admission.keeping import AdmissionKeeper
from accelet.scheduler.errors import (
    EvictionRefusedError,
    LiftRefusedError,
    PartlyRefusedError,
    PlanRefusedError,
)
from accelet.scheduler.events import GangEvents
from accelet.scheduler.gangs.grouping import gang_key, is_gated
from accelet.scheduler.gangs.noting import is_noted_only
from accelet.scheduler.gangs.placeholders import PLACEHOLDERS
from accelet.scheduler.metrics import SchedulerMetrics
from accelet.scheduler.moves.book import MoveBook
from accelet.scheduler.moves.mover import Mover
from accelet.scheduler.moves.moving import Moves
from accelet.scheduler.moves.proposer import Proposer
from accelet.scheduler.moves.writer import MoveWriter
from accelet.scheduler.notes import WaitingNotes
from accelet.scheduler.placement.plan import Plan
from accelet.scheduler.planning import Planner, nothing_promised
from accelet.scheduler.preemption.evicting import Evictor
from accelet.scheduler.preemption.preempting import Preemptor
from accelet.scheduler.record import Awaited, Placement, Record
from accelet.scheduler.release import Steps
from accelet.scheduler.remaking import Remaker
from accelet.scheduler.settings import SchedulerSettings
from accelet.scheduler.state import SchedulerState
from accelet.scheduler.writer import PlanWriter

_log = Log(__name__)

_PARALLEL = 8

_REFUSED_AGAIN_S = 10.0

_PLACEMENTS_AT_ONCE = 250
"""So many of a plan are looked at in some 10 ms."""

_NO_PREEMPTION_FOR_S = 300.0
"""After a preemption that has come to nothing, so long before the next one for the same gang."""

_LOOK_AGAIN_S = 30.0

_GATHER_S = 0.1
"""News of a plan's pods is looked at together: each look goes over all of them."""


@dataclass(frozen=True, slots=True)
class MoveShare:
    """What is known of moves of running tasks, and who writes them, where moves are proposed."""

    book: MoveBook
    writer: MoveWriter


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
        api: ListApi,
        admission: AdmissionKeeper | None = None,
        moves: MoveShare | None = None,
        clock: Clock = SYSTEM_CLOCK,
        wall_s: Callable[[], float] = time.time,
    ) -> None:
        self._state, self._writer, self._settings, self._metrics = state, writer, settings, metrics
        self._clock, self._wall_s = clock, wall_s
        self._events = GangEvents(say, self._clock)
        self._queue: WorkQueue[ObjectKey] = WorkQueue(self._clock)
        self._remaker = Remaker(
            state, writer, self._events, metrics, grace_s=settings.stranded_after_s, clock=self._clock
        )
        self._notes = WaitingNotes(state, writer, self._clock)
        self._admission = admission
        self._preemptor = Preemptor(state, api, settings.preemption, clock=self._clock, wall_s=wall_s)
        self._evictor = Evictor(state, writer, self._events, settings.preemption, wall_s=wall_s)
        self._moves = None if moves is None else self._make_moves(moves)
        self._planner = Planner(
            state,
            writer,
            self._events,
            settings,
            metrics,
            preemptor=self._preemptor,
            moves=self._moves,
            written=lambda record: self._queue.add(record.key),
            waiting=self._take_waiting,
            promised=admission.take_promised if admission else nothing_promised,
            closed=admission.closed_nodes if admission else frozenset,
            clock=self._clock,
            wall_s=wall_s,
        )

    def _make_moves(self, share: MoveShare) -> Moves:
        book, writer = share.book, share.writer
        mover = Mover(
            self._state,
            book,
            writer,
            self._writer,
            settings=self._settings.moves,
            metrics=self._metrics,
            hold_plan=self._hold_plan,
            wall_s=self._wall_s,
        )
        proposer = Proposer(
            self._state,
            book,
            writer,
            self._events,
            settings=self._settings.moves,
            metrics=self._metrics,
            clock=self._clock,
            wall_s=self._wall_s,
        )
        return Moves(self._state, book, mover, proposer)

    async def _hold_plan(self, plan: Plan, awaited: tuple[Awaited, ...], until_s: float) -> None:
        await self._planner.hold_plan(plan, awaited, until_s)

    async def run(self) -> None:
        """Works until it is cancelled."""
        for key in self._state.records:
            self._queue.add(key)
        async with asyncio.TaskGroup() as group:
            group.create_task(self._planner.run())
            group.create_task(self._remaker.run())
            group.create_task(self._notes.run())
            if self._admission is not None:
                group.create_task(self._admission.run(partial(self._planner.plan_now, is_new=True)))
            group.create_task(self._queue.work(self._look, parallel=_PARALLEL))

    def see_pod(self, change: Change[Pod]) -> None:
        """A pod came, changed or went, and the state has it already."""
        pod = change.after or change.before
        assert pod is not None
        if change.before and change.after and is_noted_only(change.before, change.after):
            return
        record = self._state.record_with(pod)
        if record is not None:
            self._queue.add_after(record.key, _GATHER_S)
        before = change.before
        if before and (change.after is None or pod.uid != before.uid or pod.is_terminal):
            awaiting = self._evictor.plan_awaiting(before)
            if awaiting is not None:
                self._queue.add(awaiting)
        if is_gated(pod, self._state.prefix):
            self._planner.plan_now(gang_key(pod, self._state.prefix), is_new=change.kind == "added")
        elif change.after is None or (pod.is_terminal and not (change.before and change.before.is_terminal)):
            self._remaker.forget([pod])
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

    def see_move(self, move: Move | None) -> None:
        """A Move came, changed or went, or a task did."""
        if move is not None and self._moves is not None:
            for record in self._moves.records_awaiting(move):
                self._queue.add(record.key)
        self._planner.plan_soon()

    def see_workload(self) -> None:
        """An owner of pods came, changed or went."""
        self._remaker.see_workload()
        self._planner.plan_soon()

    def see_volumes(self) -> None:
        """Volumes that pods use, or claims of theirs, came, changed or went.

        Of a pod that is on its way to a node kube-scheduler says then whether that is still its node.
        """
        self._planner.plan_soon()

    def _take_waiting(self, plans: Sequence[Plan]) -> None:
        self._notes.take(plans)
        if self._admission is not None:
            self._admission.take_waiting(plans)

    async def _look(self, key: ObjectKey) -> float | None:
        record = self._state.records.get(key)
        if record and record.gang.kind == PLACEHOLDERS and self._admission is not None:
            self._admission.see_record(record)
            return None
        return await self._carry_on(record) if record else None

    async def _carry_on(self, record: Record) -> float | None:
        """The next steps of one plan; returns after how long to look again."""
        steps = await self._steps(record)
        self._metrics.plans.set(len(self._state.records))
        if steps.is_finished:
            await self._writer.erase(record)
            self._planner.plan_soon()
            return None
        if (record.evicted or record.awaited) and not steps.is_begun:
            make = self._make_room if record.evicted else self._await_moves
            wait_s = await make(record, steps)
            if wait_s is not None:
                return wait_s
            steps = await self._steps(record)
        if steps.lost:
            if record.evicted and not steps.is_begun:
                # Others have taken what was made free: to evict the next ones at once would go on for ever.
                self._preemptor.rest(record.gang, _NO_PREEMPTION_FOR_S)
            await self._place_anew(record, steps, steps.lost)
            return None
        if steps.lifts:
            try:
                if not steps.is_begun:
                    await self._writer.rehearse(steps.lifts)
                await self._writer.lift(steps.lifts)
            except LiftRefusedError as error:
                await self._rest_refused(record, steps, error)
                return None
            except PartlyRefusedError as error:
                return await self._bear_refusal(record, steps, error)
        return await self._remaker.free(record, steps)

    async def _steps(self, record: Record) -> Steps:
        """What is to be done next of a plan; of a large one part by part, not to hold up the event loop."""
        steps, placements = self._state.steps(record.part(0, _PLACEMENTS_AT_ONCE)), len(record.placements)
        for first in range(_PLACEMENTS_AT_ONCE, placements, _PLACEMENTS_AT_ONCE):
            await asyncio.sleep(0)
            steps += self._state.steps(record.part(first, _PLACEMENTS_AT_ONCE))
        return steps

    async def _make_room(self, record: Record, steps: Steps) -> float | None:
        """Has others evicted for a plan that has not begun; after how long to look again, None once it can.

        A plan whose room is not made is given up; who was evicted for it already may take that again.
        """
        lost = (self._state.pods.get((record.gang.namespace, placement.pod)) for placement in steps.lost)
        wanting = [*(lift.pod for lift in steps.lifts), *(pod for pod in lost if pod is not None)]
        try:
            return await self._evictor.make_room(record, wanting)
        except EvictionRefusedError as error:
            self._preemptor.rest(record.gang, _NO_PREEMPTION_FOR_S)
            await self._writer.erase(record)
            if wanting:
                self._planner.rest(record.gang, str(error), wanting)
            self._planner.plan_soon()
            return _GATHER_S

    async def _await_moves(self, record: Record, steps: Steps) -> float | None:
        """As `_make_room`, of a plan for which others move."""
        left_s = record.until_s - self._wall_s()
        are_done = self._moves.are_done(record) if self._moves is not None and left_s > 0 else None
        if are_done:
            return None
        if are_done is None:
            _log.info("moves came to nothing", gang=str(record.gang), pods=len(steps.lifts) + len(steps.lost))
            await self._writer.erase(record)
            self._planner.plan_soon()
            return _GATHER_S
        return min(left_s, _LOOK_AGAIN_S)

    async def _rest_refused(self, record: Record, steps: Steps, error: LiftRefusedError) -> None:
        """Nobody of this plan is released; if others of its gang are, it is soon tried on another node."""
        await self._writer.erase(record)
        pods = [lift.pod for lift in steps.lifts]
        if self._state.is_begun(record.gang):
            await self._remaker.avoid_node(record, error.pod)
            self._planner.rest(record.gang, str(error), pods, for_s=self._refused_again_s)
        else:
            self._planner.rest(record.gang, str(error), pods)

    @property
    def _refused_again_s(self) -> float:
        return min(_REFUSED_AGAIN_S, self._settings.stranded_after_s)

    async def _bear_refusal(self, record: Record, steps: Steps, error: PartlyRefusedError) -> float | None:
        """What is released cannot be taken back: the rest must follow, here or elsewhere; people know."""
        if not steps.is_begun and len(error.pods) == len(steps.lifts):
            await self._writer.erase(record)
            self._planner.rest(record.gang, str(error), error.pods)
            return None
        note = f"{error}; it is tried again, and on other nodes"
        self._events.tell(error.pods[0], "Warning", "Refused", note)
        lost = await self._remaker.give_up(record, error.pods)
        if lost:
            await self._place_anew(record, await self._steps(record), lost)
            return None
        return self._refused_again_s

    async def _place_anew(self, record: Record, steps: Steps, lost: Collection[Placement]) -> None:
        """Takes back what has not begun: of a gang of which no pod is released, everything."""
        self._metrics.repairs.labels("node" if steps.lost else "refused").inc(len(lost))
        _log.info("placing anew", gang=str(record.gang), pods=len(lost))
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
