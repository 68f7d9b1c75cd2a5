"""Whether a node may take a pod at all, as kube-scheduler judges it.

The rules are those of Kubernetes 1.36: component-helpers/scheduling/corev1 and the scheduler's plugins
NodeAffinity, TaintToleration, NodeUnschedulable and NodeDeclaredFeatures. Features are always judged:
where the gate NodeDeclaredFeatures is off, the API server drops from new pods what needs one.
"""

import re
from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from functools import lru_cache

from accelet.kube.nodes import Node
from accelet.kube.selection import NodeTerm, Requirement, Taint, Toleration

_LONGEST_LABEL = 63
_LABEL = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?")
_INTEGER = re.compile(r"[+-]?\d{1,63}", re.ASCII)
KEEPS_AWAY = ("NoSchedule", "NoExecute")
_CORDON = Taint("node.kubernetes.io/unschedulable", "NoSchedule")
_READINESS = {
    "False": Taint("node.kubernetes.io/not-ready", "NoSchedule"),
    "Unknown": Taint("node.kubernetes.io/unreachable", "NoSchedule"),
}


def holds(requirement: Requirement, value: str | None, among: Container[str | None] = ()) -> bool:
    """Whether a label of this value (None: there is none) meets the requirement.

    One that the API server would refuse (`Gt` with two values, an unknown operator) is met by nothing. So is
    one with a value that no label can have, as kube-scheduler does not parse it: `Gt` with `-1`, say.
    `among` are its values in a form that is quick to look in, where many labels are judged.
    """
    values = requirement.values
    if not _can_be_labels(values):
        return False
    match requirement.operator:
        case "In" | "NotIn" if values:
            return (value in (among or values)) == (requirement.operator == "In")
        case "Exists" | "DoesNotExist" if not values:
            return (value is not None) == (requirement.operator == "Exists")
        case "Gt" | "Lt" if len(values) == 1:
            have, want = _integer(value), _integer(values[0])
            if have is None or want is None:
                return False
            return have > want if requirement.operator == "Gt" else have < want
    return False


@lru_cache(maxsize=4096)
def _can_be_labels(values: tuple[str, ...]) -> bool:
    """Whether labels can have all of these values (apimachinery/pkg/labels, validateLabelValue)."""
    return all(len(value) <= _LONGEST_LABEL and _LABEL.fullmatch(value) for value in values)


def holds_name(requirement: Requirement, name: str) -> bool:
    """Whether a node of this name meets a requirement of `matchFields`: `metadata.name`, one value."""
    if requirement.key != "metadata.name" or len(requirement.values) != 1:
        return False
    return requirement.operator in ("In", "NotIn") and (
        (name == requirement.values[0]) == (requirement.operator == "In")
    )


def matches(term: NodeTerm, labels: Mapping[str, str], name: str) -> bool:
    """Whether a node meets all of a term; one without any requirement matches no node."""
    return (
        bool(term.expressions or term.fields)
        and all(holds(requirement, labels.get(requirement.key)) for requirement in term.expressions)
        and all(holds_name(requirement, name) for requirement in term.fields)
    )


def is_selected(node: Node, selector: Iterable[tuple[str, str]], terms: Sequence[NodeTerm] | None) -> bool:
    """Whether a node is selected by a pod's node selector and its required node affinity (None: any)."""
    return all(node.labels.get(key) == value for key, value in selector) and (
        terms is None or any(matches(term, node.labels, node.name) for term in terms)
    )


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    """Whether a toleration covers a taint; `Lt` and `Gt`, off by default in every release, never do."""
    if toleration.effect not in ("", taint.effect) or toleration.key not in ("", taint.key):
        return False
    return toleration.operator == "Exists" or (
        toleration.operator == "Equal" and toleration.value == taint.value
    )


def barriers(node: Node) -> tuple[Taint, ...]:
    """The taints that keep pods away from a node.

    A cordoned node has that of cordoning even before the node controller has written it, a node that is
    not ready that of not being ready. A node that says nothing of its readiness is taken as it is: so
    does kube-scheduler.
    """
    taints = [taint for taint in node.taints if taint.effect in KEEPS_AWAY]
    if node.unschedulable:
        taints.append(_CORDON)
    taints += (
        _READINESS[condition.status]
        for condition in node.conditions
        if condition.type == "Ready" and condition.status in _READINESS
    )
    return tuple(dict.fromkeys(taints))


def first_barrier(taints: Iterable[Taint], tolerations: Collection[Toleration]) -> Taint | None:
    """The first taint that none of these tolerations covers."""
    for taint in taints:
        if not any(tolerates(toleration, taint) for toleration in tolerations):
            return taint
    return None


def barrier_text(taint: Taint) -> str:
    """What keeps pods away, for people, to follow a number of nodes."""
    if taint == _CORDON:
        return "cordoned"
    if taint.key in (_READINESS["False"].key, _READINESS["Unknown"].key):
        return "not ready"
    value = f"={taint.value}" if taint.value else ""
    return f"tainted {taint.key}{value}:{taint.effect}"


def unlabelled_text(key: str) -> str:
    """What nodes lack that a pod's topology spread or affinity needs, to follow a number of nodes."""
    return f"without the label {key}, which the pods' topology spread or affinity needs"


def lacking_text(features: frozenset[str]) -> str:
    """What nodes lack that do not declare all of these features, for people, to follow a number of nodes."""
    return f"whose kubelet does not declare the feature {' and '.join(sorted(features))}"


def _integer(text: str | None) -> int | None:
    if text is None or _INTEGER.fullmatch(text) is None:
        return None
    number = int(text)
    return number if -(2**63) <= number < 2**63 else None
