"""One pool as it is to be made: what every provider makes its own request of."""

import hashlib
import re
import string
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from accelet.kube.objects import no_labels
from accelet.kube.selection import Taint
from accelet.provisioner.pools.machines import Machines
from accelet.provisioner.pools.tiers import FLEX_START, SPOT_TAINT, Attempt

REQUEST_LABEL: Final = "accelet.dev/slice-request"
"""Whose pool it is: the UID of a SliceRequest. A pool without it is never touched."""

FINGERPRINT_LABEL: Final = "accelet.dev/slice-fingerprint"
CLUSTER_LABEL: Final = "accelet.dev/cluster"
"""Whose provisioner made it: two clusters in one project leave each other's pools alone."""

NOT_READY: Final = Taint("accelet.dev/slice-not-ready", "NoSchedule", "true")
"""On every node from its start until the whole set is there, and again before it is given back."""

NOT_READY_TO_FILL: Final = Taint(
    "startup-taint.cluster-autoscaler.kubernetes.io/accelet-slice-not-ready", "NoSchedule", "true"
)
"""The same on nodes that an autoscaler makes for pods that wait for them.

It takes no notice of a taint with this prefix when it judges whether the pods would fit (Cluster Autoscaler,
FAQ, "startup taints").
"""

KEEPING_OUT: Final = frozenset((NOT_READY.key, NOT_READY_TO_FILL.key))
"""The keys of the taints that keep pods from a slice that is not ready."""

_DIGITS: Final = string.digits + string.ascii_lowercase
_NAME_PART: Final = 20
_NOT_IN_BILLS: Final = re.compile(r"[^a-z0-9_-]")
_LONGEST_BILLED: Final = 63


@dataclass(frozen=True, slots=True)
class PoolPlan:
    """A pool to be made, by its provider-independent facts.

    `mark` is the UID of its SliceRequest, `cluster` that of ours, empty where none is known. `labels` are
    put on the nodes beside the marks. `placement_policy` is the workload policy's name where the machines
    need one. `slice_class` names settings an administrator gave, None for the general ones; `given` is what
    these are, as far as they are not the defaults. `billing` are labels for the bill, which say for whom it
    was made: they are no part of what a pool is. `selected` are labels by which pods find the nodes of their
    Job; only nodes that are made for pods which wait for them have these from the start. `has_spot_taint`:
    spot machines have the taint of spot, as the pods tolerate it. GKE itself only labels them.
    """

    name: str
    mark: str
    cluster: str
    machines: Machines
    attempt: Attempt
    labels: Mapping[str, str] = field(default_factory=no_labels)
    placement_policy: str | None = None
    slice_class: str | None = None
    given: str = ""
    billing: Mapping[str, str] = field(default_factory=no_labels)
    selected: Mapping[str, str] = field(default_factory=no_labels)
    has_spot_taint: bool = True

    @property
    def fingerprint(self) -> str:
        """Twelve hex digits, the same for pools of the same hardware with the same labels."""
        machines = self.machines
        parts = [
            *(machines.accelerator, machines.topology, machines.machine_type, str(machines.hosts)),
            *(self.slice_class or "", self.placement_policy or ""),
            *(f"{key}={value}" for key, value in sorted(self.labels.items())),
            *([self.given] if self.given else []),
            *([] if self.has_spot_taint else ["no spot taint"]),
        ]
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:12]

    @property
    def all_labels(self) -> Mapping[str, str]:
        """The labels of the pool's nodes, with the marks by which the pool is known again."""
        marks = {REQUEST_LABEL: self.mark, FINGERPRINT_LABEL: self.fingerprint}
        selected = self.selected if self.is_filled_later else no_labels()
        cluster = {CLUSTER_LABEL: self.cluster} if self.cluster else {}
        return {**self.labels, **selected, **marks, **cluster}

    @property
    def is_filled_later(self) -> bool:
        """Whether the pool begins without machines, which an autoscaler makes for pods that wait for them."""
        return self.attempt.tier == FLEX_START

    @property
    def taints(self) -> tuple[Taint, ...]:
        is_spot = self.attempt.tier.kind == "spot" and self.has_spot_taint
        spot = (Taint(SPOT_TAINT, "NoSchedule", "true"),) if is_spot else ()
        return (NOT_READY_TO_FILL if self.is_filled_later else NOT_READY, *spot)


def billing_labels(namespace: str, kind: str, name: str) -> Mapping[str, str]:
    """For whom a pool is made, as labels of Compute Engine: values of at most 63 of [a-z0-9_-]."""
    said = {"accelet-namespace": namespace, "accelet-owner-kind": kind, "accelet-owner": name}
    return {
        key: _NOT_IN_BILLS.sub("-", value.lower())[:_LONGEST_BILLED] for key, value in said.items() if value
    }


def pool_name(request: str, uid: str, attempt: int) -> str:
    """The pool's name of one attempt, at most 40 characters of [a-z0-9-]: the same each time it is asked."""
    part = request.lower().replace(".", "-")[:_NAME_PART].rstrip("-")
    digest = hashlib.sha256(uid.encode()).hexdigest()[:8]
    return f"s-{part}-{digest}-{_base36(attempt)}"


def _base36(number: int) -> str:
    text = ""
    while number:
        number, digit = divmod(number, 36)
        text = _DIGITS[digit] + text
    return text or "0"
