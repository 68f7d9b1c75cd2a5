"""The pods that a Workload will have, made of its pod sets before they are there: pure."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from accelet.kube.objects import EMPTY, Owner
from accelet.kube.pods import Pod
from accelet.runtime.excerpts import excerpt
from accelet.scheduler.admission.kueue import WORKLOADS, KueueWorkload, ResourceFlavor
from accelet.scheduler.admission.podsets import PodSet
from accelet.scheduler.gangs.grouping import CARDS_GATE, GangKey, gang_of_owner, will_be_of
from accelet.scheduler.gangs.placeholders import PLACEHOLDERS, POD_SET, placeholder_name

MOST_PODS = 8_000
"""Of one Workload: more do not fit into one plan."""

_READ = ("accelet.dev/", "gas-", "kueue.x-k8s.io/")
"""What annotations begin with that say something to the planner, but for their order."""


@dataclass(frozen=True, slots=True)
class Placeholders:
    """Pods to be planned for a Workload, so many of each kind in rank order; `gang` is what they will be."""

    workload: KueueWorkload
    gang: GangKey
    kinds: tuple[tuple[int, Pod], ...]

    @property
    def key(self) -> GangKey:
        return placeholder_gang(self.workload)

    @property
    def count(self) -> int:
        return sum(count for count, _ in self.kinds)

    def pods(self) -> Iterator[Pod]:
        """The placeholders themselves, the lowest rank first."""
        rank = 0
        for count, pod in self.kinds:
            for _ in range(count):
                yield replace(pod, name=placeholder_name(self.workload.name, rank))
                rank += 1


@dataclass(frozen=True, slots=True)
class NotPlanned:
    """Why nothing is planned for a Workload before its pods are there: that does not keep it from running."""

    reason: str


@dataclass(frozen=True, slots=True)
class Unplannable:
    """Why there can be no plan as things are, for people."""

    reason: str


def placeholder_gang(workload: KueueWorkload) -> GangKey:
    return GangKey(workload.namespace, workload.name, PLACEHOLDERS)


def gang_to_come(workload: KueueWorkload) -> GangKey | None:
    """The gang that the pods of a Workload will be; None where that cannot be told before they are there."""
    owner = workload.owner
    return gang_of_owner(workload.namespace, owner.kind, owner.name) if owner else None


def make_placeholders(
    workload: KueueWorkload, sets: Sequence[PodSet], flavors: Mapping[str, ResourceFlavor], prefix: str
) -> Placeholders | NotPlanned | Unplannable:
    """What is to be planned for a Workload that has quota.

    Nothing where a pod has no gate of ours, one with `prefix`: kube-scheduler will bind it at once.
    """
    gang = gang_to_come(workload)
    wanted = [one for one in sets if one.count]
    if gang is None:
        kind = excerpt(workload.owner.kind) if workload.owner else "nothing known"
        return NotPlanned(f"it is made by {kind}: its pods are placed when they are there")
    if reason := _why_not_planned(gang, wanted, prefix):
        return NotPlanned(reason)
    count = sum(one.count for one in wanted)
    if count > MOST_PODS:
        return Unplannable(f"it has {count:,} pods; {MOST_PODS:,} fit into one plan")
    missing = [name for one in wanted for name in one.flavors if name not in flavors]
    if missing:
        return Unplannable(f"its ResourceFlavor {excerpt(missing[0])} is not there, or may not be read")
    kinds = (
        (one.count, _placeholder(workload, one, [flavors[name] for name in one.flavors])) for one in wanted
    )
    return Placeholders(workload, gang, tuple(kinds))


def _why_not_planned(gang: GangKey, wanted: Sequence[PodSet], prefix: str) -> str | None:
    if not wanted or not all(any(gate.startswith(prefix) for gate in one.pod.gates) for one in wanted):
        return f"not every pod of it has a gate of the scheduler's, {prefix}..."
    if any(one.is_assigned for one in wanted):
        return "Kueue's own topology-aware scheduling has chosen its nodes"
    if any(one.pod.pod_group for one in wanted):
        return "its pods are of a PodGroup: they are placed when they are there"
    if not all(will_be_of(gang, one.pod, prefix) for one in wanted):
        return "labels of its pods name another job than their own: they are placed when they are there"
    return None


def _placeholder(workload: KueueWorkload, one: PodSet, flavors: Sequence[ResourceFlavor]) -> Pod:
    """A pod of this set as Kueue will have it made, told apart by nothing but its rank.

    Labels could make it a pod of another gang, and an index in its annotations another rank.
    """
    owner = Owner(WORKLOADS.kind, workload.name, workload.uid, WORKLOADS.api_version, is_controller=True)
    selector = dict(one.pod.node_selector)
    for flavor in flavors:
        selector |= flavor.node_labels
    annotations = {name: text for name, text in one.pod.annotations.items() if name.startswith(_READ)}
    annotations[POD_SET] = one.name
    return replace(
        one.pod,
        uid=workload.uid,
        created_s=workload.reserved_s or 0.0,
        labels=EMPTY,
        annotations=annotations,
        owners=(owner,),
        node_name=None,
        gates=tuple(gate for gate in one.pod.gates if gate != CARDS_GATE),
        node_selector=selector,
        tolerations=(*one.pod.tolerations, *(each for flavor in flavors for each in flavor.tolerations)),
        # Others are made with the pods.
        volume_claims=tuple(claim for claim in one.pod.volume_claims if not claim.is_ephemeral),
    )
