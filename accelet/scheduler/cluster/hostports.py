"""Which pods have which ports of their nodes, and what that leaves to others, as kube-scheduler judges it.

The rules are those of Kubernetes 1.33 to 1.37: the scheduler's plugin NodePorts and HostPortInfo.
"""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Self

import numpy as np

from accelet.kube.objects import ObjectKey
from accelet.kube.pods import ANY_ADDRESS, HostPort
from accelet.scheduler.budget import Budget
from accelet.scheduler.cluster.shape import Limit, PodShape
from accelet.scheduler.cluster.topology import Ints

Port = tuple[str, int]
"""A protocol and a number: who has it at any address has it at all of them."""


MOST_LIMITS = 64
"""Of one gang: pods of hundreds of different sets of ports may be refused by kube-scheduler."""

_PODS_A_UNIT = 10


class PortHolder(NamedTuple):
    """A pod has the port at this address. A lasting one is not expected to end."""

    address: str
    pod: ObjectKey
    is_lasting: bool


Holders = Mapping[Port, Mapping[str, tuple[PortHolder, ...]]]
"""By port and name of node, who has it there."""


class HostPorts:
    """The ports of nodes that pods have or were promised, kept up with events.

    A pod's event costs as much as it has ports. Of one moment there is a copy, made anew only of ports that
    have changed.
    """

    def __init__(self) -> None:
        self._by_pod: dict[ObjectKey, tuple[str, frozenset[HostPort], bool]] = {}
        self._holders: dict[Port, dict[str, tuple[PortHolder, ...]]] = {}
        self._copies: dict[Port, Mapping[str, tuple[PortHolder, ...]]] = {}
        self._changed: set[Port] = set()

    def hold(
        self, pod: ObjectKey, node: str, ports: frozenset[HostPort], *, is_lasting: bool = False
    ) -> bool:
        """The pod has these ports on `node`, and no others; whether one that it had is free now."""
        if self._by_pod.get(pod, ("", frozenset(), False)) == (node, ports, is_lasting):
            return False
        before = self.give_back(pod)
        if ports:
            self._by_pod[pod] = node, ports, is_lasting
        for address, protocol, number in ports:
            at = self._holders.setdefault((protocol, number), {})
            at[node] = (*at.get(node, ()), PortHolder(address, pod, is_lasting))
            self._changed.add((protocol, number))
        return bool(before - ports)

    def give_back(self, pod: ObjectKey) -> frozenset[HostPort]:
        """The pod has no ports any more; those that it had."""
        node, ports, _ = self._by_pod.pop(pod, ("", frozenset[HostPort](), False))
        for port in {(protocol, number) for _, protocol, number in ports}:
            at = self._holders[port]
            at[node] = tuple(holder for holder in at[node] if holder.pod != pod)
            if not at[node]:
                del at[node]
            if not at:
                del self._holders[port]
            self._changed.add(port)
        return ports

    def has_its_own(self, pod: ObjectKey) -> bool:
        """Whether nobody else has a port of its node that this pod has, or is to get, there."""
        node, ports, _ = self._by_pod.get(pod, ("", frozenset[HostPort](), False))
        return not any(
            holder.pod != pod and _meet(address, holder.address)
            for address, protocol, number in ports
            for holder in self._holders[protocol, number].get(node, ())
        )

    def now(self) -> "PortRoom":
        """Who has which port at this moment; later events do not change it."""
        for port in self._changed:
            if port in self._holders:
                self._copies[port] = dict(self._holders[port])
            else:
                self._copies.pop(port, None)
        self._changed.clear()
        return PortRoom(dict(self._copies))


@dataclass(eq=False)
class PortRoom:
    """What is free of the nodes' ports while gangs are planned; `take` changes it.

    Those that are `gone` have none, nor has anybody who is not lasting where `lasting_only`.
    """

    holders: Holders = field(default_factory=dict)
    gone: frozenset[ObjectKey] = frozenset()
    lasting_only: bool = False
    taken: list[tuple[int, frozenset[HostPort]]] = field(default_factory=list)

    def take(self, leaf: int, ports: frozenset[HostPort]) -> None:
        if ports:
            self.taken.append((leaf, ports))

    def copy(self) -> Self:
        return replace(self, taken=list(self.taken))

    def without(self, gone: Collection[ObjectKey]) -> Self:
        """The same when these pods are gone."""
        return replace(self.copy(), gone=self.gone | frozenset(gone))

    def limits(self, shapes: Sequence[PodShape], leaf_of: Mapping[str, int], budget: Budget) -> list[Limit]:
        """What the ports of pods of these shapes draw on together.

        Two pods can be on one leaf if no limit is needed by both, and only then. Ports that the same pods
        need are one limit. Of more than `MOST_LIMITS`, those that the most pods need are looked at.

        Raises:
            BudgetSpentError: it takes too much work.
        """
        kinds = {shape.host_ports for shape in shapes if shape.host_ports}
        if not kinds:
            return []
        budget.spend(sum(map(len, kinds)))
        ports_of: defaultdict[frozenset[frozenset[HostPort]], list[HostPort]] = defaultdict(list)
        for port, needed_by in _needs(kinds).items():
            ports_of[needed_by].append(port)
        widest = sorted(ports_of.items(), key=lambda item: (-len(item[0]), min(item[1])))[:MOST_LIMITS]
        budget.spend(len(widest) * len(shapes) // _PODS_A_UNIT)
        return [
            Limit(tuple(int(shape.host_ports in needed_by) for shape in shapes), free, reason)
            for needed_by, ports in widest
            for free, reason in (self._free(ports, leaf_of, budget),)
        ]

    def _free(
        self, ports: Sequence[HostPort], leaf_of: Mapping[str, int], budget: Budget
    ) -> tuple[Ints, str]:
        """1 on each leaf where all of these ports are free, else 0; and what to say where they are not."""
        free = np.ones(len(leaf_of), dtype=np.int64)
        for port in ports:
            budget.spend(len(self.taken) + len(self.holders.get(port[1:], ())))
            free[list(self._closed(port, leaf_of))] = 0
        which = f"host port {ports[0][2]}" if len(ports) == 1 else "one of its host ports"
        return free, f"where {which} is taken"

    def _closed(self, port: HostPort, leaf_of: Mapping[str, int]) -> Iterator[int]:
        """The leaves on which others have this port."""
        for node, holders in self.holders.get(port[1:], {}).items():
            there = (one.address for one in holders if self._is_there(one))
            if node in leaf_of and any(_meet(port[0], address) for address in there):
                yield leaf_of[node]
        for leaf, ports in self.taken:
            if any(conflicts(port, other) for other in ports):
                yield leaf

    def _is_there(self, holder: PortHolder) -> bool:
        return holder.pod not in self.gone and (holder.is_lasting or not self.lasting_only)


def _needs(kinds: Collection[frozenset[HostPort]]) -> dict[HostPort, frozenset[frozenset[HostPort]]]:
    """Which of the kinds need which port: at every address of it who wants it at any."""
    at: defaultdict[Port, defaultdict[str, set[frozenset[HostPort]]]] = defaultdict(lambda: defaultdict(set))
    for kind in kinds:
        for address, protocol, number in kind:
            at[protocol, number][address].add(kind)
    return {
        (address, *port): frozenset(wanting | of_port.get(ANY_ADDRESS, set()))
        for port, of_port in at.items()
        for address, wanting in of_port.items()
    }


def conflicts(one: HostPort, other: HostPort) -> bool:
    """Whether two pods cannot have these ports of one node."""
    return one[1:] == other[1:] and _meet(one[0], other[0])


def _meet(one: str, other: str) -> bool:
    return one == other or ANY_ADDRESS in (one, other)
