"""How much of each node is taken: an account in which one pod's event costs the same in any cluster."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np

from accelet.kube.objects import ObjectKey
from accelet.kube.requests import SchedulingUnits
from accelet.scheduler.cluster.topology import Floats, Ints

PODS = "pods"
UNLIMITED = 2**46
"""Stands for no limit and is the most that anything counts (70 TB): 100,000 of it still fit into 64 bits."""


UNKNOWN_END_S = float("inf")

MOST_RESOURCES = 512
"""Columns: more names than a cluster's nodes offer. Of a name beyond it nobody is offered anything."""


class _Charge(NamedTuple):
    node: str
    units: SchedulingUnits
    is_lasting: bool
    until_s: float


class Usage:
    """What nodes offer and what pods have taken of it, by rows of nodes and columns of resources.

    There are rows only for nodes that are there, and columns only for what one of them offers: pods can name
    any node and any resource. A pod may be charged before its node is there, and counts once it is.
    """

    def __init__(self) -> None:
        self._rows: dict[str, int] = {}
        self._spare_rows: list[int] = []
        self._columns: dict[str, int] = {PODS: 0}
        self._offers: dict[str, SchedulingUnits] = {}
        self._offered = np.zeros((16, 4), dtype=np.int64)
        self._taken = np.zeros((16, 4), dtype=np.int64)
        self._lasting = np.zeros((16, 4), dtype=np.int64)
        self._ends_s: Floats = np.zeros(16)
        self._charges: dict[ObjectKey, _Charge] = {}
        self._by_node: defaultdict[str, set[ObjectKey]] = defaultdict(set)

    @property
    def columns(self) -> Mapping[str, int]:
        """The column of each resource that a node offers, or has offered."""
        return self._columns

    @property
    def cells(self) -> int:
        """How many amounts there is space for."""
        return int(self._offered.size)

    def offer(self, node: str, units: SchedulingUnits) -> int:
        """Sets what `node` offers and returns its row, which is its own until it is withdrawn.

        A node that says nothing of `pods` has no limit of them: every kubelet sets one, files written by
        hand do not.
        """
        self._offers[node] = units
        self._add_columns(units)
        row = self._rows.get(node)
        if row is None:
            row = self._rows[node] = self._spare_rows.pop() if self._spare_rows else len(self._rows)
            if row == len(self._offered):
                self._grow((len(self._offered), 0))
            for pod in self._by_node.get(node, ()):
                self._add(self._charges[pod], 1)
        self._set_offer(row, units)
        return row

    def withdraw(self, node: str) -> None:
        """The node is gone; what its pods have taken counts again if it comes back."""
        row = self._rows.pop(node, None)
        if row is not None:
            del self._offers[node]
            self._spare_rows.append(row)
            for amounts in (self._offered, self._taken, self._lasting):
                amounts[row] = 0
            self._ends_s[row] = 0.0

    def take(
        self,
        pod: ObjectKey,
        node: str,
        units: SchedulingUnits,
        *,
        is_lasting: bool = False,
        until_s: float = UNKNOWN_END_S,
    ) -> str | None:
        """Charges `node` with `pod`, which is charged once only: what it had taken before is given back.

        A lasting charge is that of a pod of which no end is in sight; any other ends at `until_s` at the
        latest. Returns the node that has more room than before, if one has.
        """
        before = self._charges.get(pod)
        self.give_back(pod)
        charge = self._charges[pod] = _Charge(node, units, is_lasting, until_s)
        self._by_node[node].add(pod)
        self._add(charge, 1)
        if before is None:
            return None
        is_less = (before.node, before.is_lasting) != (node, is_lasting) or any(
            units.get(resource, 0) < amount for resource, amount in before.units.items()
        )
        return before.node if is_less else None

    def give_back(self, pod: ObjectKey) -> str | None:
        """Ends a pod's charge; the node that it was on, None where there was none."""
        charge = self._charges.pop(pod, None)
        if charge is None:
            return None
        pods = self._by_node[charge.node]
        pods.remove(pod)
        self._add(charge, -1)
        if not pods:
            del self._by_node[charge.node]
        return charge.node

    def charge_of(self, pod: ObjectKey) -> tuple[str, SchedulingUnits] | None:
        """The node that is charged with a pod, and with what; None where none is."""
        charge = self._charges.get(pod)
        return None if charge is None else (charge.node, charge.units)

    def free(self, rows: Ints) -> Ints:
        """A copy of what is free, shape (rows, columns); negative where a node has more than it can take."""
        width = len(self._columns)
        return np.asarray(self._offered[rows, :width] - self._taken[rows, :width])

    def is_enough(self, node: str, resources: Iterable[str]) -> bool:
        """Whether a node that is there has no less of these than all that is charged to it."""
        row, columns = self._rows[node], self._columns
        return all(
            resource in columns
            and self._taken[row, columns[resource]] <= self._offered[row, columns[resource]]
            for resource in resources
        )

    def free_in_the_end(self, rows: Ints) -> Ints:
        """What will be free when every pod has ended that ever does."""
        width = len(self._columns)
        return np.asarray(self._offered[rows, :width] - self._lasting[rows, :width])

    def ends_s(self, rows: Ints) -> Floats:
        """When all that ever ends has ended at the latest: 0 where there is nothing, infinite if unknown."""
        return np.asarray(self._ends_s[rows])

    def _set_offer(self, row: int, units: SchedulingUnits) -> None:
        self._offered[row] = 0
        self._offered[row, 0] = UNLIMITED
        for resource, amount in units.items():
            if (column := self._columns.get(resource)) is not None:
                self._offered[row, column] = bounded(amount)

    def _add(self, charge: _Charge, sign: int, only: Iterable[str] | None = None) -> None:
        """Counts a charge where its node is there, in all columns or in some `only`."""
        row = self._rows.get(charge.node)
        if row is None:
            return
        if not charge.is_lasting:
            self._note_end(row, charge, is_over=sign < 0)
        for resource in charge.units if only is None else only:
            column, amount = self._columns.get(resource), charge.units.get(resource, 0)
            if column is not None:
                self._taken[row, column] += sign * bounded(amount)
                if charge.is_lasting:
                    self._lasting[row, column] += sign * bounded(amount)

    def _note_end(self, row: int, charge: _Charge, *, is_over: bool) -> None:
        if not is_over:
            self._ends_s[row] = max(self._ends_s[row], charge.until_s)
        elif charge.until_s >= self._ends_s[row]:
            left = (self._charges[pod] for pod in self._by_node[charge.node])
            self._ends_s[row] = max((one.until_s for one in left if not one.is_lasting), default=0.0)

    def _add_columns(self, resources: Iterable[str]) -> None:
        new = [resource for resource in resources if resource not in self._columns]
        if len(self._columns) + len(new) > MOST_RESOURCES:
            self._drop_columns()
            new = [resource for resource in resources if resource not in self._columns]
        added = new[: MOST_RESOURCES - len(self._columns)]
        for resource in added:
            column = self._columns[resource] = len(self._columns)
            if column == self._offered.shape[1]:
                self._grow((0, self._offered.shape[1]))
        if added:
            for charge in self._charges.values():
                self._add(charge, 1, [resource for resource in added if resource in charge.units])

    def _drop_columns(self) -> None:
        """Begins anew with the columns of what is still offered."""
        names = dict.fromkeys((PODS, *(name for units in self._offers.values() for name in units)))
        kept = [name for name in names if name in self._columns]
        self._columns = {name: column for column, name in enumerate(kept)}
        for amounts in (self._offered, self._taken, self._lasting):
            amounts[:] = 0
        for node, row in self._rows.items():
            self._set_offer(row, self._offers[node])
        for charge in self._charges.values():
            self._add(charge, 1)

    def _grow(self, more: tuple[int, int]) -> None:
        pad = tuple((0, extra) for extra in more)
        self._offered, self._taken = np.pad(self._offered, pad), np.pad(self._taken, pad)
        self._lasting = np.pad(self._lasting, pad)
        self._ends_s = np.pad(self._ends_s, pad[0])


def bounded(amount: int) -> int:
    """An amount as it is counted."""
    return max(0, min(amount, UNLIMITED))
