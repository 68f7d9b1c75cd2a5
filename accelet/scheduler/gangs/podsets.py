"""Pod sets of a gang, as Kueue counts them, and which level of the network each of them asks for."""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from accelet.kube.objects import ObjectKey
from accelet.kube.pods import Pod
from accelet.runtime.excerpts import excerpt
from accelet.scheduler.gangs.annotations import Said
from accelet.scheduler.gangs.levels import (
    KUEUE_GROUP,
    KUEUE_PREFERRED,
    KUEUE_REQUIRED,
    PREFERRED_LEVEL,
    REQUIRED_LEVEL,
    LevelName,
    read_level,
    read_preferred_level,
    read_required_level,
)
from accelet.scheduler.gangs.placeholders import POD_SET, is_placeholder
from accelet.scheduler.gangs.rank import JOBSET_GROUP, KUBEFLOW_GROUPS, RAY_GROUP, SPARK_ROLE, rank_of
from accelet.scheduler.gangs.rankslices import (
    RankedPods,
    SliceTerms,
    read_kueues_slices,
    read_our_slices,
    read_slices,
    says_our_slices,
)

WORKER_INDEX = "leaderworkerset.sigs.k8s.io/worker-index"
LEADER, WORKER = "leader", "worker"
_ROLE = "kueue.x-k8s.io/role-hash"
"""What Kueue tells the pod sets of a group of plain pods by."""

_MAIN = "main"
_MOST_GROUPED = 2
_LONGEST_NAME = 63
_KUEUE = "kueue.x-k8s.io/podset-"


@dataclass(frozen=True, slots=True)
class PodSetTerms:
    """What one pod set of several asks for; or two of one `podset-group-name`, which share a domain.

    All of its pods are to be in one domain of the level `required`, and had best be in one of `preferred`,
    each of its slices in one of theirs. `members` are its live pods; `title` names it for people.
    """

    title: str
    members: frozenset[ObjectKey]
    required: LevelName | None = None
    preferred: LevelName | None = None
    slices: SliceTerms | None = None

    @property
    def is_bound(self) -> bool:
        return self.required is not None or self.preferred is not None or self.slices is not None


@dataclass(frozen=True, slots=True)
class TopologyTerms:
    """What the pods of a gang say of levels: of all of it, and of each pod set where there are several."""

    required: LevelName | None = None
    preferred: LevelName | None = None
    slices: SliceTerms | None = None
    pod_sets: tuple[PodSetTerms, ...] = ()


def read_topology(
    said: Said, ranked: RankedPods, gated: Collection[Pod], names: Mapping[ObjectKey, str]
) -> TopologyTerms:
    """What pods in rank order say, of which these are `gated`, given the name of each one's pod set.

    Our annotations are for the whole gang, Kueue's for the pod set that has them. Where ours say something
    of a matter, Kueue's say nothing of it.
    """
    if len(set(names.values())) < 2:
        required, preferred = read_required_level(said), read_preferred_level(said)
        return TopologyTerms(required, preferred, read_slices(said, ranked))
    required, preferred = read_level(said, REQUIRED_LEVEL), read_level(said, PREFERRED_LEVEL)
    is_sliced = says_our_slices(said)
    slices = read_our_slices(said, ranked) if is_sliced else None
    members: defaultdict[str, list[Pod]] = defaultdict(list)
    for pod in ranked.pods:
        members[names[pod.key]].append(pod)
    waiting = {pod.key for pod in gated}
    is_complete = not ranked.done and (ranked.whole or 0) <= len(ranked.pods)
    sets: list[tuple[PodSetTerms, str | None]] = []
    for name, pods in members.items():
        own = [pod for pod in pods if pod.key in waiting]
        title = f"pod set {name}"
        of_set = Said(own or pods, title)
        # Of workers beside a leader that has an index too, the first has index 1.
        first = rank_of(pods[0])[5] if is_complete else int(name == WORKER and WORKER_INDEX in pods[0].labels)
        some = RankedPods(pods, ranked.groups, len(pods) if is_complete else None, ranked.done, first)
        terms = PodSetTerms(
            title,
            frozenset(pod.key for pod in pods),
            None if required else read_level(of_set, KUEUE_REQUIRED),
            None if preferred else read_level(of_set, KUEUE_PREFERRED),
            None if is_sliced else read_kueues_slices(of_set, some),
        )
        group = of_set.one(KUEUE_GROUP)
        if own and of_set.objection is not None:
            said.object_to(of_set.objection)
        if terms.is_bound:
            sets.append((terms, group))
    return TopologyTerms(required, preferred, slices, _grouped(sets, said))


def _grouped(sets: Sequence[tuple[PodSetTerms, str | None]], said: Said) -> tuple[PodSetTerms, ...]:
    """The pod sets, those of one group as one."""
    found: list[PodSetTerms] = [terms for terms, group in sets if group is None]
    groups: defaultdict[str, list[PodSetTerms]] = defaultdict(list)
    for terms, group in sets:
        if group is not None:
            groups[group].append(terms)
    for group, members in groups.items():
        first = members[0]
        if len(members) > _MOST_GROUPED:
            said.object_to(f"{len(members)} pod sets are of {KUEUE_GROUP} {excerpt(group)}: two may be")
            continue
        title = "pod sets " + " and ".join(terms.title.removeprefix("pod set ") for terms in members)
        if any((terms.required, terms.preferred) != (first.required, first.preferred) for terms in members):
            said.object_to(f"{title} of {KUEUE_GROUP} {excerpt(group)} name different levels")
        if any(terms.slices is not None for terms in members):
            said.object_to(f"{title} have both {KUEUE_GROUP} and slices: one may")
        together = frozenset[ObjectKey]().union(*(terms.members for terms in members))
        found.append(
            PodSetTerms(title if len(members) > 1 else first.title, together, first.required, first.preferred)
        )
    return tuple(found)


def name_pod_sets(pods: Sequence[Pod], kind: str, groups: Sequence[str] | None) -> Mapping[ObjectKey, str]:
    """The name of each pod's set, as Kueue names it.

    A JobSet has one for each replicated Job, with all of its Jobs, a Kubeflow job, RayCluster or
    SparkApplication one for each kind of pods, a LeaderWorkerSet one for leaders if they have a template of
    their own. `groups` names the gang's kinds of pods as its owner does, None if that is not seen.
    """
    if kind == "LeaderWorkerSet":
        is_split = LEADER in groups if groups is not None else _are_told_apart(pods)
        return {pod.key: _place_in_group(pod) if is_split else _MAIN for pod in pods}
    return {pod.key: _name(pod) for pod in pods}


def _name(pod: Pod) -> str:
    if is_placeholder(pod):
        return pod.annotations.get(POD_SET, _MAIN)[:_LONGEST_NAME]
    for label in (JOBSET_GROUP, *KUBEFLOW_GROUPS, RAY_GROUP, SPARK_ROLE):
        if pod.labels.get(label):
            return pod.labels[label] if label == JOBSET_GROUP else pod.labels[label].lower()
    return pod.annotations.get(_ROLE, _MAIN)[:_LONGEST_NAME]


def _place_in_group(pod: Pod) -> str:
    return LEADER if pod.labels.get(WORKER_INDEX) == "0" else WORKER


def _are_told_apart(pods: Sequence[Pod]) -> bool:
    """Whether a leader says other things of levels than its workers: they are then of two templates."""
    said = {
        (
            _place_in_group(pod),
            frozenset(item for item in pod.annotations.items() if item[0].startswith(_KUEUE)),
        )
        for pod in pods
    }
    return len({texts for _, texts in said}) > 1
