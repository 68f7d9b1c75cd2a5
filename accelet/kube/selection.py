"""What pods say about nodes and other pods, and nodes about pods: selectors, taints, tolerations."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from accelet.kube.objects import Wire, share_text

HOSTNAME = "kubernetes.io/hostname"
MOST_TERMS = 16
MOST_REQUIREMENTS = 16
MOST_SKEW = 10_000
MOST_VALUES = 64
"""Of a pod's affinity or anti-affinity, of one term of it, of one requirement. What is larger is left out."""

MOST_SAID = 512
"""Namespaces, requirements and values in all such terms of a pod."""

_MOST_SHARED = 256
"""Sets of terms that are kept for the next pods of their template: 18 MiB of each kind if all are as large as
they may be."""

_OF_ONE_JOB = frozenset(
    (
        "batch.kubernetes.io/job-name",
        "batch.kubernetes.io/controller-uid",
        "controller-uid",
        "job-name",
        "jobset.sigs.k8s.io/jobset-name",
        "jobset.sigs.k8s.io/jobset-uid",
        "training.kubeflow.org/job-name",
    )
)
"""Labels by which a selector is about the pods of one job, and no others."""

_OPERATORS = {"In": True, "NotIn": True, "Exists": False, "DoesNotExist": False}
"""By operator of a label selector, whether it has values."""


@dataclass(frozen=True, slots=True)
class Requirement:
    """`key operator values`: In, NotIn, Exists, DoesNotExist, Gt or Lt."""

    key: str
    operator: str
    values: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class NodeTerm:
    """A nodeSelectorTerm: all of it must hold. Without any requirement it matches no node.

    `fields` knows one key, `metadata.name`.
    """

    expressions: tuple[Requirement, ...] = ()
    fields: tuple[Requirement, ...] = ()


def pin_of(term: NodeTerm) -> str | None:
    """The node's name that a term ends in, where whoever chooses a pod's node pins the pod to it."""
    match term.fields[-1:]:
        case (Requirement("metadata.name", "In", (name,)),):
            return name
    return None


def pinned_node(terms: tuple[NodeTerm, ...] | None) -> str | None:
    """The one node that all of a pod's required terms that say anything end in; None without one."""
    pins = {pin_of(term) for term in terms or () if term.expressions or term.fields}
    return pins.pop() if len(pins) == 1 else None


@dataclass(frozen=True, slots=True)
class PreferredTerm:
    """A term that is liked with a weight of 1 to 100."""

    weight: int
    term: NodeTerm


@dataclass(frozen=True, slots=True)
class Toleration:
    """An empty `key` with Exists tolerates every taint, an empty `effect` every effect.

    `operator` is Exists, Equal, or (where the cluster has them) Lt or Gt.
    """

    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""


@dataclass(frozen=True, slots=True)
class Taint:
    """`effect` is NoSchedule, PreferNoSchedule or NoExecute."""

    key: str
    effect: str
    value: str = ""


@dataclass(frozen=True, slots=True)
class PodTerm:
    """Pods of these namespaces (None: of all) whose labels meet all of the requirements."""

    namespaces: frozenset[str] | None
    requirements: frozenset[Requirement] = frozenset()

    def selects(self, namespace: str, labels: Mapping[str, str]) -> bool:
        """Whether it is about a pod of this namespace with these labels."""
        if self.namespaces is not None and namespace not in self.namespaces:
            return False
        return all(_meets(labels.get(one.key), one) for one in self.requirements)

    @property
    def size(self) -> int:
        """How many namespaces, requirements and values it has."""
        return len(self.namespaces or ()) + sum(1 + len(one.values) for one in self.requirements)

    @property
    def is_of_one_job(self) -> bool:
        """Whether it selects pods of one job alone, in each of its namespaces."""
        return any(
            one.key in _OF_ONE_JOB and one.operator == "In" and len(one.values) == 1
            for one in self.requirements
        )


@dataclass(frozen=True, slots=True)
class TogetherTerm:
    """A pod is to be where one of these pods is: on a node of the same value of this label."""

    label: str
    pods: PodTerm


@dataclass(frozen=True, slots=True)
class SpreadTerm:
    """No node may have `most` more of these pods than the node with the fewest."""

    most: int
    pods: PodTerm


class WireRequirement(Wire, frozen=True):
    key: str
    operator: str
    values: list[str] | None = None


class WireTerm(Wire, frozen=True):
    match_expressions: list[WireRequirement] | None = None
    match_fields: list[WireRequirement] | None = None


class WirePreferred(Wire, frozen=True):
    weight: int
    preference: WireTerm


class WireSelector(Wire, frozen=True):
    node_selector_terms: list[WireTerm] | None = None


class WireNodeAffinity(
    Wire,
    frozen=True,
    rename={
        "required": "requiredDuringSchedulingIgnoredDuringExecution",
        "preferred": "preferredDuringSchedulingIgnoredDuringExecution",
    },
):
    required: WireSelector | None = None
    preferred: list[WirePreferred] | None = None


class WireToleration(Wire, frozen=True):
    key: str | None = None
    operator: str | None = None
    value: str | None = None
    effect: str | None = None


class WireTaint(Wire, frozen=True):
    key: str
    effect: str
    value: str | None = None


class _WireLabelSelector(Wire, frozen=True):
    match_labels: dict[str, str] | None = None
    match_expressions: list[WireRequirement] | None = None


class _WirePodTerm(Wire, frozen=True):
    topology_key: str | None = None
    label_selector: _WireLabelSelector | None = None
    namespaces: list[str] | None = None
    namespace_selector: _WireLabelSelector | None = None
    match_label_keys: list[str] | None = None
    mismatch_label_keys: list[str] | None = None


class WirePodAffinity(
    Wire,
    frozen=True,
    rename={
        "required": "requiredDuringSchedulingIgnoredDuringExecution",
        "preferred": "preferredDuringSchedulingIgnoredDuringExecution",
    },
):
    """A podAffinity or podAntiAffinity."""

    required: list[_WirePodTerm] | None = None
    preferred: list[object] | None = None

    @property
    def says_anything(self) -> bool:
        return bool(self.required or self.preferred)


class WireSpread(Wire, frozen=True):
    """A topologySpreadConstraint."""

    max_skew: int = 1
    topology_key: str | None = None
    when_unsatisfiable: str | None = None
    label_selector: _WireLabelSelector | None = None
    match_label_keys: list[str] | None = None


def count_requirements(wire: WireTerm) -> int:
    """A term counts as one, each of its requirements, and each value of these."""
    found = [*(wire.match_expressions or ()), *(wire.match_fields or ())]
    return 1 + sum(1 + len(one.values or ()) for one in found)


def read_term(wire: WireTerm) -> NodeTerm:
    return NodeTerm(_read_requirements(wire.match_expressions), _read_requirements(wire.match_fields))


def read_tolerations(wire: list[WireToleration] | None) -> tuple[Toleration, ...]:
    return tuple(
        Toleration(t.key or "", t.operator or "Equal", t.value or "", t.effect or "") for t in wire or ()
    )


def read_taints(wire: list[WireTaint] | None) -> tuple[Taint, ...]:
    return tuple(Taint(t.key, t.effect, t.value or "") for t in wire or ())


def read_apart(
    wire: WirePodAffinity | None, namespace: str, labels: Mapping[str, str], *, label: str = HOSTNAME
) -> frozenset[PodTerm]:
    """The required terms by which a pod of this namespace with these labels keeps others away from its node.

    With another `label`: from all nodes of the same value of it.

    Those that select namespaces by labels are left out, and those that are larger than the bounds of this
    module.
    """
    required = (wire.required if wire else None) or ()
    by_node = [term for term in required if term.topology_key == label][:MOST_TERMS]
    left, found = MOST_SAID, set[PodTerm]()
    for one in by_node:
        term = _read_pod_term(one, namespace, labels)
        if term is not None and term.size <= left:
            left -= term.size
            found.add(term)
    return _share(frozenset(found))


def read_together(
    wire: WirePodAffinity | None, namespace: str, labels: Mapping[str, str]
) -> frozenset[TogetherTerm] | None:
    """Beside which pods a pod of this namespace with these labels is required to be, and in what.

    None where that is larger than the bounds of this module, or a term selects namespaces by labels: only
    pods that all terms select count (kube-scheduler's plugin InterPodAffinity), so that all or none are read.
    """
    required = (wire.required if wire else None) or ()
    if not required:
        return frozenset()
    if len(required) > MOST_TERMS:
        return None
    left, found = MOST_SAID, set[TogetherTerm]()
    for one in required:
        pods = _read_pod_term(one, namespace, labels)
        if pods is None or not one.topology_key or pods.size > left:
            return None
        left -= pods.size
        found.add(TogetherTerm(one.topology_key, pods))
    return _share_together(frozenset(found))


def read_spread(
    wire: list[WireSpread] | None, namespace: str, labels: Mapping[str, str]
) -> frozenset[SpreadTerm]:
    """How a pod of this namespace with these labels is to be spread over nodes, where it must be.

    Constraints that are larger than the bounds of this module are left out.
    """
    left, found = MOST_SAID, set[SpreadTerm]()
    for one in (wire or ())[:MOST_TERMS]:
        if (one.topology_key, one.when_unsatisfiable) != (HOSTNAME, "DoNotSchedule") or one.max_skew < 1:
            continue
        selector = _WirePodTerm(label_selector=one.label_selector, match_label_keys=one.match_label_keys)
        term = _read_pod_term(selector, namespace, labels)
        if term is not None and term.size <= left:
            left -= term.size
            found.add(SpreadTerm(min(one.max_skew, MOST_SKEW), term))
    return _share_spread(frozenset(found))


def read_required_keys(affinity: WirePodAffinity | None, spread: list[WireSpread] | None) -> frozenset[str]:
    """The labels without which a node is none for the pod, whatever their values and whoever is where.

    kube-scheduler's filters refuse each node that lacks the topology key of a spread constraint with
    DoNotSchedule (podtopologyspread/filtering.go, Filter) or of a required term of pod affinity
    (interpodaffinity/filtering.go, satisfyPodAffinity), also where no other node is left. So 1.33 to 1.37 do.
    """
    terms = ((affinity.required if affinity else None) or ())[:MOST_TERMS]
    constraints = [one for one in (spread or ())[:MOST_TERMS] if one.when_unsatisfiable == "DoNotSchedule"]
    found = {one.topology_key for one in (*terms, *constraints) if one.topology_key}
    return frozenset(map(share_text, found))


@lru_cache(maxsize=_MOST_SHARED)
def _share_spread(terms: frozenset[SpreadTerm]) -> frozenset[SpreadTerm]:
    """As below."""
    return terms


@lru_cache(maxsize=_MOST_SHARED)
def _share_together(terms: frozenset[TogetherTerm]) -> frozenset[TogetherTerm]:
    """As below."""
    return terms


@lru_cache(maxsize=_MOST_SHARED)
def _share(terms: frozenset[PodTerm]) -> frozenset[PodTerm]:
    """The same object for all pods that one template made."""
    return terms


def _read_pod_term(wire: _WirePodTerm, namespace: str, labels: Mapping[str, str]) -> PodTerm | None:
    selector, listed = wire.label_selector, wire.namespaces or ()
    if selector is None or len(listed) > MOST_VALUES:
        return None  # without a selector it is about no pod
    requirements = [
        *(Requirement(key, "In", (value,)) for key, value in (selector.match_labels or {}).items()),
        *(Requirement(e.key, e.operator, tuple(e.values or ())) for e in selector.match_expressions or ()),
    ]
    # The API server has written these into a pod's selector, but not into a template's.
    for keys, operator in ((wire.match_label_keys, "In"), (wire.mismatch_label_keys, "NotIn")):
        written = {one.key for one in requirements if one.operator == operator}
        wanted = (key for key in keys or () if key in labels and key not in written)
        requirements += (Requirement(key, operator, (labels[key],)) for key in wanted)
    if len(requirements) > MOST_REQUIREMENTS or not all(map(_is_known, requirements)):
        return None
    if wire.namespace_selector is None:
        return PodTerm(frozenset(listed or (namespace,)), frozenset(requirements))
    selects_all = not (wire.namespace_selector.match_labels or wire.namespace_selector.match_expressions)
    return PodTerm(None, frozenset(requirements)) if selects_all else None


def _is_known(requirement: Requirement) -> bool:
    has_values = _OPERATORS.get(requirement.operator)
    return has_values is bool(requirement.values) and len(requirement.values) <= MOST_VALUES


def _meets(value: str | None, requirement: Requirement) -> bool:
    match requirement.operator:
        case "In":
            return value in requirement.values
        case "NotIn":
            return value not in requirement.values
        case "Exists":
            return value is not None
    return value is None


def _read_requirements(wire: list[WireRequirement] | None) -> tuple[Requirement, ...]:
    return tuple(Requirement(r.key, r.operator, tuple(r.values or ())) for r in wire or ())
