"""What is assigned on this node: each pod's annotations, read once."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from accelet.accelerators.device import UnitId
from accelet.accelerators.inventory import Inventory
from accelet.assignments.annotations import read_assignment
from accelet.assignments.assignment import Assignment, AssignmentError, Pieces
from accelet.kube.pods import Pod
from accelet.kube.poduid import PodUid
from resourcemanager.holdings.evidence import ContainerKey
from resourcemanager.holdings.ledger import Ledger
from resourcemanager.target import find_units

_REMEMBERED = 2000


@dataclass(slots=True)
class Assignments:
    """Reads assignments, and reads none twice."""

    _read: dict[str, tuple[Mapping[str, str], Assignment | AssignmentError | None]] = field(
        default_factory=dict
    )

    def of(self, pod: Pod) -> Assignment | None:
        """What is assigned to the pod, None if nothing is written.

        Raises:
            AssignmentError: what is written is malformed.
        """
        known = self._read.get(pod.uid)
        if known is None or known[0] != pod.annotations:
            if len(self._read) >= _REMEMBERED:
                self._read.clear()
            known = self._read[pod.uid] = (pod.annotations, _read(pod))
        if isinstance(known[1], AssignmentError):
            raise known[1]
        return known[1]

    def readable(self, pod: Pod, resource: str) -> Iterator[tuple[str, Pieces]]:
        """The pod's containers that are assigned something of `resource`; none if it is malformed."""
        try:
            assignment = self.of(pod)
        except AssignmentError:
            return
        for container in pod.all_containers if assignment is not None else ():
            pieces = assignment.pieces(container.name, resource) if assignment is not None else None
            if pieces and container.limits.get(resource):
                yield container.name, pieces


def list_assigned_units(
    pods: Iterable[Pod], assignments: Assignments, inventory: Inventory, resource: str
) -> frozenset[UnitId]:
    """The units of which live pods are assigned something."""
    return frozenset(
        unit
        for pod in pods
        if not pod.is_terminal
        for _, pieces in assignments.readable(pod, resource)
        for unit, _ in find_units(pieces, inventory)
    )


def count_unassigned(
    ledger: Ledger, inventory: Inventory, pods: Mapping[PodUid, Pod], assignments: Assignments
) -> Mapping[UnitId, int]:
    """How many devices of each unit are with containers to which nothing of the unit is assigned.

    These see the unit whole, and no annotation tells a scheduler of them. A holder that nobody knows counts
    as such, one whose pod has ended does not. A pod's containers take devices over from each other: one that
    is assigned the unit speaks for the others.
    """
    holders = {device: ledger.holders(device) for device in ledger.held & inventory.by_id.keys()}
    uids = {holder.pod_uid for each in holders.values() for holder in each if holder is not None}
    assigned = {
        (ContainerKey(uid, container), unit)
        for uid in uids & pods.keys()
        for container, pieces in assignments.readable(pods[uid], ledger.resource)
        for unit, _ in find_units(pieces, inventory)
    }
    ended = {uid for uid in uids & pods.keys() if pods[uid].is_terminal}
    found: Counter[UnitId] = Counter()
    for device, each in holders.items():
        unit = inventory.by_id[device].unit
        spoken_for = ended | {one.pod_uid for one in each if one is not None and (one, unit) in assigned}
        found[unit] += any(one is None or one.pod_uid not in spoken_for for one in each)
    return dict(found)


def _read(pod: Pod) -> Assignment | AssignmentError | None:
    try:
        return read_assignment(pod)
    except AssignmentError as error:
        return error
