"""From the plan for a Workload to that of its pods, once they are there: pure."""

from accelet.assignments.assignment import Assignment, AssignmentError
from accelet.assignments.ownform import parse_own
from accelet.kube.pods import Pod
from accelet.scheduler.gangs.grouping import Gang
from accelet.scheduler.gangs.placeholders import placeholder_rank
from accelet.scheduler.placement.plan import Plan
from accelet.scheduler.record import Record


def adopt(gang: Gang, promise: Record) -> Plan | None:
    """The gang's plan: each rank goes where its placeholder was to go.

    None where the pods are not those that were planned: as many, or, of a gang that may begin with fewer, no
    fewer than it needs. Whether each node takes its pod is asked before the pod is released, as always.
    """
    if gang.is_begun or gang.objection or gang.lacking:
        return None
    by_rank = sorted(promise.placements, key=lambda placement: placeholder_rank(placement.pod) or 0)
    if not gang.fewest <= len(by_rank) <= len(gang.pods):
        return None
    part = gang.first(len(by_rank))
    try:
        assignments = tuple(
            _read(placement.assignment, pod) for placement, pod in zip(by_rank, part.pods, strict=True)
        )
    except AssignmentError:
        return None
    return Plan(
        part,
        tuple(placement.node for placement in by_rank),
        assignments,
        distance=promise.distance,
        lower_bound=promise.lower_bound,
        is_optimal=promise.distance == promise.lower_bound,
    )


def _read(text: str, pod: Pod) -> Assignment | None:
    return parse_own(text, [container.name for container in pod.all_containers]) if text else None
