"""What a Job makes of pods that it loses before they run, and whether it may be stopped and begun again.

The rules are those of batch/v1 in Kubernetes 1.36 (pkg/controller/job).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from accelet.kube.objects import Wire

MAY_SUSPEND = "accelet.dev/may-suspend"
"""On a Job: the scheduler may suspend and resume it, all of its pods, where one cannot be elsewhere."""

SUSPENDED = "accelet.dev/suspended"
"""On a Job that the scheduler has suspended, until it has resumed it."""

_KUEUE = "kueue.x-k8s.io/"
_QUEUE = f"{_KUEUE}queue-name"
_BACKOFF_LIMIT = 6
_DISRUPTED = (("DisruptionTarget", "True"), ("PodScheduled", "False"))
"""The conditions of a pod that is evicted before it was bound; it has no exit codes."""


class WirePattern(Wire, frozen=True):
    type: str
    status: str = "True"


class WireRule(Wire, frozen=True):
    action: str
    on_pod_conditions: list[WirePattern] | None = None


class WireFailurePolicy(Wire, frozen=True):
    rules: list[WireRule] | None = None


@dataclass(frozen=True, slots=True)
class JobTerms:
    """On what terms a Job loses pods.

    An evicted pod costs it nothing if it `forgives_disruption`, else one of `retries_left` (or, of each
    index, of `retries_each`). We `may_suspend` it if its owner says so; once it `is_suspended_by_us`,
    `pods_left` of its pods have still to end.
    """

    forgives_disruption: bool = False
    retries_left: int = _BACKOFF_LIMIT
    retries_each: int | None = None
    may_suspend: bool = False
    is_suspended_by_us: bool = False
    pods_left: int = 0


def forgives_disruption(policy: WireFailurePolicy | None) -> bool:
    """Whether the first rule that an evicted pod meets says that it does not count."""
    for rule in (policy.rules or ()) if policy else ():
        if any((one.type, one.status) in _DISRUPTED for one in rule.on_pod_conditions or ()):
            return rule.action == "Ignore"
    return False


def retries_left(limit: int | None, failed: int | None) -> int:
    return max(0, (_BACKOFF_LIMIT if limit is None else limit) - (failed or 0))


def is_queued(labels: Mapping[str, str]) -> bool:
    """Whether Kueue admits an object of these labels, or has made it of one that it admits."""
    return any(label.startswith(_KUEUE) for label in labels)


def may_suspend(
    annotations: Mapping[str, str], labels: Mapping[str, str], owner_kinds: Sequence[str]
) -> bool:
    """Who is suspended by an owner or by Kueue is theirs to resume."""
    return annotations.get(MAY_SUSPEND) == "true" and _QUEUE not in labels and not owner_kinds
