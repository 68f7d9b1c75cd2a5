"""What pods insist on of their node, sorted into what a new pool can promise and what it cannot."""

import hashlib
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from accelet.kube.objects import no_labels
from accelet.kube.pods import Pod
from accelet.kube.selection import NodeTerm, Requirement
from accelet.provisioner.demand.capacity import CAPACITY_LABELS, read_tier
from accelet.provisioner.pools.machines import Refusal
from accelet.provisioner.pools.tiers import FLEX_START, Wishes, tolerates_spot

ACCELERATOR: Final = "cloud.google.com/gke-tpu-accelerator"
TOPOLOGY: Final = "cloud.google.com/gke-tpu-topology"
CHIP_COUNT: Final = "cloud.google.com/gke-accelerator-count"
ICI_RESILIENCY: Final = "cloud.google.com/gke-tpu-ici-resiliency"
LOCATION_HINT: Final = "cloud.google.com/gke-location-hint"
NODE_POOL: Final = "cloud.google.com/gke-nodepool"
PLACEMENT_POLICY: Final = "cloud.google.com/placement-policy-name"
ZONE: Final = "topology.kubernetes.io/zone"
MACHINE_TYPE: Final = "node.kubernetes.io/instance-type"
JOB_KEY: Final = "job-key"
NAMESPACED_JOB: Final = "alpha.jobset.sigs.k8s.io/namespaced-job"
SLICE_LABELS: Final = ("accelet.dev/slice", "accelet.dev/slice-set")

_HANDLED: Final = frozenset(
    (
        *(ACCELERATOR, TOPOLOGY, CHIP_COUNT, ICI_RESILIENCY, MACHINE_TYPE, PLACEMENT_POLICY, ZONE),
        *CAPACITY_LABELS,
        *(JOB_KEY, NAMESPACED_JOB, *SLICE_LABELS),
    )
)
COPIED_LABELS: Final = frozenset((ICI_RESILIENCY, LOCATION_HINT))
"""Labels that pods may always have put on their nodes: they say something of the machines only."""

_GIVEN: Final = {"kubernetes.io/os": ("linux",), "kubernetes.io/arch": ("amd64",)}
_KUBELETS: Final = frozenset(
    (
        *(ZONE, MACHINE_TYPE, *_GIVEN),
        *("topology.kubernetes.io/region", "kubernetes.io/hostname"),
        *("beta.kubernetes.io/os", "beta.kubernetes.io/arch", "beta.kubernetes.io/instance-type"),
        *("failure-domain.beta.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/region"),
    )
)
"""Labels that the kubelet and the cloud put on a node themselves (`kubeletLabels` of k8s.io/kubelet)."""

_OWN_DOMAIN: Final = "accelet.dev"
_KEY: Final = re.compile(
    r"(?=.{1,317}$)([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?"
)
_VALUE: Final = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
_LONGEST_VALUE: Final = 63
_SHOWN: Final = 80


@dataclass(frozen=True, slots=True)
class Insisted:
    """What a template's pods insist on, beyond the accelerator itself.

    `labels` are to be on the pool's nodes from the start.
    """

    wishes: Wishes
    chip_count: str | None = None
    machine_type: str | None = None
    ici_resiliency: str | None = None
    placement_policy: str | None = None
    labels: Mapping[str, str] = field(default_factory=no_labels)


def node_selector(pod: Pod) -> Mapping[str, str]:
    """The pod's node selector, and what its required node affinity says as plainly: one term, one value."""
    return {**plain(pod.required_terms or ()), **pod.node_selector}


def plain(terms: Sequence[NodeTerm]) -> Mapping[str, str]:
    """What required node affinity says as plainly as a node selector: one term, one value of a label.

    Of a label that is named twice the first counts. The admission policies that tell workers who they are
    read it in the same way.
    """
    required = terms[0].expressions if len(terms) == 1 else ()
    found: dict[str, str] = {}
    for one in required:
        if one.operator == "In" and len(one.values) == 1:
            found.setdefault(one.key, one.values[0])
    return found


def read_insisted(pod: Pod, allowed: Collection[str]) -> Insisted | Refusal:
    """What the pod insists on, or why no new pool would fit it.

    `allowed` are further labels which pods may have put on their nodes; who chooses a node's labels
    chooses who else is drawn to it, so that the settings decide.
    """
    if (objection := _judge_affinity(pod, allowed)) is not None:
        return objection
    selector = node_selector(pod)
    labels: dict[str, str] = {}
    for key, value in sorted(selector.items()):
        is_copied = key in COPIED_LABELS or key in allowed
        objection = _judge_label(key, value, is_copied=is_copied)
        if objection is not None:
            return objection
        if is_copied:
            labels[key] = value
    tier = read_tier(selector)
    if isinstance(tier, Refusal):
        return tier
    if tier == FLEX_START and (objection := _judge_flex_start(pod, selector)) is not None:
        return objection
    return Insisted(
        wishes=Wishes(tier, selector.get(ZONE, ""), tolerates_spot(pod.tolerations)),
        chip_count=selector.get(CHIP_COUNT),
        machine_type=selector.get(MACHINE_TYPE),
        ici_resiliency=selector.get(ICI_RESILIENCY),
        placement_policy=selector.get(PLACEMENT_POLICY),
        labels=labels,
    )


def _judge_flex_start(pod: Pod, selector: Mapping[str, str]) -> Refusal | None:
    """Why GKE's autoscaler would make no flex-start machines for such pods.

    It makes them for pods that kube-scheduler found unschedulable, and that fit the pool's nodes as they
    begin.
    """
    if pod.gates:
        return Refusal(
            f"the pods wait at the gate {pod.gates[0][:_SHOWN]}, and GKE makes flex-start machines only for "
            "pods that kube-scheduler could not place: leave spec.schedulingGates out"
        )
    if (key := next((key for key in SLICE_LABELS if key in selector), None)) is not None:
        return Refusal(
            f"the pods insist on {key}, which flex-start machines get once they are there, and GKE makes "
            f"them only for pods that fit them before: select {NAMESPACED_JOB} instead"
        )
    return None


def who_writes(key: str) -> str | None:
    """Who alone puts a label on nodes, so that no setting can allow it to pods; None for all other labels."""
    domain = key.partition("/")[0] if "/" in key else ""
    if domain == "google.com" or domain.endswith(".google.com"):
        return "Google"
    if key in _KUBELETS:
        return "the kubelet"
    return "the provisioner" if domain == _OWN_DOMAIN or key in (JOB_KEY, NAMESPACED_JOB) else None


def _judge_label(key: str, value: str, *, is_copied: bool) -> Refusal | None:
    """Why no new pool's nodes would have this label, if they would not."""
    what = f"{key[:_SHOWN]}={value[:_SHOWN]}"
    if key == NODE_POOL:
        return Refusal(
            f"the pods insist on the node pool {value[:_SHOWN]!r}; a new one has a new name: leave {key} out"
        )
    if key in _GIVEN:
        if value in _GIVEN[key]:
            return None
        return Refusal(
            f"the pods insist on {what}, and TPU machines are {_GIVEN[key][0]}: "
            f"select that, or leave {key} out"
        )
    if key in _HANDLED and not is_copied:
        return None
    return _judge_text(key, value) or (None if is_copied else _judge_writer(key, what))


def _judge_text(key: str, value: str) -> Refusal | None:
    """Why the API server would take this for no label."""
    if len(value) > _LONGEST_VALUE:
        return Refusal(f"{key[:_SHOWN]} has a value of {len(value)} characters; a label has at most 63")
    if _KEY.fullmatch(key) and _VALUE.fullmatch(value):
        return None
    return Refusal(f"the pods insist on {f'{key}={value}'[:_SHOWN]!r}, which is no label: leave it out")


def _judge_writer(key: str, what: str) -> Refusal:
    writer = who_writes(key)
    if writer is not None:
        return Refusal(f"the pods insist on {what}: only {writer} puts this label on nodes; leave it out")
    return Refusal(
        f"the pods insist on the label {what}, which a new pool would not "
        f"have; an administrator can allow it: node_labels: [{key}]"
    )


def _judge_affinity(pod: Pod, allowed: Collection[str]) -> Refusal | None:
    """Why it cannot be known that a new pool meets the pod's required node affinity, None if it does.

    What is not read would be paid for and used by nobody: kube-scheduler reads all of it.
    """
    if pod.required_terms is None:
        return None
    if len(pod.required_terms) != 1 or pod.required_terms[0].fields:
        return Refusal(
            "required node affinity of the pods must be one term of matchExpressions: leave it out, and say "
            "in nodeSelector which nodes they need"
        )
    known = {**{key: values[0] for key, values in _GIVEN.items()}, **node_selector(pod)}
    for one in pod.required_terms[0].expressions:
        value = known.get(one.key)
        if value is not None and _meets(value, one):
            continue
        wanted = f"{one.key[:_SHOWN]} {one.operator} {', '.join(one.values)[:_SHOWN]}".rstrip()
        wanted = f"required node affinity of the pods, {wanted},"
        if value is not None:
            return Refusal(f"{wanted} contradicts {value[:_SHOWN]}: leave it out of the affinity")
        return Refusal(f"{wanted} cannot be promised of a new pool; {_advise(one, allowed)}")
    return None


def _meets(value: str, wanted: Requirement) -> bool:
    if wanted.operator in ("Gt", "Lt"):
        try:
            ours, bound = int(value), int(wanted.values[0])
        except (ValueError, IndexError):
            return False
        return ours > bound if wanted.operator == "Gt" else ours < bound
    return (
        (wanted.operator == "In" and value in wanted.values)
        or (wanted.operator == "NotIn" and value not in wanted.values)
        or wanted.operator == "Exists"
    )


def _advise(wanted: Requirement, allowed: Collection[str]) -> str:
    """What helps against an expression that a new pool is not known to meet: only what would be accepted."""
    key = wanted.key[:_SHOWN]
    is_served = wanted.key in _HANDLED or wanted.key in COPIED_LABELS or wanted.key in allowed
    if wanted.operator == "DoesNotExist" or not (is_served or who_writes(wanted.key) is None):
        return f"leave {key} out"
    if wanted.operator == "In":
        return f"name one of these values of {key} in nodeSelector, or leave it out"
    return f"name one value of {key} in nodeSelector that meets it, or leave it out"


def judge_binding(pod: Pod, namespace: str, job: str, *, is_exclusive: bool) -> Refusal | None:
    """Why a Job could not be bound to its slice by labels, if it could not."""
    selector = node_selector(pod)
    value = f"{namespace}_{job}"
    if (is_exclusive or NAMESPACED_JOB in selector) and len(value) > _LONGEST_VALUE:
        return Refusal(
            f"the label {NAMESPACED_JOB} would be {value[:_SHOWN]!r}, {len(value)} characters of at most 63: "
            "give the Job or its namespace a shorter name"
        )
    if selector.get(NAMESPACED_JOB, value) != value:
        return Refusal(
            f"the pods insist on {NAMESPACED_JOB}={selector[NAMESPACED_JOB][:_SHOWN]}, not {value}: "
            "leave that label out"
        )
    key = job_key(namespace, job)
    if selector.get(JOB_KEY, key) != key:
        whose = f"{namespace}/{job}"[:200]
        return Refusal(
            f"the pods insist on a {JOB_KEY} that is not that of the Job {whose}, {key}: leave that label out"
        )
    return None


def job_key(namespace: str, job: str) -> str:
    """As JobSet's controller has it: the SHA-1 of `namespace/job`."""
    return hashlib.sha1(f"{namespace}/{job}".encode(), usedforsecurity=False).hexdigest()
