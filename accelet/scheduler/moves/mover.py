"""The scheduler's part of Moves: holds places, withdraws what is no good any more, places who arrives."""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from dataclasses import dataclass

from accelet.assignments.assignment import AssignmentError
from accelet.assignments.ownform import parse_own
from accelet.control.errors import NotLeadingError
from accelet.kinds.move import Move
from accelet.kube.errors import ForbiddenError, InvalidError, KubeError
from accelet.runtime.failing import Failing
from accelet.runtime.logs import Log
from accelet.scheduler.cluster.layout import Layout
from accelet.scheduler.errors import BrokenPlanError
from accelet.scheduler.gangs.grouping import Gang, GangKey
from accelet.scheduler.metrics import SchedulerMetrics
from accelet.scheduler.moves.book import CONTAINER, MoveBook
from accelet.scheduler.moves.budgets import IMPROVEMENTS
from accelet.scheduler.moves.finding.packs import PacksTerms, still_packs
from accelet.scheduler.moves.finding.relocating import Drained
from accelet.scheduler.moves.holding import (
    LOST,
    SLACK_S,
    MoveVerdict,
    first_come,
    held_until_s,
    judge_group,
)
from accelet.scheduler.moves.lasting import as_written, still_drains
from accelet.scheduler.moves.movable import distance_of, running_task
from accelet.scheduler.moves.proposing import lets_in_key
from accelet.scheduler.moves.writer import MoveWriter
from accelet.scheduler.placement.plan import Plan, check_plan, find_places, take_places
from accelet.scheduler.record import Awaited, Record
from accelet.scheduler.settings import MoveSettings
from accelet.scheduler.state import SchedulerState
from accelet.scheduler.writer import PlanWriter

_log = Log(__name__)

HoldPlan = Callable[[Plan, tuple[Awaited, ...], float], Awaitable[None]]
"""Has a plan written down that is carried out once Moves are done, until a time since the epoch."""


@dataclass(frozen=True, slots=True)
class Arrivals:
    """Plans of gangs that go to the places held for them; the gangs `first` are planned before all others."""

    plans: tuple[Plan, ...] = ()
    first: frozenset[GangKey] = frozenset()


class Mover:
    """The scheduler's part of the Moves in `book`. Made anew for each leadership."""

    def __init__(
        self,
        state: SchedulerState,
        book: MoveBook,
        moves: MoveWriter,
        plans: PlanWriter,
        *,
        settings: MoveSettings,
        metrics: SchedulerMetrics,
        hold_plan: HoldPlan,
        wall_s: Callable[[], float],
    ) -> None:
        self._state, self._book, self._moves, self._plans = state, book, moves, plans
        self._metrics = metrics
        self._packs = PacksTerms(factor=settings.improve_factor)
        self._hold_plan, self._wall_s = hold_plan, wall_s
        self._failing = Failing(_log, "cannot write moves")

    async def arrive(self, gangs: Sequence[Gang], layout: Layout) -> Arrivals:
        """What becomes of gangs that are the successors of moved pods, before anybody else is planned.

        Where a new place is lost, they are placed as any gang, at the latest where they were: a plan that
        awaits that room is given up.

        Raises:
            KubeError: such a plan could not be given up.
        """
        self._book.settle()
        self._end_holds()
        plans: list[Plan] = []
        first: set[GangKey] = set()
        for gang in gangs:
            move = None if gang.lacking or gang.objection else self._book.arriving(gang)
            if move is None:
                continue
            plan = self._exact(move, gang, layout)
            if plan is not None:
                plans.append(plan)
                continue
            _log.info("new place is lost", move=move.name, task=f"{move.namespace}/{move.spec.task.name}")
            for record in self.awaiting([move]):
                await self._plans.erase(record)
            self._book.give_up(move)
            first.add(gang.key)
        return Arrivals(tuple(plans), frozenset(first))

    def _end_holds(self) -> None:
        now_s = self._wall_s()
        self._book.note_gone(now_s)
        for move in self._book.live:
            is_late = move.is_under_way and now_s >= held_until_s(move, self._book.ending_s(move))
            if is_late and self._book.is_held(move):
                _log.info("held too long", move=move.name, task=f"{move.namespace}/{move.spec.task.name}")
                self._book.give_up(move)

    def _exact(self, move: Move, gang: Gang, layout: Layout) -> Plan | None:
        """The gang's plan at the places held for it, if these are still free."""
        places = self._book.exact_places(move, gang)
        if places is None or any(place.node not in layout.leaf_of for place in places):
            return None
        try:
            given = tuple(parse_own(one.cards, (CONTAINER,)) if one.cards else None for one in places)
        except AssignmentError:
            return None
        nodes = tuple(place.node for place in places)
        plan = Plan(gang, nodes, given, distance_of(nodes, layout))
        try:
            return check_plan(
                plan, layout, self._state.cluster.residents().without(self._book.stand_ins(move))
            )
        except BrokenPlanError as error:
            _log.warning("held places do not hold", gang=str(gang.key), move=move.name, reason=str(error))
            return None

    async def judge(self, gangs: Collection[Gang], layout: Layout, *, is_wanted: bool) -> None:
        """Holds the places of what is approved, and withdraws what cannot or need not be done any more.

        `gangs` are those that have no place; `is_wanted`: one of them waits for room.
        """
        refused: KubeError | None = None
        drained = Drained.as_said(self._state.cluster.nodes)
        try:
            for group in _groups(self._book.live):
                try:
                    await self._judge(group, gangs, layout, drained, is_wanted=is_wanted)
                except (ForbiddenError, InvalidError) as error:
                    refused = error  # of these Moves alone
        except NotLeadingError:
            return
        except KubeError as error:
            refused = error
        if refused is not None:
            self._failing.failed(refused)
        else:
            self._failing.worked()

    async def _judge(
        self,
        group: Sequence[Move],
        gangs: Collection[Gang],
        layout: Layout,
        drained: Drained,
        *,
        is_wanted: bool,
    ) -> None:
        """`group` are Moves that are good for something together alone."""
        let_in = _find(gangs, group[0].spec.gain.lets_in)
        # Plans await Moves that let somebody in, and no others: all plans are gone over for such alone.
        is_awaited = bool(group[0].spec.gain.lets_in and self.awaiting(group))
        account = self._state.cluster.cards
        verdicts = judge_group(
            group,
            self._wall_s(),
            is_open=self._book.is_open,
            is_of_use=lambda move: still_drains(move, self._book.leaving(move), drained, account),
            is_awaited=is_awaited,
            is_waiting=let_in is not None,
        )
        for move, verdict in verdicts:
            await self._write(move, verdict)
        if verdicts or not any(move.phase == "Approved" for move in group):
            return
        if all(move.phase != "Proposed" for move in group):
            if not await self._still_improves(group[0], layout, is_wanted=is_wanted):
                await self._write(group[0], LOST)
                return
            await self._hold(group, None if is_awaited else let_in, layout)

    async def _still_improves(self, move: Move, layout: Layout, *, is_wanted: bool) -> bool:
        """Whether a better place is one now that it is to be held; so are those of all other moves."""
        if move.spec.gain.kind not in IMPROVEMENTS:
            return True
        terms = self._book.tasks.get((move.namespace, move.spec.task.name))
        task = running_task(terms, self._state) if terms is not None else None
        if is_wanted or task is None or move.spec.gain.kind == "Nearer":
            return not is_wanted
        found = as_written(move, task)
        cluster = self._state.cluster
        supposed = cluster.suppose(cluster.snapshot(layout), task.pods)
        return found is not None and await asyncio.to_thread(still_packs, found, supposed, self._packs)

    async def _hold(self, group: Sequence[Move], let_in: Gang | None, layout: Layout) -> None:
        """Holds the places of a group that is approved, and what they free for the gang that they let in."""
        approved = [move for move in group if move.phase == "Approved"]
        try:
            for move in approved:
                if not self._book.intend(move):
                    await self._write(
                        move, MoveVerdict("Withdrawn", "PlaceLost", "its new place is not free any more")
                    )
                    return
            if let_in is not None and not await self._hold_for(group, let_in, layout):
                return
            for move in approved:
                await self._write(move, MoveVerdict("Held", "Held"))
        finally:
            for move in approved:
                self._book.let_go(move)

    async def _hold_for(self, group: Sequence[Move], let_in: Gang, layout: Layout) -> bool:
        """Has the plan written down of the gang that is let in; whether it is."""
        if self._state.is_assumed(let_in.key):
            return False
        gone = [key for move in group for key in self._book.leaving(move)]
        supposed = self._state.cluster.suppose(self._state.cluster.snapshot(layout), gone)
        room = supposed.room([key for key in gone if key in supposed.charges])
        gang = let_in.least_part
        try:
            plan = await asyncio.to_thread(lambda: take_places(find_places(gang, layout, room), layout, room))
        except BrokenPlanError as fault:
            self._metrics.planning_faults.inc()
            _log.exception("fault in planning", cause=fault, gang=str(gang.key))
            plan = Plan(gang)
        if plan.nodes is None:
            for move in group:
                if move.phase in ("Approved", "Held", "Saving"):
                    await self._write(move, LOST)
            return False
        until_s = max(map(self._done_by_s, group))
        awaited = tuple(Awaited(*move.key, move.uid) for move in group)
        await self._hold_plan(plan, awaited, until_s)
        return bool(self.awaiting(group))

    def _done_by_s(self, move: Move) -> float:
        """When a Move has surely been done, or come to nothing."""
        return move.valid_until_s + self._book.ending_s(move) + SLACK_S

    async def _write(self, move: Move, verdict: MoveVerdict) -> None:
        written = await self._moves.write(move, verdict, self._wall_s())
        if written is not None:
            task = f"{move.namespace}/{move.spec.task.name}"
            _log.info("move", move=move.name, task=task, phase=verdict.phase, why=verdict.why)

    def awaiting(self, group: Iterable[Move]) -> list[Record]:
        """The plans that are carried out once these Moves are done."""
        uids = {move.uid for move in group}
        return [
            record
            for record in self._state.records.values()
            if any(awaited.uid in uids for awaited in record.awaited)
        ]


def _groups(moves: Iterable[Move]) -> list[list[Move]]:
    """Moves that let in the same gang together, all others by themselves; in the order of `first_come`."""
    found: defaultdict[str, list[Move]] = defaultdict(list)
    for move in first_come(moves):
        found[move.spec.gain.lets_in or move.uid].append(move)
    return list(found.values())


def _find(gangs: Iterable[Gang], key: str) -> Gang | None:
    return next((gang for gang in gangs if key and lets_in_key(gang.key) == key), None)
