"""Kubernetes' own PodGroups (scheduling.k8s.io): what they say of the gang that their pods are.

v1alpha2 is that of Kubernetes 1.36, v1beta1 that of 1.37; what is read here has the same form in both.
"""

from dataclasses import dataclass

from accelet.kube.objects import Wire
from accelet.runtime.excerpts import excerpt

POD_GROUP = "PodGroup"


class _WireGang(Wire, frozen=True):
    min_count: int | None = None


class WireSchedulingPolicy(Wire, frozen=True):
    gang: _WireGang | None = None


class _WireTopology(Wire, frozen=True):
    key: str


class WireConstraints(Wire, frozen=True):
    topology: list[_WireTopology] | None = None


@dataclass(frozen=True, slots=True)
class PodGroupTerms:
    """With how many pods it may begin (None: kube-scheduler takes each by itself), and what they share.

    `topology` is the label of nodes of which they must share one value. `objection` is why it cannot be
    planned, for people.
    """

    least: int | None = None
    topology: str | None = None
    objection: str | None = None


def pod_group_terms(
    name: str, policy: WireSchedulingPolicy | None, constraints: WireConstraints | None, parent: str | None
) -> PodGroupTerms:
    gang = policy.gang if policy else None
    keys = [one.key for one in (constraints.topology if constraints else None) or ()]
    objection = None
    if parent:
        objection = (
            f"its PodGroup {name} is part of the CompositePodGroup {excerpt(parent)}: "
            "groups of groups are not placed"
        )
    elif len(keys) > 1:
        objection = f"its PodGroup {name} has {len(keys)} topology constraints: one is served"
    return PodGroupTerms(gang.min_count if gang else None, keys[0] if keys else None, objection)
