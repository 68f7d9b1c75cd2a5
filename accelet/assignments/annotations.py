"""Which of a pod's annotations say its assignment."""

from accelet.assignments.assignment import Assignment
from accelet.assignments.gas import CARDS_ANNOTATION, TILES_ANNOTATION, TIME_ANNOTATION, parse_gas
from accelet.assignments.ownform import ASSIGNMENT_ANNOTATION, parse_own
from accelet.kube.pods import Pod

ASSIGNED_BY = (ASSIGNMENT_ANNOTATION, CARDS_ANNOTATION, TILES_ANNOTATION, TIME_ANNOTATION)
"""Every annotation that says an assignment or a part of one."""


def read_assignment(pod: Pod) -> Assignment | None:
    """What is assigned to the pod, None if nothing is written.

    Our own annotation, where it is present, is all that counts: `gas-*` beside it is not even looked at. A
    malformed one is refused and never replaced by the other form.

    Raises:
        AssignmentError: what counts is malformed. The text says where.
    """
    own = pod.annotations.get(ASSIGNMENT_ANNOTATION)
    if own is not None:
        return parse_own(own, [container.name for container in pod.all_containers])
    return parse_gas(pod.annotations, [container.name for container in pod.containers])
