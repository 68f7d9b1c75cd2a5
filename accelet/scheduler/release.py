"""What is to be done next of a gang's plan, which only ever rolls forward.

Kubernetes lets a gate be taken off a pod and never be put on again, and a gated pod's node affinity be
tightened and never be loosened (KEP-3838). A plan that has begun can therefore not be undone; it is written
down first, each of its steps can be repeated, and whoever finds it written goes on with it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from accelet.assignments.annotations import ASSIGNED_BY
from accelet.assignments.ownform import ASSIGNMENT_ANNOTATION
from accelet.kinds.waiting import WAITING_ANNOTATION
from accelet.kube.pods import Pod
from accelet.kube.selection import NodeTerm, Requirement, pin_of, pinned_node
from accelet.scheduler.gangs.grouping import is_ours
from accelet.scheduler.record import Placement, Record


@dataclass(frozen=True, slots=True)
class Lift:
    """Pin this pod to this node, say its assignment (empty: none), and lift our gates off it."""

    pod: Pod
    node: str
    assignment: str = ""


@dataclass(frozen=True, slots=True)
class Steps:
    """A plan's placements by what is to be done with them.

    `lost` pods are gated and their node cannot take them any more: they need another place. `stranded`
    ones are lifted and pinned to such a node: nothing can free them but to be made anew. `waiting` ones
    are lifted and not yet bound.
    """

    lifts: tuple[Lift, ...] = ()
    lost: tuple[Placement, ...] = ()
    stranded: tuple[Pod, ...] = ()
    waiting: tuple[Pod, ...] = ()
    bound: tuple[Pod, ...] = ()

    def __add__(self, other: "Steps") -> "Steps":
        return Steps(
            self.lifts + other.lifts,
            self.lost + other.lost,
            self.stranded + other.stranded,
            self.waiting + other.waiting,
            self.bound + other.bound,
        )

    @property
    def is_begun(self) -> bool:
        """Whether any pod has lost its gate, so that the plan cannot be taken back."""
        return bool(self.waiting or self.stranded or self.bound)

    @property
    def is_finished(self) -> bool:
        """Whether every pod is bound or gone."""
        return not (self.lifts or self.lost or self.stranded or self.waiting)


def next_steps(
    record: Record,
    pods: Mapping[tuple[str, str], Pod],
    takes: Callable[[Pod, str], bool],
    prefix: str,
) -> Steps:
    """What is left to do. `takes(pod, node)` says whether a node still takes a pod planned for it.

    A pod that is gone, is going, or was made anew needs nothing: its successor is planned for itself.
    """
    lifts: list[Lift] = []
    lost: list[Placement] = []
    stranded: list[Pod] = []
    waiting: list[Pod] = []
    bound: list[Pod] = []
    for placement in record.placements:
        pod = pods.get((record.gang.namespace, placement.pod))
        if pod is None or pod.uid != placement.uid or pod.deleted_s is not None or pod.is_terminal:
            continue
        if pod.node_name:
            bound.append(pod)
        elif any(is_ours(gate, prefix) for gate in pod.gates):
            if takes(pod, placement.node):
                lifts.append(Lift(pod, placement.node, placement.assignment))
            else:
                lost.append(placement)
        elif takes(pod, placement.node):
            waiting.append(pod)
        else:
            stranded.append(pod)
    return Steps(tuple(lifts), tuple(lost), tuple(stranded), tuple(waiting), tuple(bound))


def is_refused(pod: Pod) -> bool:
    """Whether kube-scheduler has looked at it and found no node for it, its own one included."""
    return any(
        (condition.type, condition.status, condition.reason) == ("PodScheduled", "False", "Unschedulable")
        for condition in pod.conditions
    )


def lift_patch(lift: Lift, prefix: str) -> dict[str, object]:
    """The one merge patch (RFC 7386) of a pod.

    It holds for this version of this pod only, or the API server answers 409. The node is added to every
    required term that says anything: an empty term matches no node and must stay as it is. By
    `matchFields`, since the label `kubernetes.io/hostname` need not be the node's name. Whatever assignment
    the pod has brought along goes: nobody else writes one.
    """
    pod = lift.pod
    pin = Requirement("metadata.name", "In", (lift.node,))
    terms = pod.required_terms or (NodeTerm((), (pin,)),)
    if pod.required_terms:
        terms = tuple(
            NodeTerm(term.expressions, (*term.fields, pin)) if term.expressions or term.fields else term
            for term in pod.required_terms
        )
    return {
        "metadata": {"uid": pod.uid, "resourceVersion": pod.resource_version, **_annotations(lift)},
        "spec": {
            "schedulingGates": [{"name": gate} for gate in pod.gates if not is_ours(gate, prefix)],
            "affinity": {
                "nodeAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": {
                        "nodeSelectorTerms": [_term(term) for term in terms]
                    }
                }
            },
        },
    }


def released_to(pod: Pod, prefix: str) -> str | None:
    """The node that `lift_patch` has pinned a pod to that has an assignment; None where it has not."""
    if ASSIGNMENT_ANNOTATION not in pod.annotations or any(is_ours(gate, prefix) for gate in pod.gates):
        return None
    return pinned_to(pod)


def pinned_to(pod: Pod) -> str | None:
    """The one node that every required term of a pod ends in, as `lift_patch` has it; None without one."""
    return pinned_node(pod.required_terms)


def unpinned_terms(pod: Pod) -> tuple[NodeTerm, ...] | None:
    """The pod's required terms as they were before `lift_patch` has pinned it."""
    terms = pod.required_terms
    if pinned_to(pod) is None or terms is None:
        return terms
    before = tuple(NodeTerm(t.expressions, t.fields[:-1]) if pin_of(t) else t for t in terms)
    # A pod that had none got the pin alone.
    return None if before == (NodeTerm((), ()),) else before


def _annotations(lift: Lift) -> dict[str, object]:
    gone = (*ASSIGNED_BY, WAITING_ANNOTATION)
    said: dict[str, str | None] = {name: None for name in gone if name in lift.pod.annotations}
    if lift.assignment:
        said[ASSIGNMENT_ANNOTATION] = lift.assignment
    return {"annotations": said} if said else {}


def _term(term: NodeTerm) -> dict[str, object]:
    parts = {"matchExpressions": term.expressions, "matchFields": term.fields}
    return {name: [_requirement(r) for r in part] for name, part in parts.items() if part}


def _requirement(requirement: Requirement) -> dict[str, object]:
    values = {"values": list(requirement.values)} if requirement.values else {}
    return {"key": requirement.key, "operator": requirement.operator, **values}
