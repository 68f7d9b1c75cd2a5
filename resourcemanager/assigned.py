"""What is assigned on this node: each pod's annotations, read once."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from accelet.accelerators.device import UnitId
from accelet.accelerators.inventory import Inventory
from accelet.kube.pods import Pod
from resourcemanager.annotations import read_assignment
from resourcemanager.assignment import Assignment, AssignmentError, Pieces
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


def _read(pod: Pod) -> Assignment | AssignmentError | None:
    try:
        return read_assignment(pod)
    except AssignmentError as error:
        return error
