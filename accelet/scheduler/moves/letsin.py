"""LetsIn: which running tasks have to move, and where to, so that a waiting gang gets in."""

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from accelet.kube.objects import ObjectKey
from accelet.scheduler.budget import Budget
from accelet.scheduler.cluster.cardroom import CardRoom
from accelet.scheduler.cluster.layout import Layout, Mask
from accelet.scheduler.cluster.supposing import Arrival, Supposition
from accelet.scheduler.cluster.topology import Ints
from accelet.scheduler.gangs.grouping import Gang
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

_LEAF = 1_000
"""What it costs to see what one leaf takes without some pods."""

_EFFORT = Effort(units=60_000, restarts=4, tries=2_000)
"""For each question to the planner; there are many."""

_NEEDED = "needed by the gang that is let in"


@dataclass(frozen=True, slots=True)
class LetsInTerms:
    """How much is tried, and what is worth it.

    Of `most_candidates`, those with the fewest ranks on the least crowded nodes, every set of up to
    `most_tasks` is looked at, those of the fewest ranks first, until `units` of work are spent. What gets in
    is `factor` times what is moved.
    """

    most_tasks: int = 3
    most_candidates: int = 48
    factor: float = 2.0
    units: int = 2_000_000
    effort: Effort = _EFFORT


@dataclass(frozen=True, slots=True)
class LetsIn:
    """The answer. With `moves`, `plan` is the waiting gang's once they are done.

    `is_settled` says that no set of as few tasks as are looked at does it with fewer ranks; without moves,
    that none does it at all. It is not settled where the planner left a question open, or where new places
    for some tasks are free and neither way of choosing among them left enough for the gang.
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
        self._stuck: dict[str, bool] = {}
        self._at_most: Ints | None = None
        self._leaves: dict[frozenset[ObjectKey], int] = {}

    @property
    def _layout(self) -> Layout:
        return self._supposed.layout

    def run(self, tasks: Sequence[MovableTask]) -> LetsIn:
        now = self._find(self._waiting, self._room())
        if now.nodes is not None or not now.is_settled:
            return LetsIn(is_settled=now.nodes is not None)
        may = self._movable(tasks)
        freed = self._room([pod for task in may for pod in task.pods])
        best = self._find(self._waiting, freed)
        if best.nodes is None:
            return LetsIn(is_settled=best.is_settled)
        useful = self._useful(may, freed)
        if self._is_beyond(useful, freed):
            return LetsIn()
        candidates = useful[: self._terms.most_candidates]
        is_settled = len(candidates) == len(useful)
        for some in self._sets(candidates):
            if self._budget.left <= 0:
                return LetsIn(is_settled=False)
            if not self._is_enough(some):
                continue
            answer = self._try(some)
            if answer.moves:
                return LetsIn(answer.moves, answer.plan, is_settled and answer.is_settled)
            is_settled &= answer.is_settled
        return LetsIn(is_settled=is_settled)

    def _movable(self, tasks: Sequence[MovableTask]) -> list[MovableTask]:
        """Those that may be moved for this gang."""
        gang = self._waiting
        return [
            task
            for task in tasks
            if task.gang.priority <= gang.priority
            and task.gang.key != gang.key
            and task.gang.objection is None
            and is_worth(gang, [task], self._terms.factor)
        ]

    def _useful(self, tasks: Sequence[MovableTask], freed: CardRoom) -> list[MovableTask]:
        """Those on nodes that take more of the gang without them; first small ones that stand there alone."""
        gaining, leaf_of = self._gaining(freed), self._layout.leaf_of
        crowd = Counter(node for task in tasks for node in task.nodes)
        useful = [
            (len(task.nodes), min(crowd[node] for node in helpful), *task.terms.key, task)
            for task in tasks
            if (helpful := [node for node in task.nodes if node in leaf_of and gaining[leaf_of[node]]])
        ]
        return [task for *_, task in sorted(useful, key=lambda one: one[:4])]

    def _gaining(self, freed: CardRoom) -> Mask:
        """The leaves that take more pods of the gang once all that may move are gone; all, of unlike pods."""
        slots = self._slots(freed)
        if slots is None:
            return np.ones(len(self._layout.nodes), dtype=bool)
        now, most = slots
        return np.asarray(most > now[0])

    def _is_beyond(self, tasks: Sequence[MovableTask], freed: CardRoom) -> bool:
        """Whether so few tasks as are looked at stand on too few nodes to let the gang in, in any case."""
        slots = self._slots(freed)
        if slots is None:
            return False
        (sure, at_most), most = slots
        spread = sorted((len(set(task.nodes)) for task in tasks), reverse=True)
        nodes = sum(spread[: self._terms.most_tasks])
        gains = np.sort(most - sure)[::-1][:nodes]
        return int(at_most.sum() + gains.sum()) < len(self._waiting.pods)

    def _slots(self, freed: CardRoom) -> tuple[tuple[Ints, Ints], Ints] | None:
        """How many of the gang each leaf takes now, at least and at most, and at most once all are gone.

        None of a gang of unlike pods.
        """
        shapes, count = set(self._waiting.shapes), len(self._waiting.pods)
        if len(shapes) > 1:
            return None
        (shape,) = shapes
        now = self._supposed.now.metered(Budget()).slots_between(shape, count)
        return now, freed.metered(Budget()).slots_between(shape, count)[1]

    def _is_enough(self, some: Sequence[MovableTask]) -> bool:
        """Whether there can be room enough for the gang once these are gone, by sums alone."""
        if len(set(self._waiting.shapes)) > 1:
            return True
        if self._at_most is None:
            self._at_most = self._slots_at_most(())
        leaf_of, by_leaf = self._layout.leaf_of, dict[int, list[ObjectKey]]()
        for task in some:
            for pod, node in zip(task.pods, task.nodes, strict=True):
                if node in leaf_of:
                    by_leaf.setdefault(leaf_of[node], []).append(pod)
        gains = (
            self._takes(leaf, frozenset(pods)) - int(self._at_most[leaf]) for leaf, pods in by_leaf.items()
        )
        return int(self._at_most.sum()) + sum(gains) >= len(self._waiting.pods)

    def _takes(self, leaf: int, gone: frozenset[ObjectKey]) -> int:
        """How many of the gang a leaf takes at most once these pods of it are gone; asked once."""
        if gone not in self._leaves:
            self._leaves[gone] = int(self._slots_at_most(gone)[leaf])
        return self._leaves[gone]

    def _slots_at_most(self, gone: Collection[ObjectKey]) -> Ints:
        self._budget.left -= _LEAF
        room = self._supposed.room(gone).metered(Budget())
        return room.slots_between(self._waiting.shapes[0], len(self._waiting.pods))[1]

    def _sets(self, candidates: Sequence[MovableTask]) -> Iterator[tuple[MovableTask, ...]]:
        """Each set of few tasks, by the number of ranks in all."""
        sizes = range(1, self._terms.most_tasks + 1)
        sets = [some for size in sizes for some in combinations(candidates, size)]
        sets.sort(key=lambda some: (sum(len(task.nodes) for task in some), len(some)))
        factor = self._terms.factor
        return (some for some in sets if len(some) == 1 or is_worth(self._waiting, some, factor))

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
        """Whether there is certainly no place for a task beside its own that is no wider; asked once."""
        if task.uid not in self._stuck:
            plan, now = self._find(task.gang, self._room()), task.distance(self._layout)
            is_wider = now is None or (plan.nodes is not None and plan.lower_bound > now)
            self._stuck[task.uid] = is_wider or (plan.nodes is None and plan.is_settled)
        return self._stuck[task.uid]

    def _is_full(self, gangs: Sequence[Gang], room: CardRoom) -> bool:
        """Whether there is certainly no place for all of their pods together, however far apart."""
        pods = tuple(pod for gang in gangs for pod in gang.pods)
        shapes = tuple(shape for gang in gangs for shape in gang.shapes)
        plan = self._find(Gang(gangs[0].key, pods, shapes, pods), room)
        return plan.nodes is None and plan.is_settled

    def _beside(self, wanted: Plan, tasks: Sequence[MovableTask]) -> CardRoom:
        """The room that is free now and that the waiting gang, where it would be, does not need."""
        leaving = {node for task in tasks for node in task.nodes}
        places = zip(wanted.gang.shapes, wanted.nodes or (), wanted.assignments, strict=True)
        come = [Arrival(shape, node, given) for shape, node, given in places if node not in leaving]
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
