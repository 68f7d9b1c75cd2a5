"""Looks for moves that help somebody, not too often and not for long, and proposes them."""

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import UTC, datetime

import numpy as np

from accelet.control.errors import NotLeadingError
from accelet.control.pacing import Intervals, Parts, Rests
from accelet.kinds.move import MOST_MOVED, Move, MoveGain
from accelet.kube.errors import ForbiddenError, InvalidError, KubeError
from accelet.runtime.clock import Clock
from accelet.runtime.failing import Failing
from accelet.runtime.logs import Log
from accelet.scheduler.cluster.layout import Layout
from accelet.scheduler.cluster.supposing import Supposition
from accelet.scheduler.errors import BrokenPlanError
from accelet.scheduler.events import GangEvents
from accelet.scheduler.gangs.grouping import Gang, GangKey
from accelet.scheduler.gangs.placeholders import PLACEHOLDERS
from accelet.scheduler.metrics import SchedulerMetrics
from accelet.scheduler.moves.book import MoveBook
from accelet.scheduler.moves.budgets import IMPROVEMENTS, MoveBounds, MoveHistory
from accelet.scheduler.moves.finding.letsin import LetsInTerms
from accelet.scheduler.moves.finding.relocating import Drained, nodes_mask
from accelet.scheduler.moves.improver import Improver
from accelet.scheduler.moves.lasting import is_wanted
from accelet.scheduler.moves.movable import MovableTask, Relocation, running_task
from accelet.scheduler.moves.proposing import (
    lets_in_key,
    move_spec,
    propose_drain,
    propose_lets_in,
    propose_wish,
)
from accelet.scheduler.moves.writer import MoveWriter, move_name
from accelet.scheduler.placement.plan import Plan
from accelet.scheduler.placement.reservation import Reservation
from accelet.scheduler.settings import MoveSettings
from accelet.scheduler.state import SchedulerState

_log = Log(__name__)

_EVERY_S = 2.0
_LOOK_S = 10.0
"""Between two looks for drained nodes and wishes, where nothing else happens."""

_SHARE = 10
"""Between two looks at all tasks: so many times as long as the last one took, with its waits for answers.

Nobody is planned meanwhile."""

_REST_S = 60.0
"""How long a gang waits that no moves let in, before they are looked for again."""

_ASKED_S = 1.0
"""How long tasks that somebody wants elsewhere are looked at, at a time: everybody's planning waits."""

_MOST_IN_VAIN = 2
"""So many gangs of a namespace may go away in an hour while places are held for them."""

_PODS_AT_ONCE = 200
"""So many pods are looked at in some 10 ms."""


class Proposer:
    """Made anew for each leadership.

    One gang at a time is let in by moves that have not ended, but for those that wait for a person; and one
    task at a time is brought to a better place, while no gang waits.
    """

    def __init__(
        self,
        state: SchedulerState,
        book: MoveBook,
        writer: MoveWriter,
        events: GangEvents,
        *,
        settings: MoveSettings,
        metrics: SchedulerMetrics,
        clock: Clock,
        wall_s: Callable[[], float],
    ) -> None:
        self._state, self._book, self._writer, self._events = state, book, writer, events
        self._settings, self._metrics, self._clock, self._wall_s = settings, metrics, clock, wall_s
        self._terms = LetsInTerms(factor=settings.factor)
        self._improver = Improver(settings, clock)
        self._failing = Failing(_log, "cannot propose moves")
        self._rests = Rests[GangKey](clock.now_s)
        self._told: dict[str, str] = {}
        self._whose: dict[str, str] = {}
        self._looked_s: dict[str, float] = {}
        self._intervals = Intervals(clock, _EVERY_S, _SHARE)

    async def look(self, waiting: Sequence[Plan], layout: Layout, kept: Reservation | None) -> float:
        """Proposes what helps; returns after how long to look again.

        `waiting` are the gangs without a place, `kept` the nodes that are kept free for one of them.
        """
        if (left_s := self._intervals.left_s) > 0:
            return left_s
        with self._intervals.look():
            await self._look(waiting, layout, kept)
        return max(_LOOK_S, self._intervals.left_s)

    async def _look(self, waiting: Sequence[Plan], layout: Layout, kept: Reservation | None) -> None:
        gang = self._next_gang(waiting)
        wished = self._wished()
        drained = Drained.as_said(self._state.cluster.nodes)
        improves = not is_wanted(waiting) and self._may_improve()
        if gang is not None or wished or drained != Drained() or improves:
            try:
                await self._propose(gang, wished, drained, layout, kept, improves=improves)
            except NotLeadingError:
                pass
            except BrokenPlanError as fault:
                self._metrics.planning_faults.inc()
                _log.exception("fault in looking for moves", cause=fault)
            except KubeError as error:
                self._failing.failed(error)
            else:
                self._failing.worked()

    def _next_gang(self, waiting: Sequence[Plan]) -> Gang | None:
        """The first that has waited long enough and has not been looked at lately."""
        # A gang that a plan awaits Moves for does not wait, and may wait again any moment.
        self._rests.forget_ended()
        live = [move for move in self._book.live if not self._book.is_given_up(move)]
        let_in = {move.spec.gain.lets_in for move in live if move.spec.gain.kind == "LetsIn"}
        if let_in - {move.spec.gain.lets_in for move in live if self._waits_for_a_person(move)}:
            return None
        since_s, fickle = self._wall_s() - self._settings.waits_s, self._fickle_namespaces()
        for plan in waiting:
            gang = plan.gang
            is_promise = gang.key.kind == PLACEHOLDERS  # what Kueue asks for has no pods yet
            is_apart = (
                is_promise or gang.is_begun or gang.lacking or gang.excluded or gang.objection is not None
            )
            is_asked_for = bool(let_in) and lets_in_key(gang.key) in let_in
            is_fickle = gang.key.namespace in fickle
            is_resting = is_asked_for or is_fickle or self._rests.is_resting(gang.key)
            if plan.is_settled and not is_apart and not is_resting and gang.newest_s <= since_s:
                return gang.least_part
        return None

    def _fickle_namespaces(self) -> set[str]:
        """Namespaces of which gangs went away again and again while places were held for them.

        What this leader has proposed counts alone: Moves tell nobody whose gang they let in.
        """
        history = self._history()
        there, times = {one.lets_in for one in history.former}, Counter[str]()
        self._whose = {digest: whose for digest, whose in self._whose.items() if digest in there}
        for digest, count in history.in_vain().items():
            if digest in self._whose:
                times[self._whose[digest]] += count
        return {whose for whose, count in times.items() if count >= _MOST_IN_VAIN}

    def _waits_for_a_person(self, move: Move) -> bool:
        """Whether somebody has to approve it, so that nobody knows whether it is ever carried out."""
        task = self._book.tasks.get((move.namespace, move.spec.task.name))
        return move.phase == "Proposed" and task is not None and task.moves.policy == "Ask"

    def _wished(self) -> set[str]:
        """The UIDs of tasks that somebody wishes elsewhere, and has not been answered yet."""
        now_s = self._wall_s()
        present = {
            task.uid: str(task.wish)
            for task in self._book.tasks.values()
            if task.wish is not None and task.wish.is_present(now_s)
        }
        self._told = {uid: wish for uid, wish in self._told.items() if uid in present}
        return {uid for uid, wish in present.items() if self._told.get(uid) != wish}

    async def _propose(
        self,
        gang: Gang | None,
        wished: set[str],
        drained: Drained,
        layout: Layout,
        kept: Reservation | None,
        *,
        improves: bool,
    ) -> None:
        tasks = await self._tasks(wished)
        supposed = self._suppose(tasks, layout, kept, gang)
        refused = await self._look_at_asked(tasks, wished, drained, supposed)
        # Nobody who need not go is sent to where all are to leave.
        supposed = supposed.without(nodes_mask(supposed, drained.nodes), "to be drained")
        if gang is not None:
            await self._let_in(gang, tasks, supposed)
        if improves:
            await self._improve(tasks, supposed)
        if refused is not None:
            raise refused

    def _may_improve(self) -> bool:
        """Whether it is time for it, and no such move is under way, but for those that wait for a person."""
        live = (move for move in self._book.live if move.spec.gain.kind in IMPROVEMENTS)
        return self._improver.is_due and all(
            self._book.is_given_up(move) or self._waits_for_a_person(move) for move in live
        )

    async def _improve(self, tasks: Sequence[MovableTask], supposed: Supposition) -> None:
        """Brings one task to a better place."""
        found = await self._improver.find(tasks, supposed, self._history())
        for move in found.moves if found is not None else ():
            assert found is not None
            await self._write(move, found.gain, f"{found.gain.kind}/{self._wall_s()}")

    async def _let_in(self, gang: Gang, tasks: Sequence[MovableTask], supposed: Supposition) -> None:
        self._rests.begin(gang.key, _REST_S)
        may = [task for task in tasks if task.terms.moves.policy != "Never"]
        history = self._history()
        found_moves = await asyncio.to_thread(propose_lets_in, [gang], may, supposed, history, self._terms)
        for move in found_moves.moves if found_moves else ():
            assert found_moves is not None
            self._whose[lets_in_key(gang.key)] = gang.key.namespace
            await self._write(move, found_moves.gain, f"{lets_in_key(gang.key)}/{self._wall_s()}")

    async def _look_at_asked(
        self, tasks: Sequence[MovableTask], wished: set[str], drained: Drained, supposed: Supposition
    ) -> ForbiddenError | None:
        """Those that somebody wants elsewhere, not for long: who was looked at longest ago, or never, first.

        Returns why Moves may not be made in a namespace, by its quota or a policy: others go on.
        """
        account = supposed.account
        asked = [task for task in tasks if task.uid in wished or drained.ranks_of(task, account)]
        asked.sort(key=lambda task: self._looked_s.get(task.uid, float("-inf")))
        there = {task.uid for task in self._book.tasks.values()}
        self._looked_s = {uid: at_s for uid, at_s in self._looked_s.items() if uid in there}
        refused, ends_s = None, self._clock.now_s() + _ASKED_S
        for task in asked:
            now_s = self._clock.now_s()
            if now_s >= ends_s:
                break
            self._looked_s[task.uid] = now_s
            try:
                if task.uid in wished:
                    await self._answer(task, supposed)
                elif task.terms.moves.policy != "Never":
                    await self._drain(task, drained, supposed)
            except ForbiddenError as error:
                refused = error
        return refused

    async def _drain(self, task: MovableTask, drained: Drained, supposed: Supposition) -> None:
        found = await asyncio.to_thread(propose_drain, task, drained, supposed, self._history())
        if found.move is not None:
            nodes = sorted({task.nodes[rank] for rank in drained.ranks_of(task, supposed.account)})
            whole = [node for node in nodes if node in drained.nodes]
            what = "to be drained" if whole else "of which cards are out of service"
            text = f"would leave {', '.join((whole or nodes)[:3])}, {what}"
            await self._write(found.move, MoveGain(kind="Drain", text=text), str(self._wall_s()))

    async def _answer(self, task: MovableTask, supposed: Supposition) -> None:
        wish = task.terms.wish
        assert wish is not None
        found = await asyncio.to_thread(propose_wish, task, wish.to, supposed, self._history())
        if found.move is None:
            self._told[task.uid] = str(wish)
            note = f"it cannot be moved as was wished: {found.reason}"
            self._events.tell(task.gang.pods[0], "Warning", "NotMoved", note)
            return
        to = wish.to or "other nodes"
        await self._write(found.move, MoveGain(kind="Person", text=f"is wished on {to}"), str(wish))
        self._told[task.uid] = str(wish)

    async def _write(self, move: Relocation, gain: MoveGain, of: str) -> None:
        terms = move.task.terms
        valid_s = self._settings.valid_s + terms.moves.save_seconds
        until = datetime.fromtimestamp(round(self._wall_s() + valid_s), UTC)
        spec = move_spec(move, gain, until)
        try:
            made = await self._writer.propose(terms.namespace, move_name(spec, of), spec)
        except InvalidError as error:
            _log.warning("move is refused", task="/".join(terms.key), error=str(error))
            return
        self._metrics.moves.labels(gain.kind).inc()
        _log.info("move is proposed", move=made.name, task="/".join(terms.key), gain=gain.text)
        self._events.tell(move.task.gang.pods[0], "Normal", "MoveProposed", f"{made.name} {gain.text}")

    async def _tasks(self, wished: set[str]) -> list[MovableTask]:
        """The tasks that run, and may be moved or are wished elsewhere; not too many looked at at once."""
        found: list[MovableTask] = []
        parts = Parts(_PODS_AT_ONCE)
        for terms in list(self._book.tasks.values()):
            if terms.is_held_up or (terms.moves.policy == "Never" and terms.uid not in wished):
                continue
            task = running_task(terms, self._state)
            parts.count(1 if task is None else len(task.nodes))
            if task is not None and len(task.nodes) <= MOST_MOVED:
                found.append(task)
            await parts.pause()
        return found

    def _suppose(
        self, tasks: Sequence[MovableTask], layout: Layout, kept: Reservation | None, gang: Gang | None
    ) -> Supposition:
        cluster = self._state.cluster
        supposed = cluster.suppose(cluster.snapshot(layout), [pod for task in tasks for pod in task.pods])
        if kept is None or (gang is not None and kept.gang == gang.key):
            return supposed
        closed = np.array([node.name in kept.nodes for node in layout.nodes], dtype=bool)
        return supposed.without(closed, f"kept free for {kept.gang}")

    def _history(self) -> MoveHistory:
        bounds = MoveBounds(
            most_an_hour=self._settings.most_an_hour,
            most_improvements_an_hour=self._settings.most_improvements_an_hour,
        )
        now_s = self._wall_s()
        return MoveHistory(now_s, self._book.history(now_s), bounds)
