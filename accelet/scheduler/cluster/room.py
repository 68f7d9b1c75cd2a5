"""What is free on each node while gangs are planned one after the other."""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Protocol, Self

import numpy as np

from accelet.assignments.assignment import Assignment
from accelet.scheduler.budget import Budget
from accelet.scheduler.cluster.hostports import PortRoom
from accelet.scheduler.cluster.layout import Layout, Mask
from accelet.scheduler.cluster.residents import Residents
from accelet.scheduler.cluster.shape import Limit, PodShape, Separation, marks_of, name_of, with_amounts
from accelet.scheduler.cluster.topology import Ints
from accelet.scheduler.cluster.usage import UNLIMITED

MOST_SLOTS = 2**20
"""More pods than any gang has; where pods ask for nothing, so many fit."""


_QUESTION, _FIT = 15, 4
_LEAVES_A_UNIT, _DIVIDED_A_UNIT, _CELLS_A_UNIT, _NEEDS_A_UNIT = 600, 300, 40, 3
"""How many numbers are looked at for one unit of a gang's budget."""


class Measure(NamedTuple):
    """One amount that pods of several shapes draw on: free per leaf, and what one pod of each shape needs."""

    free: Ints
    needs: tuple[int, ...]


class Sides(NamedTuple):
    """Kinds of pods by number, of which none of `one` shares a leaf of `where` with any of `other`."""

    one: frozenset[int]
    other: frozenset[int]
    where: Mask


class Marks(NamedTuple):
    """The amounts by which is known which of two groups is on a leaf, and where they must not share one."""

    one: str
    other: str
    where: Mask


class Runs(Protocol):
    """Which pods of one gang, neighbours in rank, fit on a leaf together."""

    def starts(self, leaf: int) -> Ints:
        """For every `j` from 0 to the number of pods, the least `i` for which pods `i … j-1` fit together."""
        ...


class Room(Protocol):
    """How many pods fit where; the planner knows no more of nodes than this. Leaves are the tree's.

    Questions are paid from `budget`, and raise BudgetSpentError when it is spent.
    """

    @property
    def budget(self) -> Budget: ...

    @property
    def residents(self) -> Residents:
        """Who is on which node: the facts by which a plan for this room is checked."""
        ...

    def metered(self, budget: Budget) -> Self:
        """The same room, of which questions are paid from this budget."""
        ...

    def slots(self, shape: PodShape, pods: int = MOST_SLOTS) -> Ints:
        """How many pods of this shape each leaf takes beside what it has: shape (leaves,).

        Above `pods`, which are all there are to be placed, it may say fewer than there are. So many fit for
        certain; where that is undecided, there may be room for more.
        """
        ...

    def slots_between(self, shape: PodShape, pods: int = MOST_SLOTS) -> tuple[Ints, Ints]:
        """`slots`, and more than how many do not fit for certain: the same where all is decided."""
        ...

    def runs(self, shapes: Sequence[PodShape]) -> Runs:
        """The same question for pods of these shapes in rank order, until room is taken."""
        ...

    def measures(self, shapes: Sequence[PodShape]) -> list[Measure]:
        """Amounts that no set of these pods can exceed on any leaf; they need not be all that limits it."""
        ...

    def sides(self, shapes: Sequence[PodShape]) -> list[Sides]:
        """Which of these pods share no leaf with which others, by their place in `shapes`."""
        ...

    def fits(self, leaf: int, shapes: Mapping[PodShape, int]) -> bool:
        """Whether so many pods of these shapes fit on this leaf together; if undecided, no, and a doubt."""
        ...

    def take(self, leaves: Sequence[int], shapes: Sequence[PodShape]) -> Sequence[Assignment | None] | None:
        """Gives each pod its place, and says what it is assigned there.

        None, and nothing is taken, where a leaf does not take its pods together, or that cannot be decided.
        """
        ...

    def refusals(self, shape: PodShape) -> Counter[str]:
        """How many leaves take no pod of this shape, by the reason for people."""
        ...

    def impossibility(self, shape: PodShape) -> str | None:
        """Why no leaf could take such a pod even if all others had ended; None where that is not so."""
        ...

    def with_limits(
        self,
        shapes: Sequence[PodShape],
        limits: Sequence[Limit] = (),
        separations: Sequence[Separation] = (),
    ) -> tuple[Self, Sequence[PodShape]]:
        """The room and these pods' shapes, in which limits and ports of nodes are amounts like others.

        Groups that `separations` keep apart share no leaf.

        Not to take of, but for copies of it.
        """
        ...

    def copy(self) -> Self:
        """Room that can be given away without this one's knowing."""
        ...

    def without(self, closed: Mask, reason: str) -> Self:
        """The same room with some leaves closed; what is taken of the one is taken of the other."""
        ...


@dataclass(eq=False)
class NodeRoom:
    """Room by amounts of resources alone; `take` changes `free`, also for those made of it by `without`.

    `columns` has the row of `free`, shape (resources, leaves), of each resource. `closed` leaves take
    nothing; `closed_for` counts them by reason. `reasons` has what is said where there is none of a
    resource, if that is not that it is short.
    """

    layout: Layout
    columns: Mapping[str, int]
    free: Ints
    closed: Mask
    closed_for: Counter[str] = field(default_factory=Counter)
    budget: Budget = field(default_factory=Budget)
    ports: PortRoom = field(default_factory=PortRoom)
    residents: Residents = field(default_factory=Residents)
    reasons: Mapping[str, str] = field(default_factory=dict)
    marks: tuple[Marks, ...] = ()

    def metered(self, budget: Budget) -> Self:
        return replace(self, budget=budget)

    def slots_between(self, shape: PodShape, pods: int = MOST_SLOTS) -> tuple[Ints, Ints]:
        slots = self.slots(shape, pods)
        return slots, slots

    def slots(self, shape: PodShape, pods: int = MOST_SLOTS) -> Ints:
        self.budget.spend(_QUESTION + len(shape.units) * self.free.shape[1] // _DIVIDED_A_UNIT)
        slots = np.full(self.free.shape[1], MOST_SLOTS)
        for resource, amount in shape.units:
            np.minimum(slots, self._of(resource) // amount, out=slots)
        return np.where(self._allowed(shape), np.maximum(slots, 0), 0)

    def runs(self, shapes: Sequence[PodShape]) -> Runs:
        kinds = list(dict.fromkeys(shapes))
        numbers = {kind: number for number, kind in enumerate(kinds)}
        return _NodeRuns(
            self.measures(kinds),
            np.array([self._allowed(kind) for kind in kinds]),
            np.array([numbers[shape] for shape in shapes], dtype=np.int64),
            self.sides(kinds),
            self.budget,
        )

    def sides(self, shapes: Sequence[PodShape]) -> list[Sides]:
        if not self.marks:
            return []
        asking: defaultdict[str, set[int]] = defaultdict(set)
        for at, shape in enumerate(shapes):
            for resource, _ in shape.units:
                asking[resource].add(at)
        groups = (
            (frozenset(asking[one]), frozenset(asking[other]), where) for one, other, where in self.marks
        )
        return [Sides(one, other, where) for one, other, where in groups if one and other]

    def measures(self, shapes: Sequence[PodShape]) -> list[Measure]:
        units = [dict(shape.units) for shape in shapes]
        self.budget.spend(_QUESTION + len(shapes) + self.free.size // _LEAVES_A_UNIT)
        return [
            Measure(np.maximum(self._of(resource), 0), tuple(unit.get(resource, 0) for unit in units))
            for resource in sorted({resource for unit in units for resource in unit} - self._mark_names)
        ]

    def fits(self, leaf: int, shapes: Mapping[PodShape, int]) -> bool:
        self.budget.spend(_FIT * len(shapes))
        needed: Counter[str] = Counter()
        for shape, count in shapes.items():
            if count and not self._allowed(shape)[leaf]:
                return False
            for resource, amount in shape.units:
                needed[resource] += count * amount
        if any(needed[one] and needed[other] and where[leaf] for one, other, where in self.marks):
            return False
        return all(amount <= self._of(resource)[leaf] for resource, amount in needed.items() if amount)

    def take(self, leaves: Sequence[int], shapes: Sequence[PodShape]) -> Sequence[Assignment | None]:
        for leaf, shape in zip(leaves, shapes, strict=True):
            for resource, amount in shape.units:
                self._of(resource)[leaf] -= amount
            self.ports.take(leaf, shape.host_ports)
        return [None] * len(leaves)

    def refusals(self, shape: PodShape) -> Counter[str]:
        found = self.layout.refusals(shape.rules) + self.closed_for
        left = self._allowed(shape)
        for resource, amount in sorted(shape.units, key=lambda unit: (unit[0] in ("cpu", "memory"), unit)):
            short = left & (self._of(resource) < amount)
            left &= ~short
            if "/" in resource:
                by_claims = short & self.layout.served_by_claims
                found[f"short of {resource} (devices served through DRA)"] = int(np.count_nonzero(by_claims))
                short &= ~by_claims
            found[self.reasons.get(resource, f"short of {resource}")] = int(np.count_nonzero(short))
        return +found

    def impossibility(self, shape: PodShape) -> None:
        return None

    def with_limits(
        self,
        shapes: Sequence[PodShape],
        limits: Sequence[Limit] = (),
        separations: Sequence[Separation] = (),
    ) -> tuple[Self, Sequence[PodShape]]:
        limits = (*limits, *self.ports.limits(shapes, self.layout.leaf_of, self.budget))
        first = len(limits)
        limits = (*limits, *marks_of(separations, len(self.closed)))
        if not limits:
            return self, shapes
        self.budget.spend(len(limits) * (len(shapes) // _NEEDS_A_UNIT + self.free.shape[1] // _LEAVES_A_UNIT))
        names = [name_of(number) for number in range(len(limits))]
        room = replace(
            self,
            columns={**self.columns, **{name: len(self.free) + row for row, name in enumerate(names)}},
            free=np.concatenate((self.free, np.array([limit.free for limit in limits], dtype=np.int64))),
            reasons={name: limit.reason for name, limit in zip(names, limits, strict=True)},
            marks=tuple(
                Marks(one, other, separation.where)
                for separation, one, other in zip(
                    separations, names[first::2], names[first + 1 :: 2], strict=True
                )
            ),
        )
        return room, with_amounts(shapes, limits)

    def copy(self) -> Self:
        return replace(self, free=self.free.copy(), ports=self.ports.copy(), residents=self.residents.copy())

    def without(self, closed: Mask, reason: str) -> Self:
        count = int(np.count_nonzero(closed & ~self.closed))
        closed_for = self.closed_for + Counter({reason: count})
        return replace(self, closed=self.closed | closed, closed_for=closed_for)

    def _allowed(self, shape: PodShape) -> Mask:
        allowed = self.layout.eligible(shape.rules) & ~self.closed
        if self.marks:
            units = {resource for resource, _ in shape.units}
            for *pair, where in self.marks:
                for own, others in (pair, pair[::-1]):
                    if own in units:
                        allowed &= ~(where & (self._of(others) < UNLIMITED))
        return np.asarray(allowed)

    @property
    def _mark_names(self) -> set[str]:
        return {name for one, other, _ in self.marks for name in (one, other)}

    def _of(self, resource: str) -> Ints:
        column = self.columns.get(resource)
        return self.free[column] if column is not None else np.zeros(self.free.shape[1], dtype=np.int64)


class _NodeRuns:
    """Runs by sums: what pods `i … j-1` need of a resource is a difference of two of its prefix sums."""

    def __init__(
        self, measures: Sequence[Measure], allowed: Mask, kinds: Ints, sides: Sequence[Sides], budget: Budget
    ) -> None:
        self._budget = budget
        self._free = np.array([measure.free for measure in measures])
        self._needed = np.zeros((len(measures), len(kinds) + 1), dtype=np.int64)
        for row, measure in enumerate(measures):
            np.cumsum(np.array(measure.needs)[kinds], out=self._needed[row, 1:])
        self._allowed, self._kinds = allowed, kinds
        self._where = [one.where for one in sides]
        self._with_both = [_last_with_both(kinds, one) for one in sides]
        self._known: dict[bytes, Ints] = {}

    def starts(self, leaf: int) -> Ints:
        free, allowed = self._free[:, leaf], self._allowed[:, leaf]
        where = np.array([at[leaf] for at in self._where], dtype=bool)
        key = free.tobytes() + allowed.tobytes() + where.tobytes()
        if key not in self._known:
            self._budget.spend(_QUESTION + self._needed.size // _CELLS_A_UNIT)
            self._known[key] = self._starts(free, allowed, where)
        return self._known[key]

    def _starts(self, free: Ints, allowed: Mask, where: Mask) -> Ints:
        ranks = np.arange(self._needed.shape[1])
        # A run may not reach over the last pod that is not allowed here at all.
        refused = np.where(allowed[self._kinds], 0, ranks[1:])
        starts = np.maximum.accumulate(np.concatenate(([0], refused)))
        for needed, amount in zip(self._needed, free, strict=True):
            np.maximum(starts, np.searchsorted(needed, needed - amount), out=starts)
        for at in np.flatnonzero(where).tolist():
            np.maximum(starts, self._with_both[at], out=starts)
        return starts


def _last_with_both(kinds: Ints, sides: Sides) -> Ints:
    """For every `j`, the least `i` for which ranks `i … j-1` are not of both sides."""
    ranks = np.arange(1, len(kinds) + 1)
    last = (
        np.maximum.accumulate(np.where(np.isin(kinds, list(side)), ranks, 0))
        for side in (sides.one, sides.other)
    )
    return np.concatenate(([0], np.minimum(*last)))
