"""What would be free on the nodes if some pods were gone, and others there."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace

from accelet.assignments.assignment import Assignment
from accelet.kube.objects import ObjectKey
from accelet.kube.requests import SchedulingUnits
from accelet.scheduler.cards.account import CardAccount, Use, list_uses
from accelet.scheduler.cards.catalog import UNKNOWN
from accelet.scheduler.cluster.cardroom import CardRoom
from accelet.scheduler.cluster.layout import Layout, Mask
from accelet.scheduler.cluster.residents import Occupant, Resident
from accelet.scheduler.cluster.shape import PodShape
from accelet.scheduler.cluster.usage import bounded


@dataclass(frozen=True, slots=True)
class Arrival:
    """A pod of this shape on a node, with what it is assigned there, and whose it is."""

    pod: ObjectKey
    shape: PodShape
    node: str
    assignment: Assignment | None = None
    occupant: Occupant | None = None


@dataclass(frozen=True, eq=False)
class Supposition:
    """The cluster of one moment. `charges` are those of the pods that can be thought to be gone.

    Each answer is a room of its own, as exact as that of the cluster after such events.
    """

    layout: Layout
    now: CardRoom
    charges: Mapping[ObjectKey, tuple[str, SchedulingUnits]]
    account: CardAccount

    def without(self, closed: Mask, reason: str) -> "Supposition":
        """The same without the leaves that are `closed`, for a reason that follows a number of nodes."""
        return replace(self, now=self.now.without(closed, reason))

    def room(self, gone: Collection[ObjectKey] = (), come: Iterable[Arrival] = ()) -> CardRoom:
        """What is free once these are gone and those have come; negative where that is too much."""
        room, touched = self.now.copy(), defaultdict[str, list[tuple[Use, ...]]](list)
        left, amounts = defaultdict[str, list[ObjectKey]](list), room.amounts
        amounts.ports = amounts.ports.without(gone)
        amounts.residents = amounts.residents.without(gone)
        for pod in gone:
            node, units = self.charges[pod]
            if (leaf := self.layout.leaf_of.get(node)) is None:
                continue
            touched[node] += []
            left[node].append(pod)
            for resource, amount in units.items():
                if (column := amounts.columns.get(resource)) is not None:
                    amounts.free[column, leaf] += bounded(amount)
        for one in come:
            amounts.take([self.layout.leaf_of[one.node]], [one.shape])
            held = list_uses(one.assignment, one.shape.cards) if one.assignment else ()
            touched[one.node] += [held] if one.assignment else []
            # Where it is now, it may be too: under a name that no pod can have.
            come_as = one.pod[0], f"{one.pod[1]}/arrived"
            resident = Resident(come_as, dict(one.shape.units), one.shape.host_ports, held, one.occupant)
            amounts.residents.add(one.node, (resident,))
        for node, uses in touched.items():
            states = self.account.states_if(node, left[node], uses)
            room.codes[self.layout.leaf_of[node]] = UNKNOWN if states is None else room.catalog.code(states)
        return room
