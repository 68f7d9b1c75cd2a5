"""How much of each node is taken: an account in which one pod's event costs the same in any cluster."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from accelet.kube.objects import ObjectKey
from accelet.kube.requests import SchedulingUnits
from accelet.scheduler.cluster.topology import Ints

PODS = "pods"
UNLIMITED = 2**46
"""Stands for no limit and is the most that anything counts (70 TB): 100,000 of it still fit into 64 bits."""


class _Charge(NamedTuple):
    row: int
    columns: list[int]
    amounts: list[int]
    is_lasting: bool


class Usage:
    """What nodes offer and what pods have taken of it, by rows of nodes and columns of resources.

    A row stays with its node's name for good, known or not, so that a pod may be seen before its node
    and a node may come back.
    """

    def __init__(self) -> None:
        self._rows: dict[str, int] = {}
        self._columns: dict[str, int] = {PODS: 0}
        self._offered = np.zeros((16, 4), dtype=np.int64)
        self._taken = np.zeros((16, 4), dtype=np.int64)
        self._lasting = np.zeros((16, 4), dtype=np.int64)
        self._charges: dict[ObjectKey, _Charge] = {}

    @property
    def columns(self) -> Mapping[str, int]:
        """The column of each resource that any node offers or any pod has taken."""
        return self._columns

    def offer(self, node: str, units: SchedulingUnits) -> int:
        """Sets what `node` offers and returns its row.

        A node that says nothing of `pods` has no limit of them: every kubelet sets one, files written by
        writer do not.
        """
        row = self._row(node)
        columns = [self._column(resource) for resource in units]
        self._offered[row] = 0
        self._offered[row, 0] = UNLIMITED
        self._offered[row, columns] = [min(amount, UNLIMITED) for amount in units.values()]
        return row

    def take(self, pod: ObjectKey, node: str, units: SchedulingUnits, *, is_lasting: bool = False) -> None:
        """Charges `node` with `pod`, which is charged once only: what it had taken before is given back.

        A lasting charge is that of a pod which stays as long as its node.
        """
        self.give_back(pod)
        columns = [self._column(resource) for resource in units]
        amounts = [min(amount, UNLIMITED) for amount in units.values()]
        charge = _Charge(self._row(node), columns, amounts, is_lasting)
        self._add(charge, 1)
        self._charges[pod] = charge

    def give_back(self, pod: ObjectKey) -> None:
        """Ends a pod's charge; does nothing where there is none."""
        charge = self._charges.pop(pod, None)
        if charge is not None:
            self._add(charge, -1)

    def free(self, rows: Ints) -> Ints:
        """A copy of what is free, shape (rows, columns); negative where a node has more than it can take."""
        width = len(self._columns)
        return np.asarray(self._offered[rows, :width] - self._taken[rows, :width])

    def free_in_the_end(self, rows: Ints) -> Ints:
        """What will be free when every pod has ended that ever does."""
        width = len(self._columns)
        return np.asarray(self._offered[rows, :width] - self._lasting[rows, :width])

    def _add(self, charge: _Charge, sign: int) -> None:
        for column, amount in zip(charge.columns, charge.amounts, strict=True):
            self._taken[charge.row, column] += sign * amount
            if charge.is_lasting:
                self._lasting[charge.row, column] += sign * amount

    def _row(self, node: str) -> int:
        row = self._rows.setdefault(node, len(self._rows))
        if row == len(self._offered):
            self._grow((len(self._offered), 0))
        return row

    def _column(self, resource: str) -> int:
        column = self._columns.setdefault(resource, len(self._columns))
        if column == self._offered.shape[1]:
            self._grow((0, self._offered.shape[1]))
        return column

    def _grow(self, more: tuple[int, int]) -> None:
        pad = tuple((0, extra) for extra in more)
        self._offered, self._taken = np.pad(self._offered, pad), np.pad(self._taken, pad)
        self._lasting = np.pad(self._lasting, pad)
