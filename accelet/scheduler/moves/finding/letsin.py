"""LetsIn: which running tasks have to move, and where to, so that a waiting gang gets in."""

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from accelet.scheduler.budget import Budget, BudgetSpentError
from accelet.scheduler.cluster.cardroom import CardRoom
from accelet.scheduler.cluster.layout import Layout
from accelet.scheduler.cluster.supposing import Arrival, Supposition
from accelet.scheduler.gangs.exclusive import as_occupant
from accelet.scheduler.gangs.grouping import Gang
from accelet.scheduler.moves.finding.gains import Gains
from accelet.scheduler.moves.finding.options import Some
from accelet.scheduler.moves.finding.together import Together
from accelet.scheduler.moves.movable import (
    MovableTask,
    Relocation,
    distance_of,
    is_worth,
    relocation_of,
)
from accelet.scheduler.placement.plan import Plan, find_places, take_places
from accelet.scheduler.placement.unlike import Effort

_ROOM, _ROOM_A_NODE = 500, 7
"""What a room of its own and what is asked of it cost, in units of a budget, and for each node."""

_STUCK_PART = 8
"""One part in so many of the budget goes to which tasks have no place to go to."""

_EFFORT = Effort(units=60_000, restarts=4, tries=2_000)
"""For each question to the planner; there are many."""

_NEEDED = "needed by the gang that is let in"


@dataclass(frozen=True, slots=True)
class LetsInTerms:
    """How much is tried, and what is worth it.

    Where up to `most_candidates` tasks stand where the gang could, every set of up to `most_tasks` of them is
    looked at, those of the fewest ranks first, until `units` of work are spent. Of more candidates, sets are
    looked at that are enough by counting, with nobody in them who could be left out. What gets in is `factor`
    times what is moved.
    """

    most_tasks: int = 3
    most_candidates: int = 48
    factor: float = 2.0
    units: int = 2_000_000
    effort: Effort = _EFFORT


@dataclass(frozen=True, slots=True)
class LetsIn:
    """The answer. With `moves`, `plan` is the waiting gang's once they are done.

    `is_settled` says that no set of as few tasks as are looked at does it with fewer ranks, which of many
    candidates is never said; without moves, that none does it at all. It is not settled where the planner
    left a question open, or where new places for some tasks are free and neither way of choosing among them
    left enough for the gang.
    """

    moves: tuple[Relocation, ...] = ()
    plan: Plan | None = None
    is_settled: bool = True


def find_lets_in(
    waiting: Gang, tasks: Sequence[MovableTask], supposed: Supposition, terms: LetsInTerms
) -> LetsIn:
    """The fewest ranks to be moved for `waiting` to get in.

    Proven by the planner twice: now there is no place for it, and that is certain; and there is one once
    these tasks are where they are to be. Their new places are free now, beside the old ones, all at once.
    None of them is of higher priority, or gets farther apart.
    """
    return _Search(waiting, supposed, terms).run(tasks)


class _Search:
    def __init__(self, waiting: Gang, supposed: Supposition, terms: LetsInTerms) -> None:
        self._waiting, self._supposed, self._terms = waiting, supposed, terms
        self._budget = Budget(terms.units)
        self._room_units = _ROOM + _ROOM_A_NODE * len(supposed.layout.nodes)
        self._stuck: dict[Hashable, bool] = {}

    @property
    def _layout(self) -> Layout:
        return self._supposed.layout

    def run(self, tasks: Sequence[MovableTask]) -> LetsIn:
        now = self._find(self._waiting, self._supposed.now)
        if now.nodes is not None or not now.is_settled:
            return LetsIn(is_settled=now.nodes is not None)
        may = self._movable(tasks)
        freed = self._room([pod for task in may for pod in task.pods])
        best = self._find(self._waiting, freed)
        if best.nodes is None:
            return LetsIn(is_settled=best.is_settled)
        try:
            return self._choose(may, freed)
        except BudgetSpentError:
            return LetsIn(is_settled=False)

    def _movable(self, tasks: Sequence[MovableTask]) -> list[MovableTask]:
        """Those that may be moved for this gang, but for those that have certainly no place to go to."""
        gang = self._waiting
        may = [
            task
            for task in tasks
            if task.gang.priority <= gang.priority
            and task.gang.key != gang.key
            and task.gang.objection is None
            and is_worth(gang, [task], self._terms.factor)
        ]
        kept = self._budget.left - self._budget.left // _STUCK_PART
        return [task for task in may if self._budget.left < kept or not self._is_stuck(task)]

    def _choose(self, may: Sequence[MovableTask], freed: CardRoom) -> LetsIn:
        """Of few tasks every set is looked at; of many, those that are enough by counting."""
        most, numbers = self._terms.most_tasks, range(len(may))
        together = Together(self._waiting, may, self._supposed.now, self._terms.factor)
        if not _is_countable(self._waiting):
            few = sorted(numbers, key=lambda number: (len(may[number].nodes), may[number].terms.key))
            sets = _sets(few[: self._terms.most_candidates], may, most)
            some = (one for one in sets if together.allows(one))
            answer = self._first(some, may)
            is_all = len(may) <= self._terms.most_candidates
            return replace(answer, is_settled=answer.is_settled and is_all)
        gains = Gains(self._waiting, may, self._supposed, freed, allowed=together.allows, budget=self._budget)
        if len(gains.useful) > self._terms.most_candidates:
            answer = self._first(gains.sets(most), may, is_every_set=False)
            return replace(answer, is_settled=answer.is_settled and gains.is_complete)
        gains.look_at(gains.useful, most)
        sets = _sets(gains.useful, may, most)
        answer = self._first((one for one in sets if together.allows(one) and gains.is_enough(one)), may)
        return replace(answer, is_settled=answer.is_settled and gains.is_exact)

    def _first(
        self, sets: Iterable[Some], may: Sequence[MovableTask], *, is_every_set: bool = True
    ) -> LetsIn:
        """What the first of these sets comes to that lets the gang in.

        Where not every set is looked at, one that cannot be moved says nothing of larger ones.
        """
        is_settled = True
        for some in sets:
            if self._budget.left <= 0:
                return LetsIn(is_settled=False)
            answer = self._try(tuple(may[number] for number in sorted(some)))
            if answer.moves:
                is_proven = is_every_set and is_settled and answer.is_settled
                return LetsIn(answer.moves, answer.plan, is_proven)
            is_settled &= is_every_set and answer.is_settled
        return LetsIn(is_settled=is_settled)

    def _try(self, tasks: tuple[MovableTask, ...]) -> LetsIn:
        """Whether the gang gets in if just these move, by either of two ways of choosing their places."""
        gone = [pod for task in tasks for pod in task.pods]
        freed = self._room(gone)
        wanted = self._find(self._waiting, freed)
        if wanted.nodes is None:
            return LetsIn(is_settled=wanted.is_settled)
        if self._is_impossible(tasks, freed):
            return LetsIn()
        wanted = take_places(wanted, self._layout, freed)
        for room in (self._beside(wanted, tasks), self._room()):
            moves = self._relocate(tasks, room)
            if moves and (plan := self._proof(moves, gone)) is not None:
                return LetsIn(moves, plan)
        return LetsIn(is_settled=False)

    def _is_impossible(self, tasks: Sequence[MovableTask], freed: CardRoom) -> bool:
        """Whether it is certain that these tasks cannot move at once, or not beside the waiting gang."""
        together = [self._waiting, *(task.gang for task in tasks)]
        return any(map(self._is_stuck, tasks)) or self._is_full(together, freed)

    def _is_stuck(self, task: MovableTask) -> bool:
        """Whether there is certainly no place for a task beside its own that is no wider.

        Asked once of all that are alike.
        """
        gang, now = task.gang, task.distance(self._layout)
        levels = gang.required_level, gang.preferred_level
        kind: Hashable = gang.shapes, gang.excluded, levels, gang.is_exclusive, now
        if gang.slices is not None or gang.pod_sets or any(pod.has_peer_rules for pod in gang.pods):
            kind = gang.key
        if kind not in self._stuck:
            plan = self._find(gang, self._supposed.now)
            is_wider = now is None or (plan.nodes is not None and plan.lower_bound > now)
            self._stuck[kind] = is_wider or (plan.nodes is None and plan.is_settled)
        return self._stuck[kind]

    def _is_full(self, gangs: Sequence[Gang], room: CardRoom) -> bool:
        """Whether there is certainly no place for all of their pods together, however far apart."""
        pods = tuple(pod for gang in gangs for pod in gang.pods)
        shapes = tuple(shape for gang in gangs for shape in gang.shapes)
        plan = self._find(Gang(gangs[0].key, pods, shapes, pods), room)
        return plan.nodes is None and plan.is_settled

    def _beside(self, wanted: Plan, tasks: Sequence[MovableTask]) -> CardRoom:
        """The room that is free now and that the waiting gang, where it would be, does not need."""
        leaving = {node for task in tasks for node in task.nodes}
        pods = (pod.key for pod in wanted.gang.pods)
        places = zip(pods, wanted.gang.shapes, wanted.nodes or (), wanted.assignments, strict=True)
        occupant = as_occupant(wanted.gang)
        come = [Arrival(*place, occupant) for place in places if place[2] not in leaving]
        closed = np.zeros(len(self._layout.nodes), dtype=bool)
        closed[[self._layout.leaf_of[node] for node in set(wanted.nodes or ()) & leaving]] = True
        self._budget.left -= self._room_units
        return self._supposed.room(come=come).without(closed, _NEEDED)

    def _relocate(self, tasks: Sequence[MovableTask], room: CardRoom) -> tuple[Relocation, ...]:
        """New places for all of them, one after the other, or none."""
        found: list[Relocation] = []
        for task in tasks:
            moved = relocation_of(task, take_places(self._find(task.gang, room), self._layout, room))
            if moved is None or not self._stays_near(moved):
                return ()
            found.append(moved)
        return tuple(found)

    def _stays_near(self, moved: Relocation) -> bool:
        before = moved.task.distance(self._layout)
        return before is not None and distance_of(moved.nodes, self._layout) <= before

    def _proof(self, moves: Sequence[Relocation], gone: Sequence[tuple[str, str]]) -> Plan | None:
        """The waiting gang's plan once the tasks have moved."""
        self._budget.left -= self._room_units
        room = self._supposed.room(gone, [one for moved in moves for one in moved.arrivals])
        plan = take_places(self._find(self._waiting, room), self._layout, room)
        return plan if plan.nodes is not None else None

    def _find(self, gang: Gang, room: CardRoom) -> Plan:
        with self._budget.part(1) as part:
            share = Budget(min(part.left, self._terms.effort.units))
            plan = find_places(gang, self._layout, room, self._terms.effort, share)
            part.left -= share.spent
        return plan

    def _room(self, gone: Sequence[tuple[str, str]] = ()) -> CardRoom:
        self._budget.left -= self._room_units
        return self._supposed.room(gone)


def _is_countable(gang: Gang) -> bool:
    """Whether free amounts tell how many of its pods nodes take at most, and that alone: they are alike."""
    if gang.is_alone:
        return False
    has_rules = any(pod.has_peer_rules or pod.host_ports for pod in gang.pods)
    return len(set(gang.shapes)) == 1 and not has_rules


def _sets(candidates: Iterable[int], tasks: Sequence[MovableTask], most: int) -> Iterator[Some]:
    """Each set of up to `most` candidates, by the number of ranks in all."""
    several = list(candidates)
    sets = [frozenset(some) for size in range(1, most + 1) for some in combinations(several, size)]
    sets.sort(key=lambda some: (sum(len(tasks[number].nodes) for number in some), len(some)))
    return iter(sets)
