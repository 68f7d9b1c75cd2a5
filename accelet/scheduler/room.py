"""What is free on each node while gangs are planned one after the other."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol, Self

import numpy as np

from accelet.scheduler.layout import Layout, Mask
from accelet.scheduler.shape import Shape
from accelet.scheduler.topology import Ints
from accelet.scheduler.usage import UNLIMITED


class Measure(NamedTuple):
    """One amount that pods of several shapes draw on: free per leaf, and what one pod of each shape needs."""

    free: Ints
    needs: tuple[int, ...]


class Runs(Protocol):
    """Which pods of one gang, neighbours in rank, fit on a leaf together."""

    def starts(self, leaf: int) -> Ints:
        """For every `j` from 0 to the number of pods, the least `i` for which pods `i … j-1` fit together."""
        ...


class Room(Protocol):
    """How many pods fit where; the planner knows no more of nodes than this. Leaves are the tree's."""

    def slots(self, shape: Shape) -> Ints:
        """How many pods of this shape each leaf takes beside what it has: shape (leaves,)."""
        ...

    def runs(self, shapes: Sequence[Shape]) -> Runs:
        """The same question for pods of these shapes in rank order, until room is taken."""
        ...

    def measures(self, shapes: Sequence[Shape]) -> list[Measure]:
        """Amounts that no set of these pods can exceed on any leaf; they need not be all that limits it."""
        ...

    def fits(self, leaf: int, shapes: Mapping[Shape, int]) -> bool:
        """Whether so many pods of these shapes fit on this leaf together."""
        ...

    def take(self, leaf: int, shape: Shape) -> None:
        """Gives one pod of this shape its place."""
        ...

    def refusals(self, shape: Shape) -> Counter[str]:
        """How many leaves take no pod of this shape, by the reason for people."""
        ...

    def copy(self) -> Self:
        """Room that can be given away without this one's knowing."""
        ...


class NodeRoom:
    """Room by amounts of resources alone: what is free, shape (resources, leaves)."""

    def __init__(self, layout: Layout, columns: Mapping[str, int], free: Ints) -> None:
        self._layout, self._columns, self._free = layout, columns, free

    def slots(self, shape: Shape) -> Ints:
        slots = np.full(self._free.shape[1], UNLIMITED)
        for resource, amount in shape.units:
            np.minimum(slots, self._of(resource) // amount, out=slots)
        return np.where(self._layout.eligible(shape.rules), np.maximum(slots, 0), 0)

    def runs(self, shapes: Sequence[Shape]) -> Runs:
        return _NodeRuns(self._layout, self._columns, self._free, shapes)

    def measures(self, shapes: Sequence[Shape]) -> list[Measure]:
        units = [dict(shape.units) for shape in shapes]
        return [
            Measure(np.maximum(self._of(resource), 0), tuple(unit.get(resource, 0) for unit in units))
            for resource in sorted({resource for unit in units for resource in unit})
        ]

    def fits(self, leaf: int, shapes: Mapping[Shape, int]) -> bool:
        needed: Counter[str] = Counter()
        for shape, count in shapes.items():
            if count and not self._layout.eligible(shape.rules)[leaf]:
                return False
            for resource, amount in shape.units:
                needed[resource] += count * amount
        return all(amount <= self._of(resource)[leaf] for resource, amount in needed.items() if amount)

    def take(self, leaf: int, shape: Shape) -> None:
        for resource, amount in shape.units:
            self._of(resource)[leaf] -= amount

    def refusals(self, shape: Shape) -> Counter[str]:
        found = self._layout.refusals(shape.rules)
        left = self._layout.eligible(shape.rules).copy()
        for resource, amount in sorted(shape.units, key=lambda unit: (unit[0] in ("cpu", "memory"), unit)):
            short = left & (self._of(resource) < amount)
            if short.any():
                found[f"short of {resource}"] = int(np.count_nonzero(short))
            left &= ~short
        return found

    def copy(self) -> Self:
        return type(self)(self._layout, self._columns, self._free.copy())

    def _of(self, resource: str) -> Ints:
        column = self._columns.get(resource)
        return self._free[column] if column is not None else np.zeros(self._free.shape[1], dtype=np.int64)


class _NodeRuns:
    """Runs by sums: what pods `i … j-1` need of a resource is a difference of two of its prefix sums."""

    def __init__(
        self, layout: Layout, columns: Mapping[str, int], free: Ints, shapes: Sequence[Shape]
    ) -> None:
        resources = sorted({resource for shape in shapes for resource, _ in shape.units})
        self._free = np.array(
            [
                free[columns[resource]] if resource in columns else np.zeros(free.shape[1], dtype=np.int64)
                for resource in resources
            ]
        )
        units = [dict(shape.units) for shape in shapes]
        self._needed = np.zeros((len(resources), len(shapes) + 1), dtype=np.int64)
        for row, resource in enumerate(resources):
            np.cumsum([unit.get(resource, 0) for unit in units], out=self._needed[row, 1:])
        distinct = list(dict.fromkeys(shapes))
        self._kinds = np.array([distinct.index(shape) for shape in shapes], dtype=np.int64)
        self._eligible = np.array([layout.eligible(shape.rules) for shape in distinct])
        self._known: dict[bytes, Ints] = {}

    def starts(self, leaf: int) -> Ints:
        free, eligible = self._free[:, leaf], self._eligible[:, leaf]
        key = free.tobytes() + eligible.tobytes()
        if key not in self._known:
            self._known[key] = self._starts(free, eligible)
        return self._known[key]

    def _starts(self, free: Ints, eligible: Mask) -> Ints:
        ranks = np.arange(self._needed.shape[1])
        # A run may not reach over the last pod that is not allowed here at all.
        refused = np.where(eligible[self._kinds], 0, ranks[1:])
        starts = np.maximum.accumulate(np.concatenate(([0], refused)))
        for needed, amount in zip(self._needed, free, strict=True):
            # Where nothing is left, a pod that needs nothing of it still fits.
            np.maximum(starts, np.searchsorted(needed, needed - max(int(amount), 0)), out=starts)
        return starts
