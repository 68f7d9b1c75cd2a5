"""Plans gangs in rounds, beside the event loop, and has each plan written down as soon as it is made."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import replace

from accelet.control.errors import NotLeadingError
from accelet.control.workqueue import WorkQueue
from accelet.kube.errors import KubeError, NotFoundError
from accelet.kube.pods import Pod
from accelet.runtime.backoff import Backoff
from accelet.runtime.clock import Clock
from accelet.runtime.logs import Log
from accelet.scheduler.cluster.cluster import Snapshot
from accelet.scheduler.cluster.layout import Layout, lay_out
from accelet.scheduler.errors import BrokenPlanError, PlanRefusedError, PlanTooLargeError
from accelet.scheduler.events import GangEvents
from accelet.scheduler.gangs.grouping import Gang, GangKey
from accelet.scheduler.gangs.placeholders import PLACEHOLDERS
from accelet.scheduler.gangs.podgroups import POD_GROUP
from accelet.scheduler.metrics import SchedulerMetrics
from accelet.scheduler.moves.moving import Moves
from accelet.scheduler.placement.backlog import Backlog
from accelet.scheduler.placement.plan import Plan, check_plan, describe_plan
from accelet.scheduler.placement.refusals import Refusals
from accelet.scheduler.placement.reservation import Patience, Reservation
from accelet.scheduler.placement.shares import Shares
from accelet.scheduler.preemption.preempting import Preemptor, suppose
from accelet.scheduler.record import Awaited, Evicted, Placement, Record, placements_of
from accelet.scheduler.settings import SchedulerSettings
from accelet.scheduler.state import SchedulerState
from accelet.scheduler.writer import PlanWriter

_log = Log(__name__)

_ROUND = "round"
_REFUSED_FOR_S = 60.0
_INCOMPLETE_FOR_S = 10.0
"""A gang that misses pods is not worth an event before."""

_GATHER_NEWS_S = 0.02
"""Pods of one gang come one after the other; each round makes the gang anew."""

_GATHER_S = 0.1
"""Room that becomes free is looked at together with what else becomes free in this time."""

_MOST_NAMED = 20
_PLACEMENTS_AT_ONCE = 200
"""The room of so many is taken in some 5 ms."""

_CLOSED = "promised to Workloads of Kueue, which cannot be read"
_CLOSED_LOOK_S = 30.0
"""How often it is looked at whether promises that cannot be read are over by their own time."""

_WRITE_WITHIN_S = 30.0
"""A plan that could not be written for so long gives its room back."""


async def nothing_promised(_: Gang) -> Plan | None:
    """Nobody was promised a place."""
    return None


class Planner:
    """The rounds of one leader.

    `written` is told of each plan that is to be carried out, `waiting` after each round of those that wait.
    `promised` gives the plan of a gang that was made before its pods were there, `closed` the nodes on which
    room is promised to nobody knows whom.
    """

    def __init__(
        self,
        state: SchedulerState,
        writer: PlanWriter,
        events: GangEvents,
        settings: SchedulerSettings,
        metrics: SchedulerMetrics,
        *,
        preemptor: Preemptor,
        moves: Moves | None,
        written: Callable[[Record], None],
        waiting: Callable[[Sequence[Plan]], None],
        promised: Callable[[Gang], Awaitable[Plan | None]] = nothing_promised,
        closed: Callable[[], frozenset[str]] = frozenset,
        clock: Clock,
        wall_s: Callable[[], float] = time.time,
    ) -> None:
        self._state, self._writer, self._events, self._settings = state, writer, events, settings
        self._metrics, self._written, self._clock, self._wall_s = metrics, written, clock, wall_s
        self._tell_waiting, self._promised, self._find_closed = waiting, promised, closed
        self._preemptor, self._moves = preemptor, moves
        self._queue: WorkQueue[str] = WorkQueue(clock)
        self._writes: set[asyncio.Task[None]] = set()
        self._holds: set[asyncio.Task[None]] = set()
        self._arrived_s: dict[GangKey, float] = {}
        self._resting_until_s: dict[GangKey, float] = {}
        self._reserved_until_s: dict[GangKey, float] = {}
        self._refusals = Refusals()
        self._reservation: Reservation | None = None
        self._shares = Shares()
        self._has_news = False
        self._is_over = False
        self._closed: frozenset[str] = frozenset()

    async def run(self) -> None:
        """Plans until it is cancelled."""
        self.plan_soon()
        try:
            await self._queue.work(lambda _: self._round())
        finally:
            # Whatever is still being planned in its thread ends soon, and is not begun.
            self._has_news = self._is_over = True
            for write in self._writes:
                write.cancel()
            await asyncio.gather(*self._writes, return_exceptions=True)

    def plan_soon(self) -> None:
        """Room may have become free."""
        self._queue.add_after(_ROUND, _GATHER_S)

    def plan_now(self, gang: GangKey, *, is_new: bool) -> None:
        """A pod of this gang has come or changed; a new one ends the gang's rest."""
        if is_new:
            self._arrived_s[gang] = self._clock.now_s()
            self._resting_until_s.pop(gang, None)
        self._has_news = True
        self._queue.add_after(_ROUND, _GATHER_NEWS_S)

    def rest(self, gang: GangKey, reason: str, pods: Sequence[Pod], *, for_s: float = _REFUSED_FOR_S) -> None:
        """The gang cannot be placed or released: it is told, and left alone for a while."""
        self._resting_until_s[gang] = self._clock.now_s() + for_s
        _log.warning("refused", gang=str(gang), reason=reason)
        self._events.tell(pods[0], "Warning", "Refused", reason)
        self._queue.add_after(_ROUND, for_s)

    async def _round(self) -> float | None:
        """One round of planning; returns after how long another one may come out differently by itself."""
        self._has_news = False
        linger_s = self._state.let_go(self._clock.now_s())
        excluded_s = self._state.end_exclusions(self._clock.now_s())
        await self._rebuild_gangs()
        open_gangs = self._state.gangs()
        self._forget_all_but({gang.key for gang in open_gangs})
        gangs, again_s = self._ready(open_gangs)
        gangs = [gang for gang in gangs if not await self._begin_promised(gang)]
        layout = await self._layout()
        gangs = await self._arrive(gangs, layout)
        await self._room_is_taken()
        now_s = self._wall_s()
        self._end_reservation(now_s)
        patience = self._patience(gangs, now_s)
        snapshot = self._without_closed(self._state.cluster.snapshot(layout))
        backlog = Backlog(gangs, snapshot, patience, self._refusals, before=self._reservation)
        waiting: list[Plan] = []
        started_s = self._clock.now_s()
        await self._make_plans(backlog, waiting)
        await self._preempt(waiting, backlog.reservation)
        await self._room_is_taken()
        took_s = self._clock.now_s() - started_s
        self._metrics.plan_seconds.observe(took_s)
        waits_s = [self._keep(backlog.reservation, now_s), again_s, linger_s, excluded_s]
        self._metrics.waiting.set(len(waiting))
        waits_s.append(self._refusals.again_after_s(now_s))
        self._tell_waiting(waiting)
        waits_s += [self._events.tell_waiting(waiting), self._preemptor.note(waiting)]
        waits_s.append(await self._move(waiting, backlog.reservation))
        waits_s += (left_s for plan in waiting if (left_s := patience.left_s(plan.gang)) > 0)
        if self._closed:
            waits_s.append(_CLOSED_LOOK_S)
        if self._has_news:
            waits_s.append(_GATHER_NEWS_S)
        elif took_s > _GATHER_S:
            # What becomes free meanwhile is looked at together: planning takes half of one core at most.
            waits_s.append(took_s)
        return min((s for s in waits_s if s is not None), default=None)

    def _without_closed(self, snapshot: Snapshot) -> Snapshot:
        """The snapshot in which nobody is placed where room is promised to nobody knows whom."""
        closed = self._find_closed()
        if closed != self._closed:
            self._refusals = Refusals()  # room has become free without an event
            self._closed = closed
        return snapshot.without(closed, _CLOSED) if closed else snapshot

    async def _begin_promised(self, gang: Gang) -> bool:
        """Begins with the places that were promised to the gang, if there are any that hold."""
        plan = await self._promised(gang)
        if plan is None:
            return False
        layout, residents = await self._layout(), self._state.cluster.residents()

        def make() -> tuple[Plan, tuple[Placement, ...]]:
            checked = check_plan(plan, layout, residents)
            return checked, placements_of(checked)

        is_large = len(plan.gang.pods) > _PLACEMENTS_AT_ONCE
        try:
            checked, made = await asyncio.to_thread(make) if is_large else make()
        except BrokenPlanError as error:
            # Its pods are others than were planned, or nodes have changed: it is planned as any.
            _log.warning("promised places do not hold", gang=str(gang.key), reason=str(error))
            return False
        self._begin(checked, placements=made)
        return True

    async def _room_is_taken(self) -> None:
        """Waits until the room of all plans that have begun is taken: others are planned without it."""
        if self._holds:
            await asyncio.wait(self._holds)

    async def _rebuild_gangs(self) -> None:
        """Has the gangs that have changed made anew, not too many at once: the loop must not be held up."""
        for _ in self._state.ask_anew():
            await asyncio.sleep(0)
        is_left = self._state.rebuild_gangs()
        while is_left:
            await asyncio.sleep(0)
            is_left = self._state.rebuild_gangs()

    async def _make_plans(self, backlog: Backlog, waiting: list[Plan]) -> None:
        loop = asyncio.get_running_loop()

        def take(plan: Plan, placements: tuple[Placement, ...]) -> None:
            if self._is_over:
                return
            if plan.fault is not None:
                self._rest_of_fault(plan)
            elif plan.nodes is None:
                waiting.append(plan)
            else:
                self._begin(plan, placements=placements)

        def make() -> None:
            for plan in backlog.plans(lambda: self._has_news):
                loop.call_soon_threadsafe(take, plan, placements_of(plan))

        await asyncio.to_thread(make)
        await self._room_is_taken()

    def _rest_of_fault(self, plan: Plan) -> None:
        """A gang that has no plan by a fault of ours waits: it is counted, logged and told."""
        self._metrics.planning_faults.inc()
        _log.exception("fault in planning", cause=plan.fault, gang=str(plan.gang.key))
        self.rest(plan.gang.key, plan.reason or "", plan.gang.pods)

    async def _preempt(self, waiting: list[Plan], kept: Reservation | None) -> None:
        """Has gangs of lower priority evicted for one of those that wait, if that gets it in.

        What this round has placed is charged by now, so that nobody else is promised its cards.
        """
        if self._closed:
            return
        prospect = await self._preemptor.look(waiting)
        if prospect is None:
            return
        if self._moves is not None:
            self._moves.settle()
        layout = await self._layout()
        supposed = suppose(self._state, self._state.cluster.snapshot(layout), prospect)
        found = await self._preemptor.search(prospect, supposed, waiting, kept)
        if found is None or found.plan is None or self._is_over:
            return
        if found.plan.fault is not None:
            self._rest_of_fault(found.plan)
            return
        key, pods = found.plan.gang.key, sum(len(victim.pods) for victim in found.victims)
        names = [str(victim.key) for victim in found.victims]
        _log.info("preempting", gang=str(key), victims=names[:_MOST_NAMED], pods=pods)
        gangs = "1 gang" if len(names) == 1 else f"{len(names)} gangs"
        note = f"{gangs} of lower priority with {pods} pods must end for it"
        self._events.tell(found.plan.gang.pods[0], "Normal", "Preempting", note)
        waiting[:] = [plan for plan in waiting if plan.gang.key != key]
        until_s = self._wall_s() + self._settings.preemption.within_s
        self._begin(found.plan, prospect.evicted_for(found), until_s=until_s)

    async def _arrive(self, gangs: list[Gang], layout: Layout) -> list[Gang]:
        """Has gangs that were moved go where a place is held for them; the others, in order."""
        if self._moves is None:
            return gangs
        found = await self._moves.arrive(gangs, layout)
        for plan in found.plans:
            self._begin(plan)
        self._moves.settle()
        arrived = {plan.gang.key for plan in found.plans}
        left = [gang for gang in gangs if gang.key not in arrived]
        return sorted(left, key=lambda gang: gang.key not in found.first)

    async def _move(self, waiting: Sequence[Plan], kept: Reservation | None) -> float | None:
        """Goes on with moves of running tasks, and proposes others; returns after how long to look again."""
        if self._moves is None or self._is_over or self._closed:
            return None
        return await self._moves.go_on(waiting, await self._layout(), kept)

    async def hold_plan(self, plan: Plan, awaited: tuple[Awaited, ...], until_s: float) -> None:
        """Has a plan written down that is carried out once these Moves are done."""
        await asyncio.wait({self._begin(plan, awaited=awaited, until_s=until_s)})

    async def _layout(self) -> Layout:
        """The nodes' layout; made in a thread where it takes long."""
        cluster = self._state.cluster
        if cluster.layout_is_old:
            nodes = cluster.begin_layout()
            try:
                cluster.set_layout(await asyncio.to_thread(lay_out, cluster.scheme, nodes))
            except BaseException:
                cluster.give_up_layout()
                raise
        return cluster.kept_layout()

    def _ready(self, gangs: Sequence[Gang]) -> tuple[list[Gang], float | None]:
        """The gangs that may be planned now, and after how long the next of the others may be."""
        ready, waits_s = [], []
        now_s = self._clock.now_s()
        for gang in gangs:
            resting_until_s = self._resting_until_s.get(gang.key, 0.0)
            settled_s = now_s - self._arrived_s.get(gang.key, now_s)
            patience_s = self._patience_s(gang)
            if self._state.is_assumed(gang.key):
                continue  # another round follows when that plan is written
            if resting_until_s > now_s:
                waits_s.append(resting_until_s - now_s)
            elif settled_s < patience_s:
                waits_s.append(patience_s - settled_s)
            else:
                ready.append(gang)
        return ready, min(waits_s, default=None)

    def _patience_s(self, gang: Gang) -> float:
        """How long after its newest pod a gang is worth a look."""
        if gang.missing:
            return _INCOMPLETE_FOR_S
        if gang.size is not None:
            # The size of a PodGroup is what its pods' owners make: of a Job without pods nobody knows yet.
            return self._settings.quiet_s if gang.key.kind == POD_GROUP else 0.0
        # An owner that can tell the size and has not been seen yet will be, unless we may not see it.
        return _INCOMPLETE_FOR_S if gang.is_counted else self._settings.quiet_s

    def _end_reservation(self, now_s: float) -> None:
        """Drops a reservation whose time is over; its gang's wait for another one begins."""
        if self._reservation is not None and self._reservation.until_s <= now_s:
            self._reserved_until_s[self._reservation.gang] = now_s
            self._note_reservation(None, now_s)

    def _patience(self, gangs: Sequence[Gang], now_s: float) -> Patience:
        settings, namespaces = self._settings, {gang.key.namespace for gang in gangs}
        rests_until_s = {name: self._shares.rests_until_s(name, namespaces) for name in namespaces}
        return Patience(
            now_s=now_s,
            starving_after_s=settings.starving_after_s,
            waiting_since={
                gang.key: max(
                    gang.newest_s,
                    self._reserved_until_s.get(gang.key, 0.0),
                    rests_until_s[gang.key.namespace] - settings.starving_after_s,
                )
                for gang in gangs
            },
            reserved_for_s=settings.reserved_for_s,
            most_share=settings.reserved_share,
        )

    def _keep(self, reservation: Reservation | None, now_s: float) -> float | None:
        """Notes what the next round must know of reservations; returns after how long it matters."""
        before = self._reservation
        self._note_reservation(reservation, now_s)
        if reservation != before:
            return 0.0
        return reservation.until_s - now_s if reservation and reservation.until_s < float("inf") else None

    def _note_reservation(self, reservation: Reservation | None, now_s: float) -> None:
        """The one that is in force from now on; people are told of its begin and its end."""
        before, self._reservation = self._reservation, reservation
        self._shares.note(reservation, now_s)
        nodes = len(reservation.nodes) if reservation else 0
        self._metrics.reserved.set(nodes)
        if (before and before.gang) == (reservation and reservation.gang):
            return
        if before is not None:
            _log.info("keeps nodes free no longer", gang=str(before.gang))
        if reservation is not None:
            self._metrics.reservations.inc()
            left_s = round(reservation.until_s - now_s, 1)
            _log.info("keeps nodes free", gang=str(reservation.gang), nodes=nodes, for_s=left_s)

    def _forget_all_but(self, gangs: Collection[GangKey]) -> None:
        self._events.forget_all_but(gangs)
        for known in (self._arrived_s, self._resting_until_s, self._reserved_until_s):
            for key in [key for key in known if key not in gangs]:
                known.pop(key, None)
        for key in gangs:
            self._arrived_s.setdefault(key, self._clock.now_s())

    def _begin(
        self,
        plan: Plan,
        evicted: tuple[Evicted, ...] = (),
        awaited: tuple[Awaited, ...] = (),
        until_s: float = 0.0,
        placements: tuple[Placement, ...] | None = None,
    ) -> asyncio.Task[None]:
        """Holds a plan's room from now on, and has it written down beside what is left of a former one.

        Where others are `evicted` or moved for it, it is carried out when they are gone. `placements` are the
        plan's, if they are made already: of thousands that takes a while. The room of so many is taken part
        by part; no round goes on before it is.
        """
        gang, former = plan.gang, self._state.record_of(plan.gang.key)
        if placements is None:
            placements = placements_of(plan)
        if former is not None:
            fresh = {placement.pod for placement in placements}
            placements += tuple(one for one in former.placements if one.pod not in fresh)
        record = Record(
            gang.key,
            placements,
            plan.distance or 0,
            plan.lower_bound,
            former.resource_version if former else "",
            evicted=evicted or (former.evicted if former else ()),
            awaited=awaited or (former.awaited if former else ()),
            until_s=until_s or self._until_s(gang, former),
        )
        loop, hold = asyncio.get_running_loop(), None
        if len(placements) <= _PLACEMENTS_AT_ONCE:
            self._state.assume(record)
        else:
            self._state.begin_assumption(record)
            hold = loop.create_task(self._take_room(record))
            self._holds.add(hold)
            hold.add_done_callback(self._holds.discard)
        write = loop.create_task(self._write(plan, record, hold))
        self._writes.add(write)
        write.add_done_callback(self._writes.discard)
        return write

    async def _take_room(self, record: Record) -> None:
        """Takes the room of a plan part by part, not to hold up the event loop."""
        for first in range(0, len(record.placements), _PLACEMENTS_AT_ONCE):
            self._state.assume_part(record, first, _PLACEMENTS_AT_ONCE)
            await asyncio.sleep(0)

    def _until_s(self, gang: Gang, former: Record | None) -> float:
        """Until when a plan waits as its former did, or for its pods to come; 0 where it waits for none."""
        if former is not None:
            return former.until_s
        is_promise = gang.key.kind == PLACEHOLDERS
        return self._wall_s() + self._settings.admission.within_s if is_promise else 0.0

    async def _write(self, plan: Plan, record: Record, hold: asyncio.Task[None] | None) -> None:
        """Writes a plan down, once its room is held, or gives that back and says why."""
        refusal: str | None = None
        is_ours = False
        try:
            if hold is not None:
                await hold
            is_ours = await self._insist(record)
        except NotLeadingError:
            return
        except (PlanTooLargeError, PlanRefusedError) as error:
            refusal = str(error)
        except KubeError as error:
            refusal = f"its plan cannot be written down: {error}"
        except Exception as fault:  # whatever it is, it is a fault of ours with this one plan
            _log.exception("fault in writing a plan", cause=fault, gang=str(record.gang))
            refusal = "its plan cannot be written by a fault of the scheduler; see its log"
        finally:
            self._state.end_assumption(record)
        if refusal is not None:
            self.rest(record.gang, refusal, plan.gang.pods)
        self.plan_soon()
        if refusal is not None:
            return
        self._written(record)
        if is_ours:
            self._tell_placed(plan)

    async def _insist(self, record: Record) -> bool:
        """Writes a plan down, again and again where the API server gives no answer.

        Raises:
            PlanTooLargeError: it is too large.
            PlanRefusedError: the API server does not take it.
            KubeError: there was no answer for too long.
        """
        give_up_s, backoff = self._clock.now_s() + _WRITE_WITHIN_S, Backoff(first_s=0.05, most_s=5.0)
        while True:
            try:
                return await self._writer.write(record)
            except NotFoundError:
                # The former plan was finished meanwhile.
                record = replace(record, resource_version="")
                if self._clock.now_s() + backoff.wait_s > give_up_s:
                    raise
            except KubeError:
                if self._clock.now_s() + backoff.wait_s > give_up_s:
                    raise
            await self._clock.sleep(backoff.wait_s)
            backoff = backoff.failed()

    def _tell_placed(self, plan: Plan) -> None:
        self._events.forget(plan.gang.key)
        if plan.gang.key.kind != PLACEHOLDERS:  # counted once its pods are there
            self._metrics.placed.inc()
            self._metrics.distance.observe(plan.distance or 0)
            self._metrics.gap.observe((plan.distance or 0) - plan.lower_bound)
        note = describe_plan(plan)
        _log.info("placed", gang=str(plan.gang.key), note=note)
        self._events.tell(plan.gang.pods[0], "Normal", "Placed", note)
