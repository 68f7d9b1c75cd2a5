"""Which pods each node is charged with, as facts: plans are checked by them."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Self

from accelet.kube.objects import ObjectKey
from accelet.kube.pods import HostPort
from accelet.kube.requests import SchedulingUnits
from accelet.scheduler.cards.account import Use


class Resident(NamedTuple):
    """A pod that is on a node, or is to go there: what it takes, in kube-scheduler's units, and its cards."""

    pod: ObjectKey
    units: SchedulingUnits
    host_ports: frozenset[HostPort] = frozenset()
    uses: tuple[Use, ...] = ()


class ResidentAccount:
    """The residents of every node, kept up with events. An event costs as much as its node has residents."""

    def __init__(self) -> None:
        self._by_node: dict[str, tuple[Resident, ...]] = {}
        self._node_of: dict[ObjectKey, str] = {}

    def hold(self, resident: Resident, node: str) -> None:
        """Charges a node with a pod, which is charged once only."""
        self.give_back(resident.pod)
        self._node_of[resident.pod] = node
        self._by_node[node] = (*self._by_node.get(node, ()), resident)

    def give_back(self, pod: ObjectKey) -> None:
        node = self._node_of.pop(pod, None)
        if node is None:
            return
        left = tuple(one for one in self._by_node[node] if one.pod != pod)
        if left:
            self._by_node[node] = left
        else:
            del self._by_node[node]

    def now(self) -> "Residents":
        """The residents at this moment; later events do not change them."""
        return Residents(dict(self._by_node))


@dataclass(eq=False)
class Residents:
    """Who is on which node at one moment; `add` adds those that are planned since.

    Pods that are `gone` are on no node.
    """

    by_node: Mapping[str, tuple[Resident, ...]] = field(default_factory=dict)
    gone: frozenset[ObjectKey] = frozenset()
    planned: defaultdict[str, tuple[Resident, ...]] = field(default_factory=lambda: defaultdict(tuple))

    def of(self, node: str) -> Iterator[Resident]:
        """Those of one node."""
        for some in (self.by_node.get(node, ()), self.planned.get(node, ())):
            for one in some:
                if one.pod not in self.gone:
                    yield one

    def add(self, node: str, residents: Iterable[Resident]) -> None:
        self.planned[node] += tuple(residents)

    def copy(self) -> Self:
        """Residents to which others can be added without these ones' knowing."""
        return replace(self, planned=self.planned.copy())

    def without(self, gone: Collection[ObjectKey]) -> Self:
        """The same when these pods are gone."""
        return replace(self.copy(), gone=self.gone | frozenset(gone))
