"""Which pods each node is charged with, as facts: plans are checked by them."""

from collections import defaultdict
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Self

from accelet.kube.objects import ObjectKey
from accelet.kube.pods import HostPort
from accelet.kube.requests import SchedulingUnits
from accelet.scheduler.cards.account import Use


class Occupant(NamedTuple):
    """Whose a pod is that counts where a gang has a domain of the network to itself.

    `gang` reads as people call it. `level` is that of which the gang has a domain to itself, empty if none;
    `label` likewise a label of nodes: those with the value of the pod's node are the gang's.
    """

    gang: Hashable
    level: str = ""
    label: str = ""

    @property
    def has_domain(self) -> bool:
        return bool(self.level or self.label)


class Resident(NamedTuple):
    """A pod that is on a node, or is to go there: what it takes, in kube-scheduler's units, and its cards.

    `occupant` is None of a pod that counts for nobody. One that `is_lasting` never ends by itself.
    """

    pod: ObjectKey
    units: SchedulingUnits
    host_ports: frozenset[HostPort] = frozenset()
    uses: tuple[Use, ...] = ()
    occupant: Occupant | None = None
    is_lasting: bool = False

    @property
    def has_domain(self) -> bool:
        """Whether it is of a gang that has a domain to itself."""
        return self.occupant is not None and self.occupant.has_domain


class ResidentAccount:
    """The residents of every node, kept up with events. An event costs as much as its node has residents."""

    def __init__(self) -> None:
        self._by_node: dict[str, tuple[Resident, ...]] = {}
        self._node_of: dict[ObjectKey, str] = {}
        self._with_domain: dict[ObjectKey, str] = {}

    def hold(self, resident: Resident, node: str) -> bool:
        """Charges a node with a pod, which is charged once only; whether it was somebody else's before."""
        before = self.give_back(resident.pod)
        self._node_of[resident.pod] = node
        self._by_node[node] = (*self._by_node.get(node, ()), resident)
        if resident.has_domain:
            self._with_domain[resident.pod] = node
        return before is not None and before.occupant not in (None, resident.occupant)

    def give_back(self, pod: ObjectKey) -> Resident | None:
        """What the pod was charged as, if it was."""
        node = self._node_of.pop(pod, None)
        if node is None:
            return None
        self._with_domain.pop(pod, None)
        before = next(one for one in self._by_node[node] if one.pod == pod)
        left = tuple(one for one in self._by_node[node] if one.pod != pod)
        if left:
            self._by_node[node] = left
        else:
            del self._by_node[node]
        return before

    def now(self) -> "Residents":
        """The residents at this moment; later events do not change them."""
        return Residents(dict(self._by_node), with_domain=frozenset(self._with_domain.values()))


@dataclass(eq=False)
class Residents:
    """Who is on which node at one moment; `add` adds those that are planned since.

    Pods that are `gone` are on no node. Where a gang has a domain to itself, the nodes of its pods are among
    those `with_domain`. If `lasting_only`, pods that end by themselves are left out.
    """

    by_node: Mapping[str, tuple[Resident, ...]] = field(default_factory=dict)
    gone: frozenset[ObjectKey] = frozenset()
    planned: defaultdict[str, tuple[Resident, ...]] = field(default_factory=lambda: defaultdict(tuple))
    with_domain: frozenset[str] = frozenset()
    lasting_only: bool = False

    def of(self, node: str) -> Iterator[Resident]:
        """Those of one node."""
        for some in (self.by_node.get(node, ()), self.planned.get(node, ())):
            for one in some:
                if one.pod not in self.gone and (one.is_lasting or not self.lasting_only):
                    yield one

    def occupants_of(self, node: str) -> Iterator[Occupant]:
        """Whose pods are on one node, those that count for nobody apart."""
        return (one.occupant for one in self.of(node) if one.occupant is not None)

    def add(self, node: str, residents: Iterable[Resident]) -> None:
        some = tuple(residents)
        self.planned[node] += some
        if any(one.has_domain for one in some):
            self.with_domain |= {node}

    def copy(self) -> Self:
        """Residents to which others can be added without these ones' knowing."""
        return replace(self, planned=self.planned.copy())

    def without(self, gone: Collection[ObjectKey]) -> Self:
        """The same when these pods are gone."""
        return replace(self.copy(), gone=self.gone | frozenset(gone))

    def lasting(self) -> Self:
        """Those that never end by themselves."""
        return replace(self.copy(), lasting_only=True)
