"""What pods insist on of their node, sorted into what a new pool can promise and what it cannot."""

import hashlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from accelet.kube.objects import no_labels
from accelet.kube.pods import Pod
from accelet.kube.selection import NodeTerm
from accelet.provisioner.demand.capacity import CAPACITY_LABELS, read_tier
from accelet.provisioner.pools.machines import Refusal
from accelet.provisioner.pools.tiers import Wishes, tolerates_spot

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
    if (objection := _judge_affinity(pod)) is not None:
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
    return Insisted(
        wishes=Wishes(tier, selector.get(ZONE, ""), tolerates_spot(pod.tolerations)),
        chip_count=selector.get(CHIP_COUNT),
        machine_type=selector.get(MACHINE_TYPE),
        ici_resiliency=selector.get(ICI_RESILIENCY),
        placement_policy=selector.get(PLACEMENT_POLICY),
        labels=labels,
    )


def is_googles(key: str) -> bool:
    """Whether a label's key is in Google's domain: Google alone puts such labels on nodes."""
    domain = key.partition("/")[0] if "/" in key else ""
    return domain == "google.com" or domain.endswith(".google.com")


def _judge_label(key: str, value: str, *, is_copied: bool) -> Refusal | None:
    """Why no new pool's nodes would have this label, if they would not."""
    if key == NODE_POOL:
        return Refusal(f"the pods insist on the node pool {value[:_SHOWN]!r}; a new one has a new name")
    if key in _GIVEN and value not in _GIVEN[key]:
        return Refusal(f"the pods insist on {key}={value[:_SHOWN]}, and TPU machines are {_GIVEN[key][0]}")
    if is_copied and len(value) > _LONGEST_VALUE:
        return Refusal(f"{key} has a value of {len(value)} characters; a label has at most 63")
    if is_copied or key in _HANDLED or key in _GIVEN:
        return None
    what = f"{key[:_SHOWN]}={value[:_SHOWN]}"
    if is_googles(key):
        return Refusal(
            f"the pods insist on {what}: only Google puts labels of google.com on nodes; "
            "take it out of the node selector"
        )
    return Refusal(
        f"the pods insist on the label {what}, which a new pool would not "
        "have; an administrator can allow it in node_labels"
    )


def _judge_affinity(pod: Pod) -> Refusal | None:
    """Why it cannot be known that a new pool meets the pod's required node affinity, None if it does.

    What is not read would be paid for and used by nobody: kube-scheduler reads all of it.
    """
    if pod.required_terms is None:
        return None
    if len(pod.required_terms) != 1 or pod.required_terms[0].fields:
        return Refusal(
            "required node affinity of the pods must be one term of matchExpressions; say in nodeSelector "
            "which nodes they need"
        )
    known = {**{key: values[0] for key, values in _GIVEN.items()}, **node_selector(pod)}
    for one in pod.required_terms[0].expressions:
        value = known.get(one.key)
        is_met = value is not None and (
            (one.operator == "In" and value in one.values)
            or (one.operator == "NotIn" and value not in one.values)
            or one.operator == "Exists"
        )
        if not is_met:
            wanted = f"{one.key[:_SHOWN]} {one.operator} {', '.join(one.values)[:_SHOWN]}".rstrip()
            if value is not None:
                return Refusal(f"required node affinity of the pods, {wanted}, contradicts {value[:_SHOWN]}")
            return Refusal(
                f"required node affinity of the pods, {wanted}, cannot be promised of a new pool; name one "
                f"value of {one.key[:_SHOWN]} in nodeSelector, or leave it out"
            )
    return None


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
            f"the pods insist on {NAMESPACED_JOB}={selector[NAMESPACED_JOB][:_SHOWN]}, not {value}"
        )
    if selector.get(JOB_KEY, job_key(namespace, job)) != job_key(namespace, job):
        return Refusal(f"the pods insist on a {JOB_KEY} that is not that of the Job {namespace}/{job}"[:200])
    return None


def job_key(namespace: str, job: str) -> str:
    """As JobSet's controller has it: the SHA-1 of `namespace/job`."""
    return hashlib.sha1(f"{namespace}/{job}".encode(), usedforsecurity=False).hexdigest()
