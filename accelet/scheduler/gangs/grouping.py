"""Gated pods grouped into gangs, in rank order, with what they ask for as a whole."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter

from accelet.kube.objects import ObjectKey
from accelet.kube.pods import Pod
from accelet.runtime.excerpts import excerpt
from accelet.scheduler.cluster.shape import PodAsk, PodShape, asked_by, share_shapes
from accelet.scheduler.gangs.annotations import Said
from accelet.scheduler.gangs.levels import (
    EXCLUSIVE_LEVEL,
    POD_GROUP_TOPOLOGY,
    LevelName,
    read_exclusive_level,
)
from accelet.scheduler.gangs.placeholders import PLACEHOLDERS, is_placeholder
from accelet.scheduler.gangs.podgroups import POD_GROUP, PodGroupTerms
from accelet.scheduler.gangs.podsets import (
    WORKER_INDEX,
    PodSetTerms,
    TopologyTerms,
    name_pod_sets,
    read_topology,
)
from accelet.scheduler.gangs.rank import SPARK_ROLE, index_of, rank_of
from accelet.scheduler.gangs.rankslices import UNLIKE_SLICES, RankedPods, SliceTerms
from accelet.scheduler.gangs.withheld import (
    GROUP_SIZE,
    MOST_STAND_INS,
    FollowerToCome,
    OwnDomain,
    read_own_domains,
    stand_ins,
    waits_for_deletion,
)
from accelet.scheduler.gangs.workload import Workload

GATE_PREFIX = "gke.io/topology-aware-auto-"
CARDS_GATE = "accelet.dev/cards"
"""Also ours. A pod that has no other of ours waits for cards, by itself and not for the rest of a gang."""

EXCLUSIVE = "accelet.dev/exclusive"
GANG_SIZE = "accelet.dev/gang-size"
GANG_MIN = "accelet.dev/gang-min"
"""With how many pods a gang may begin where there is no room for all."""

_LEADER_WORKER = "leaderworkerset.sigs.k8s.io/name"
_KINDS = (
    ("jobset.sigs.k8s.io/jobset-name", "JobSet"),
    ("training.kubeflow.org/job-name", "Kubeflow"),
    (_LEADER_WORKER, "LeaderWorkerSet"),
    ("ray.io/cluster", "RayCluster"),
    ("sparkoperator.k8s.io/app-name", "SparkApplication"),
    ("batch.kubernetes.io/job-name", "Job"),
    ("job-name", "Job"),
)
"""Labels that name a pod's job, the widest first: pods of a JobSet and of Kubeflow may also be of a Job."""

_LEADER_WORKER_GROUP = "leaderworkerset.sigs.k8s.io/group-index"
_NAME = "name"
_ALONE = "pod"
_GATE = "gate"
"""Once its gate is lifted, nothing tells of which gang such a pod is."""

_KUBEFLOW_JOBS = dict.fromkeys(
    ("PyTorchJob", "TFJob", "MPIJob", "XGBoostJob", "PaddleJob", "JAXJob"), "Kubeflow"
)
_MAKERS_OF_ONE = frozenset(("Job", "JobSet", "Kubeflow"))
COUNTED_KINDS = frozenset(
    ("Job", "JobSet", "LeaderWorkerSet", "RayCluster", "SparkApplication", *_KUBEFLOW_JOBS)
)
"""Owners that say how many pods they make at one time."""


@dataclass(frozen=True, slots=True, order=True)
class GangKey:
    """What makes pods one gang; `kind` is a Kubernetes kind, or `label` or `gate`."""

    namespace: str
    name: str
    kind: str

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class Gang:
    """Gated pods to be placed together, in rank order, and their shapes.

    `members` are these and the gang's other live pods, in rank order; `size` is how many members there
    are to be in all, None if nobody says, and `least` with how many of them it may begin, None if with no
    fewer than all. It is to have a domain of `exclusive_level` to itself. `objection` is what forbids to plan
    it as it is, for people. `priority` is the highest of the gated pods, `created_s` when the first of the
    members came, `newest_s` when the last of the gated pods did. Once on nodes, the gated pods have ended
    after `runs_s` at the latest, infinite where nobody says so. On the `excluded` nodes one of its pods was
    refused. `pod_sets` are those of several that ask for a level or for slices of their own. Each of its
    `own_domains` is for some of its pods alone; among its pods are then stand-ins for those that are still to
    be made, once their leader has a node.
    """

    key: GangKey
    pods: tuple[Pod, ...]
    shapes: tuple[PodShape, ...]
    members: tuple[Pod, ...]
    size: int | None = None
    least: int | None = None
    required_level: LevelName | None = None
    preferred_level: LevelName | None = None
    exclusive_level: LevelName | None = None
    is_exclusive: bool = False
    slices: SliceTerms | None = None
    pod_sets: tuple[PodSetTerms, ...] = ()
    own_domains: tuple[OwnDomain, ...] = ()
    objection: str | None = None
    priority: int = 0
    created_s: float = 0.0
    newest_s: float = 0.0
    runs_s: float = float("inf")
    excluded: frozenset[str] = frozenset()

    @property
    def is_alone(self) -> bool:
        """Whether it is to have a domain of the network to itself, or some of its pods are."""
        return self.exclusive_level is not None or bool(self.own_domains)

    @property
    def missing(self) -> int:
        """How many members are still to be created."""
        return max(0, (self.size or 0) - len(self.members))

    @property
    def lacking(self) -> int:
        """How many members are still to be created before it can be planned."""
        return self.missing if self.least is None else max(0, self.least - len(self.members))

    @property
    def fewest(self) -> int:
        """How many of the gated pods are to be placed at least."""
        return len(self.pods) if self.least is None else max(1, self.least - self._placed)

    @property
    def has_least(self) -> bool:
        """Whether as many of it are placed as it needs, so that the others are welcome, but not missed."""
        return self.least is not None and self._placed >= self.least

    @property
    def _placed(self) -> int:
        return len(self.members) - len(self.pods)

    @property
    def parts(self) -> Sequence[int]:
        """How many of the first gated pods may be placed without the others, slice by slice."""
        counts = range(self.fewest, len(self.pods) + 1)
        sliced = [one for one in (self.slices, *(one.slices for one in self.pod_sets)) if one is not None]
        if not sliced:
            return counts
        numbers = {key: (at, number) for at, one in enumerate(sliced) for key, number in one.of.items()}
        of = [*(numbers.get(pod.key, pod.key) for pod in self.pods), None]
        return [count for count in counts if of[count - 1] != of[count]]

    @property
    def least_part(self) -> "Gang":
        """The gang with no more gated pods than are to be placed at least."""
        return self.first(next(iter(self.parts), len(self.pods)))

    def first(self, count: int) -> "Gang":
        """The gang without its gated pods beyond the first `count` in rank."""
        left_out = {pod.key for pod in self.pods[count:]}
        members = tuple(pod for pod in self.members if pod.key not in left_out)
        return replace(self, pods=self.pods[:count], shapes=self.shapes[:count], members=members)

    @property
    def is_counted(self) -> bool:
        """Whether there is an owner that says, or will once it is seen, how many members there are to be."""
        return self.size is not None or any(
            owner.kind in COUNTED_KINDS for pod in self.pods for owner in pod.owners
        )

    @property
    def is_begun(self) -> bool:
        """Whether pods of it are placed already, so that those that are not are a repair."""
        return len(self.members) > len(self.pods) and any(member.node_name for member in self.members)


def is_gated(pod: Pod, prefix: str = GATE_PREFIX) -> bool:
    """Whether one of the pod's gates is ours to lift."""
    return pod.deleted_s is None and any(is_ours(gate, prefix) for gate in pod.gates)


def is_ours(gate: str, prefix: str = GATE_PREFIX) -> bool:
    """Whether a gate is ours to lift."""
    return gate == CARDS_GATE or gate.startswith(prefix)


def find_gangs(
    pods: Iterable[Pod],
    workloads: Iterable[Workload] = (),
    prefix: str = GATE_PREFIX,
    asked: Callable[[Pod], PodAsk] = asked_by,
) -> list[Gang]:
    """The gangs that have gated pods, in the order in which they are to be planned.

    `asked` says what a pod asks for.
    """
    members: defaultdict[GangKey, list[Pod]] = defaultdict(list)
    for pod in pods:
        members[gang_key(pod, prefix)].append(pod)
    owners = Owners(workloads)
    gangs = (make_gang(key, found, owners, prefix, asked) for key, found in members.items())
    return in_order(gang for gang in gangs if gang is not None)


def in_order(gangs: Iterable[Gang]) -> list[Gang]:
    """By priority; then those of which pods are placed and wait for their peers; then age."""
    return sorted(
        gangs,
        key=lambda gang: (-gang.priority, not gang.is_begun or gang.has_least, gang.created_s, gang.key),
    )


def gang_key(pod: Pod, prefix: str = GATE_PREFIX) -> GangKey:
    """Which gang a pod is of.

    Its PodGroup, its JobSet, Kubeflow job, LeaderWorkerSet group or Job by label, else its owner, else its
    label `name`, else its gate. A pod that waits for cards alone is a gang of its own.
    """
    if is_placeholder(pod):
        return GangKey(pod.namespace, pod.owners[0].name, PLACEHOLDERS)
    if pod.pod_group:
        return GangKey(pod.namespace, pod.pod_group, POD_GROUP)
    return _ungrouped_key(pod, prefix)


def gang_of_owner(namespace: str, kind: str, name: str) -> GangKey | None:
    """The gang that all pods are that this owner will make; None where they may be several, or of another."""
    known = _KUBEFLOW_JOBS.get(kind, kind)
    return GangKey(namespace, name, known) if known in _MAKERS_OF_ONE else None


def will_be_of(gang: GangKey, template: Pod, prefix: str = GATE_PREFIX) -> bool:
    """Whether the pods that a gang's owner makes so will be that gang: their labels may name another."""
    own = {label: gang.name for label, kind in _KINDS if kind == gang.kind}
    return gang_key(replace(template, labels={**template.labels, **own}), prefix) == gang


def _ungrouped_key(pod: Pod, prefix: str) -> GangKey:
    labels, namespace = pod.labels, pod.namespace
    if CARDS_GATE in pod.gates and not any(gate.startswith(prefix) for gate in pod.gates):
        return GangKey(namespace, pod.name, _ALONE)
    for label, kind in _KINDS:
        name = labels.get(label)
        if name:
            group = f"-{labels.get(_LEADER_WORKER_GROUP, '0')}" if label == _LEADER_WORKER else ""
            return GangKey(namespace, name + group, kind)
    for owner in sorted(pod.owners, key=lambda owner: not owner.is_controller):
        # Whoever makes pods may name any owner, but not one of whose gang are pods that are still to come.
        if owner.kind != PLACEHOLDERS:
            return GangKey(namespace, owner.name, owner.kind)
    if labels.get(_NAME):
        return GangKey(namespace, labels[_NAME], "label")
    for gate in pod.gates:
        if gate.startswith(prefix):
            return GangKey(namespace, gate.removeprefix(prefix) or gate, _GATE)
    return GangKey(namespace, pod.name, _ALONE)


class Owners:
    """Finds the object that says how many pods a gang has."""

    def __init__(self, workloads: Iterable[Workload] = ()) -> None:
        self._by_kind: dict[GangKey, Workload] = {}
        self._suspended: set[GangKey] = set()
        for workload in workloads:
            self.put(workload)

    def put(self, workload: Workload) -> GangKey | None:
        """Under which key it is news; None if it is none."""
        key = self._key(workload.kind, workload.namespace, workload.name)
        known = self._by_kind.get(key)
        self._by_kind[key] = workload
        if workload.job_terms is not None and workload.job_terms.is_suspended_by_us:
            self._suspended.add(key)
        else:
            self._suspended.discard(key)
        return key if known != workload else None

    def get(self, kind: str, namespace: str, name: str) -> Workload | None:
        return self._by_kind.get(self._key(kind, namespace, name))

    def job_of(self, pod: Pod) -> Workload | None:
        """The Job that makes this pod, itself or for a JobSet."""
        owner = next((owner for owner in pod.owners if owner.is_controller and owner.kind == "Job"), None)
        return self.get("Job", pod.namespace, owner.name) if owner else None

    def has_no_use_for(self, gang: GangKey, pod: Pod) -> bool:
        """Whether the index of a pod is beyond those that its Job, or the gang's owner, has by now.

        Its controller removes such a pod a moment later: of an elastic Job that was made smaller, say.
        """
        found = index_of(pod)
        if found is None:
            return False
        group, index = found
        job = self.job_of(pod)
        if job is not None and "" in job.indexes:
            return index >= job.indexes[""]
        owner = self.maker_of_all(gang, pod)
        return owner is not None and index >= owner.indexes.get(group, index + 1)

    def suspended(self) -> Sequence[Workload]:
        """The Jobs that we have suspended."""
        return [self._by_kind[key] for key in self._suspended]

    def remove(self, kind: str, namespace: str, name: str) -> GangKey:
        key = self._key(kind, namespace, name)
        self._by_kind.pop(key, None)
        self._suspended.discard(key)
        return key

    def find(self, gang: GangKey, member: Pod) -> Workload | None:
        return self._by_kind.get(owner_keys(gang, member)[0])

    def maker_of_all(self, gang: GangKey, member: Pod) -> Workload | None:
        """The object that makes the gang's pods: of a PodGroup's, what they would be a gang of without it."""
        return self._by_kind.get(owner_keys(gang, member)[1 if gang.kind == POD_GROUP else 0])

    def maker_of(self, pod: Pod) -> Workload | None:
        """The object that makes a pod of a PodGroup: its Job, or what it would be a gang of without it."""
        return self.job_of(pod) or self.maker_of_all(gang_key(pod), pod)

    def _key(self, kind: str, namespace: str, name: str) -> GangKey:
        # Kubeflow labels pods with the name of their job, but not with its kind.
        return GangKey(namespace, name, _KUBEFLOW_JOBS.get(kind, kind))


def owner_keys(gang: GangKey, member: Pod) -> tuple[GangKey, ...]:
    """The keys of the objects that say something of the gang of this pod, first that of the whole gang.

    Of a PodGroup's pods these are the group, what they would be a gang of without it, which may be larger,
    and their Job.
    """
    if gang.kind == POD_GROUP:
        own = _ungrouped_key(member, GATE_PREFIX)
        jobs = (GangKey(gang.namespace, one.name, one.kind) for one in member.owners if one.is_controller)
        return (gang, *owner_keys(own, member), *jobs)
    if gang.kind == "LeaderWorkerSet":
        return (GangKey(gang.namespace, member.labels.get(_LEADER_WORKER, ""), gang.kind),)
    return (gang,)


def make_gang(
    key: GangKey,
    pods: Iterable[Pod],
    owners: Owners,
    prefix: str = GATE_PREFIX,
    asked: Callable[[Pod], PodAsk] = asked_by,
) -> Gang | None:
    """The gang of these pods, all of `key`; None if none of them is gated.

    `asked` says what a pod asks for: who makes gangs anew all the time need not work it out each time.
    """
    there = (pod for pod in pods if not pod.is_terminal and pod.deleted_s is None)
    members = [pod for pod in there if not owners.has_no_use_for(key, pod)]
    if not any(is_gated(pod, prefix) for pod in members):
        return None
    workload = owners.maker_of_all(key, members[0])
    groups = workload.groups if workload else ()
    stale = waits_for_deletion(key.kind, members)
    members = [pod for pod in members if pod.key not in stale]
    done_of_jobs = _done_of_jobs(key, members, owners)
    to_come = stand_ins(key.kind, members, workload, done_of_jobs)
    ranked = _in_rank_order(members, to_come, groups)
    gated = tuple(pod for pod in ranked if is_gated(pod, prefix))
    said = Said(gated)
    if len(to_come) == MOST_STAND_INS:
        said.object_to(
            f"{MOST_STAND_INS:,} of its pods or more are made once others have nodes: fewer may be"
        )
    size, done = _size(key, members, owners, said, sum(done_of_jobs.values()))
    whole = None if size is None else size + done
    least = said.number(GANG_MIN)
    if least is not None and whole is not None and least > whole:
        said.object_to(f"{GANG_MIN} is {least}, but the gang has {whole} pods")
    topology = read_topology(
        said, RankedPods(ranked, groups, whole or len(ranked), done), gated, _pod_sets(key, ranked, workload)
    )
    required = topology.required
    if key.kind == POD_GROUP:
        terms = _terms_of_group(owners.find(key, members[0]), whole, required, said)
        least = _still_needed(max(least or 0, terms.least or 0) or None, size)
        least = None if least == size else least
        required = LevelName(POD_GROUP_TOPOLOGY, terms.topology) if terms.topology else required
    exclusive_level = read_exclusive_level(said, gated)
    if exclusive_level is not None and key.kind == _GATE:
        said.object_to(f"{EXCLUSIVE_LEVEL} is for pods that an owner or a label makes a gang, not a gate")
    slices = topology.slices
    if slices is not None and least is not None:
        least = -(-least // slices.size) * slices.size
    # Where all take the same port of their node, no two of them can share one, as kube-scheduler judges it.
    is_exclusive = said.truth(EXCLUSIVE) or bool(frozenset.intersection(*(pod.host_ports for pod in ranked)))
    _check_foreign_gates(gated, prefix, said)
    own_domains = read_own_domains(key.kind, ranked)
    _check_own_domains(own_domains, topology, least, said)
    wanted = _asked_by_all(gated, to_come, asked, said)
    if slices is not None and len({one.shape for one in wanted}) > 1:
        said.object_to(UNLIKE_SLICES)
    if key.kind != _ALONE:
        _check_claims(gated, said)
    return Gang(
        key=key,
        pods=gated,
        shapes=share_shapes(one.shape for one in wanted),
        members=tuple(ranked),
        size=size,
        least=_still_needed(least, size),
        required_level=required,
        preferred_level=topology.preferred,
        exclusive_level=exclusive_level,
        slices=slices,
        pod_sets=topology.pod_sets,
        own_domains=own_domains,
        is_exclusive=is_exclusive,
        objection=said.objection,
        priority=max(pod.priority for pod in gated),
        created_s=min(pod.created_s for pod in ranked),
        newest_s=max(pod.created_s for pod in gated),
        runs_s=max(_runs_s(pod, workload) for pod in gated),
    )


def _in_rank_order(
    members: Sequence[Pod], to_come: Sequence[FollowerToCome], groups: Sequence[str]
) -> list[Pod]:
    """The pods of a gang by rank; one that is to come has its leader's but for its index."""
    ranks = [(rank_of(pod, groups), pod) for pod in members]
    of_leader = {id(one.leader): rank_of(one.leader, groups) for one in to_come}
    for one in to_come:
        order, group, job, kind, prefix, *_ = of_leader[id(one.leader)]
        ranks.append(((order, group, job, kind, prefix, one.index, one.pod.name), one.pod))
    return [pod for _, pod in sorted(ranks, key=itemgetter(0))]


def _done_of_jobs(key: GangKey, members: Sequence[Pod], owners: Owners) -> Mapping[str, int]:
    """By Job of a JobSet that still runs, how many of its pods are not needed any more."""
    if key.kind != "JobSet":
        return {}
    jobs = {job.name: job for pod in members if (job := owners.job_of(pod)) is not None}
    return {name: job.done for name, job in jobs.items() if job.size and job.done}


def _check_own_domains(
    own_domains: Sequence[OwnDomain], topology: TopologyTerms, least: int | None, said: Said
) -> None:
    """Domains for some pods alone go with levels of the whole gang, and with nothing else."""
    if not own_domains:
        return
    annotation, labels = own_domains[0].annotation, sorted({own.label for own in own_domains})
    if len(labels) > 1:
        named = f"{excerpt(labels[0])} and {excerpt(labels[1])}"
        said.object_to(f"{annotation} is {named}: the pods of a gang may name one label")
    if least is not None:
        said.object_to(f"{annotation} and a gang that begins with fewer pods ({GANG_MIN}): one may be")
    if topology.slices is not None or topology.pod_sets:
        said.object_to(f"{annotation} and slices, or levels of pod sets, are both given: one may be")


def _asked_by_all(
    gated: Sequence[Pod], to_come: Sequence[FollowerToCome], asked: Callable[[Pod], PodAsk], said: Said
) -> Sequence[PodAsk]:
    """What each gated pod asks for; what several that are to come are like is asked once."""
    like = {one.pod.key: one.like for one in to_come}
    known = {id(one): asked(one) for one in {id(one): one for one in like.values()}.values()}
    wanted = [known[id(like[pod.key])] if pod.key in like else asked(pod) for pod in gated]
    for one in wanted:
        if one.problem is not None:
            said.object_to(one.problem)
    return wanted


def _pod_sets(key: GangKey, members: Sequence[Pod], workload: Workload | None) -> Mapping[ObjectKey, str]:
    """The name of each member's pod set; of a PodGroup's, with that of the job it would be of without it."""
    names = name_pod_sets(members, key.kind, workload.groups if workload else None)
    if key.kind != POD_GROUP:
        return names
    return {pod.key: f"{_ungrouped_key(pod, GATE_PREFIX).name}/{names[pod.key]}" for pod in members}


def _still_needed(least: int | None, size: int | None) -> int | None:
    """With how many it may begin: where others are done, with no more than are still to run."""
    return least if least is None or size is None else min(least, max(1, size))


def _size(
    key: GangKey, members: Sequence[Pod], owners: Owners, said: Said, done_of_jobs: int
) -> tuple[int | None, int]:
    """How many pods the gang has in all, None if nobody says, and how many more are done.

    A JobSet counts all pods of a Job that still runs, of which some may be done.
    """
    size = 1 if key.kind == _ALONE else said.number(GANG_SIZE)
    if size is None and key.kind == POD_GROUP:
        return _size_of_group(members, owners)
    workload = owners.find(key, members[0])
    if size is None and workload is not None and workload.is_leader_first:
        size = None if any(map(_is_ready_leader, members)) else 1
    if size is None and key.kind == "LeaderWorkerSet":
        size = said.number(GROUP_SIZE)
    if size is None and workload is not None:
        return workload.size - done_of_jobs, workload.done + done_of_jobs
    return size, 0


def _size_of_group(members: Sequence[Pod], owners: Owners) -> tuple[int | None, int]:
    """How many pods the makers of a PodGroup's pods make, None where one is not known; how many are done."""
    makers: dict[GangKey, Workload] = {}
    for pod in members:
        maker = owners.maker_of(pod)
        if maker is None:
            return None, 0
        makers[GangKey(maker.namespace, maker.name, maker.kind)] = maker
    return sum(maker.size for maker in makers.values()), sum(maker.done for maker in makers.values())


def _terms_of_group(
    group: Workload | None, whole: int | None, required: LevelName | None, said: Said
) -> PodGroupTerms:
    """What a PodGroup says of its gang: kube-scheduler binds none before `minCount` have a place."""
    terms = group.pod_group if group else None
    if terms is None:
        said.object_to("its PodGroup is not there, or may not be read")
        return PodGroupTerms()
    if terms.objection is not None:
        said.object_to(terms.objection)
    if terms.topology is not None and required is not None:
        said.object_to(f"both {required.annotation} and its PodGroup name a required level: one may")
    if terms.least is not None and whole is not None and terms.least > whole:
        said.object_to(f"minCount of its PodGroup is {terms.least}, but the gang has {whole} pods")
    return terms


def _runs_s(pod: Pod, workload: Workload | None) -> float:
    """How long it can be on a node. Its Job's deadline counts from before, so that it ends no later."""
    deadlines_s = (pod.deadline_s, workload.deadline_s if workload else None)
    return min((float(s) for s in deadlines_s if s is not None), default=float("inf")) + pod.ending_s


def _is_ready_leader(pod: Pod) -> bool:
    """Whether it leads a LeaderWorkerSet's group, or is a Spark driver, and ready, so that others come."""
    is_ready = any(condition.type == "Ready" and condition.status == "True" for condition in pod.conditions)
    return is_ready and (pod.labels.get(WORKER_INDEX) == "0" or pod.labels.get(SPARK_ROLE) == "driver")


def _check_foreign_gates(pods: Iterable[Pod], prefix: str, said: Said) -> None:
    for pod in pods:
        for gate in pod.gates:
            if not is_ours(gate, prefix):
                said.object_to(f"pod {pod.name} is also held by the gate {gate}")


def _check_claims(pods: Iterable[Pod], said: Said) -> None:
    for pod in pods:
        if pod.has_resource_claims:
            said.object_to(
                f"pod {pod.name} has resource claims, for which kube-scheduler alone finds devices: "
                "gangs with claims are not placed"
            )
