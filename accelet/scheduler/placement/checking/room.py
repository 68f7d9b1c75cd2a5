"""Whether each node of a plan takes its pods: its rules, its amounts, its ports."""

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import groupby

from accelet.kube.nodes import Node
from accelet.kube.pods import HostPort, Pod
from accelet.kube.requests import SchedulingUnits, pod_units, scheduling_units
from accelet.kube.selection import Taint
from accelet.scheduler.cluster.eligibility import (
    barrier_text,
    barriers,
    first_barrier,
    is_selected,
    lacking_text,
)
from accelet.scheduler.cluster.hostports import conflicts
from accelet.scheduler.cluster.usage import PODS, UNLIMITED
from accelet.scheduler.placement.checking.seats import Seat, Seating

_MOST_PORTS = 64
"""Ports of one gang that are promised: of more, kube-scheduler may refuse pods."""


def find_node_fault(seating: Seating) -> str | None:
    """A node that does not exist, or that one of its pods may not be on."""
    for name, seats in seating.by_node.items():
        node = seating.node(name)
        if node is None:
            return f"pod {seats[0].pod.name} would go to node {name}, which does not exist"
        if name in seating.gang.excluded:
            return f"pod {seats[0].pod.name} would go to node {name}, which refused a pod of the gang"
        taints, last = barriers(node), None
        for seat in seats:
            if last is not None and _has_like_rules(seat, last):
                continue
            last = seat
            if (fault := _find_rule_fault(node, taints, seat)) is not None:
                return f"pod {seat.pod.name} would go to node {name}, {fault}"
    return None


def _find_rule_fault(node: Node, taints: Sequence[Taint], seat: Seat) -> str | None:
    """Why the pod's own rules keep it from a node, to follow the node's name."""
    pod = seat.pod
    barrier = first_barrier(taints, frozenset(pod.tolerations))
    if barrier is not None:
        return f"which is {barrier_text(barrier)}"
    if not is_selected(node, pod.node_selector.items(), pod.required_terms):
        return "which it does not select"
    if not pod.features <= node.features:
        return lacking_text(pod.features - node.features)
    if not all(is_selected(node, (), reach.terms) for reach in seat.shape.rules.reaches):
        return "from which a volume cannot be reached"
    return None


def _has_like_rules(one: Seat, other: Seat) -> bool:
    return (
        one.pod.tolerations == other.pod.tolerations
        and one.pod.node_selector == other.pod.node_selector
        and one.pod.required_terms == other.pod.required_terms
        and one.pod.features == other.pod.features
        and one.shape.rules.reaches == other.shape.rules.reaches
    )


def find_room_fault(seating: Seating) -> str | None:
    """A node that has less of something than its residents and its pods of the plan take together."""
    units = _Units()
    for name, seats in seating.by_node.items():
        node = seating.node(name)
        wanted: Counter[str] = Counter()
        for _, alike in groupby((units.of(seat.pod) for seat in seats), key=id):
            each = list(alike)
            wanted.update({resource: len(each) * amount for resource, amount in each[0].items()})
        taken: Counter[str] = Counter()
        for resident in seating.residents.of(name):
            taken.update({resource: resident.units.get(resource, 0) for resource in wanted})
        offered = _offered(node) if node is not None else {}
        for resource, amount in wanted.items():
            if amount > 0 and taken[resource] + amount > offered.get(resource, 0):
                free = offered.get(resource, 0) - taken[resource]
                what = f"{amount} of {resource} on node {name}, which has {free} free"
                return f"pods like {seats[0].pod.name} would take {what}"
    return None


def _offered(node: Node) -> Mapping[str, int]:
    """What a node has; one that says nothing of pods takes any number of them."""
    offered = scheduling_units(node.allocatable)
    return {PODS: UNLIMITED, **{name: min(amount, UNLIMITED) for name, amount in offered.items()}}


class _Units:
    """What pods take. Most pods of a gang are alike, and follow each other: they are worked out once."""

    def __init__(self) -> None:
        self._last: tuple[Pod, SchedulingUnits] | None = None

    def of(self, pod: Pod) -> SchedulingUnits:
        if self._last is None or not _takes_as_much(pod, self._last[0]):
            self._last = pod, {name: min(one, UNLIMITED) for name, one in pod_units(pod).items()}
        return self._last[1]


def _takes_as_much(one: Pod, other: Pod) -> bool:
    """Whether two pods say the same of what they take; those that have run may be resized."""
    return (
        not one.statuses
        and not other.statuses
        and one.containers == other.containers
        and one.init_containers == other.init_containers
        and one.overhead == other.overhead
        and one.level_requests == other.level_requests
    )


def find_port_fault(seating: Seating) -> str | None:
    """A host port that two pods of one node would have."""
    ports = {port for pod in seating.gang.pods for port in pod.host_ports}
    if not ports or len(ports) > _MOST_PORTS:
        return None
    numbers = {port[1:] for port in ports}
    for name, seats in seating.by_node.items():
        held = [port for one in seating.residents.of(name) for port in one.host_ports if port[1:] in numbers]
        for seat in seats:
            if (port := _meeting(seat.pod.host_ports, held)) is not None:
                return f"pod {seat.pod.name} would go to node {name}, where host port {port[2]} is taken"
            held += seat.pod.host_ports
    return None


def _meeting(wanted: Collection[HostPort], held: Collection[HostPort]) -> HostPort | None:
    def meeting() -> Iterator[HostPort]:
        return (port for port in wanted for other in held if conflicts(port, other))

    return next(meeting(), None)
