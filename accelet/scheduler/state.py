"""What the scheduler knows of the cluster: kept up with events, asked when there is something to decide."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from accelet.assignments.ownform import ASSIGNMENT_ANNOTATION
from accelet.kube.nodes import Node
from accelet.kube.objects import ObjectKey
from accelet.kube.pods import Pod
from accelet.kube.watching.store import precedes
from accelet.scheduler.cards.lingering import LingeringPod, lingering_key, split_key
from accelet.scheduler.cards.needs import CARD_RESOURCES
from accelet.scheduler.cards.search import CardPolicy
from accelet.scheduler.cluster.cluster import Cluster
from accelet.scheduler.cluster.reach import Volumes
from accelet.scheduler.cluster.shape import PodAsk, PodShape, asked_by
from accelet.scheduler.cluster.topology import Scheme
from accelet.scheduler.cluster.volumes import Volume, VolumeClaim, VolumeClass
from accelet.scheduler.errors import VolumeAwaitedError
from accelet.scheduler.gangs.exclusions import Exclusions
from accelet.scheduler.gangs.exclusive import occupant_of
from accelet.scheduler.gangs.grouping import (
    Gang,
    GangKey,
    Owners,
    gang_key,
    in_order,
    is_gated,
    make_gang,
    owner_keys,
)
from accelet.scheduler.gangs.jobs import JobTerms
from accelet.scheduler.gangs.noting import is_noted_only
from accelet.scheduler.gangs.workload import Workload
from accelet.scheduler.record import Placement, Record
from accelet.scheduler.release import Steps, next_steps, released_to

KILLED_WITHIN_S = 10.0
"""How long the kubelet is given, beyond a grace period that has begun, to kill a pod deleted by force.

A kubelet 1.36 took 2 to 3 s.
"""


_PODS_AT_ONCE = 200
"""So many pods of gangs that have changed are looked at in some 10 ms."""


_PLACED_AS_ONE = 10
"""To see that so many pods have a place takes as long as to look at one."""

TOLD_WITHIN_S = 120.0
"""How long the agent of a node that is well may take to tell of devices whose pod the API server has not.

It remembers such pods for 60 s as if they were there, and counts what they hold as unassigned then.
"""

_NOT_YET = float("inf")


@dataclass(frozen=True, slots=True)
class _Lingering:
    """A pod deleted by force: its node, when it must have ended, and when its node would have told of it.

    `told_s` is `_NOT_YET` from when its node was away until somebody asks while it is well.
    """

    node: str
    until_s: float
    told_s: float


class SchedulerState:
    """Nodes, pods, owners and plans. No I/O and no clock; what is older than what is known is ignored."""

    def __init__(
        self,
        scheme: Scheme,
        prefix: str,
        card_resources: Sequence[str] = CARD_RESOURCES,
        card_policy: CardPolicy = "packed",
    ) -> None:
        self.prefix = prefix
        self._card_resources = tuple(card_resources)
        self.cluster = Cluster(
            scheme,
            card_resources=card_resources,
            card_policy=card_policy,
            occupant_of=lambda pod: occupant_of(pod, prefix),
        )
        self.pods: dict[ObjectKey, Pod] = {}
        self.records: dict[tuple[str, str], Record] = {}
        self._members: defaultdict[GangKey, set[ObjectKey]] = defaultdict(set)
        self._gated: defaultdict[GangKey, set[ObjectKey]] = defaultdict(set)
        self._planned: dict[ObjectKey, tuple[Placement, Record]] = {}
        self._owners = Owners()
        self._asked: dict[ObjectKey, PodAsk] = {}
        self._volumes = Volumes()
        self._using: defaultdict[ObjectKey, set[ObjectKey]] = defaultdict(set)
        self._changed_claims: set[ObjectKey] = set()
        self._gangs: dict[GangKey, Gang | None] = {}
        self._owned: defaultdict[GangKey, set[GangKey]] = defaultdict(set)
        self._owners_of: defaultdict[GangKey, set[GangKey]] = defaultdict(set)
        self._exclusions = Exclusions()
        self._assumed: dict[ObjectKey, Record] = {}
        self._planned_on: defaultdict[str, set[ObjectKey]] = defaultdict(set)
        self._lingering: dict[ObjectKey, _Lingering] = {}
        self.moving: frozenset[str] = frozenset()
        """The UIDs of pods for whose successors places are held, and who are nobody's victims."""

    def set_node(self, node: Node) -> bool:
        """Whether anything has changed that planning looks at."""
        before = self.cluster.node(node.name)
        if before is None or not (before.is_ready and node.is_ready):
            self._await_news_of(node.name)
        return self.cluster.set_node(node)

    def remove_node(self, name: str) -> None:
        self.cluster.remove_node(name)

    def _await_news_of(self, node: str) -> None:
        """A node is or was away: its agent has yet to tell of the pods there that were deleted by force."""
        for key, known in self._lingering.items():
            if known.node == node:
                self._lingering[key] = replace(known, told_s=_NOT_YET)

    def set_workload(self, workload: Workload) -> None:
        """Only the gangs of this owner are made anew."""
        before = self._owners.get(workload.kind, workload.namespace, workload.name)
        key = self._owners.put(workload)
        if key is None:
            return
        self._forget_gangs_of(key)
        if workload.ends_by_s != (before.ends_by_s if before else None):
            for pod in [pod for gang in self._owned.get(key, ()) for pod in self._members[gang]]:
                self._charge(self.pods[pod])

    def renew_workload(self, workload: Workload) -> None:
        """An owner as an answer to a request has it, which may come after newer news, or that of its end."""
        known = self._owners.get(workload.kind, workload.namespace, workload.name)
        if known is None or known.uid != workload.uid:
            return
        if not precedes(workload.resource_version, known.resource_version):
            self.set_workload(workload)

    def remove_workload(self, kind: str, namespace: str, name: str) -> None:
        self._forget_gangs_of(self._owners.remove(kind, namespace, name))

    def _forget_gangs_of(self, owner: GangKey) -> None:
        for gang in self._owned.get(owner, ()):
            self._gangs.pop(gang, None)

    def set_pod(self, pod: Pod) -> None:
        """A pod as a watch has it."""
        known = self.pods.get(pod.key)
        if known is not None:
            if known.uid == pod.uid and precedes(pod.resource_version, known.resource_version):
                return
            if is_noted_only(known, pod):
                self.pods[pod.key] = pod  # its gang stays the same, with what is known of it
                return
            self._forget(known)
            if known.uid == pod.uid and pod.grace_s < known.grace_s:
                # A deletion by force sets it to 0 first, but no kubelet cuts short what has begun.
                pod = replace(pod, grace_s=known.grace_s)
        self.pods[pod.key] = pod
        gang = gang_key(pod, self.prefix)
        self._members[gang].add(pod.key)
        for owner in owner_keys(gang, pod):
            self._owned[owner].add(gang)
            self._owners_of[gang].add(owner)
        if is_gated(pod, self.prefix):
            self._gated[gang].add(pod.key)
        for claim in pod.volume_claims:
            self._using[pod.namespace, claim.name].add(pod.key)
        self._charge(pod)

    def renew_pod(self, pod: Pod) -> None:
        """A pod as an answer to a request has it, which may come after the watch's news of its end."""
        known = self.pods.get(pod.key)
        if known is not None and known.uid == pod.uid:
            self.set_pod(pod)

    def remove_pod(self, key: ObjectKey, now_s: float) -> None:
        """A pod is gone; if by force, its containers go on for a while, and keep their cards."""
        self.let_go(now_s)
        known = self.pods.pop(key, None)
        if known is not None:
            self._forget(known)
            self.cluster.remove_pod(key)
            lingering = lingering_key(known.namespace, known.name, known.uid)
            if known.is_under_way and self.cluster.keep_cards(known, lingering):
                until_s = now_s + known.grace_s + KILLED_WITHIN_S
                self._lingering[lingering] = _Lingering(known.node_name or "", until_s, now_s + TOLD_WITHIN_S)

    def let_go(self, now_s: float) -> float | None:
        """Frees the cards of pods deleted by force, as soon as somebody better knows of them.

        When they must have ended; when their node is gone or out of service; or when the node has been well
        for so long that its agent would have told of holders without a pod. How long a pod is given to end is
        its owner's to say, and may be 285 years. Returns in how many seconds there may be more to free.
        """
        for key, known in list(self._lingering.items()):
            node = self.cluster.node(known.node)
            is_away = node is not None and not node.is_ready
            is_untold = is_away or known.told_s == _NOT_YET
            one = replace(known, told_s=now_s + TOLD_WITHIN_S) if is_untold else known
            self._lingering[key] = one
            is_down = node is None or node.is_out_of_service
            if is_down or min(one.until_s, one.told_s) <= now_s:
                del self._lingering[key]
                self.cluster.let_go_of_cards(key)
        waits_s = (min(one.until_s, one.told_s) - now_s for one in self._lingering.values())
        return min(waits_s, default=None)

    def lingering(self) -> list[LingeringPod]:
        """The pods deleted by force that still count as holders."""
        cards = self.cluster.cards
        return [
            LingeringPod(key[0], *split_key(key), known.node, cards.uses(key))
            for key, known in self._lingering.items()
        ]

    def set_record(self, record: Record) -> None:
        known = self.records.get(record.key)
        if known is not None and precedes(record.resource_version, known.resource_version):
            return
        self.records[record.key] = record
        self._hold(record)
        if known is not None:
            self._release(known)

    def remove_record(self, record: Record) -> None:
        """A plan is gone; one that was written under its name since stays, as the watch tells of it late."""
        known = self.records.get(record.key)
        if known is not None and known.uid == record.uid:
            del self.records[record.key]
            self._release(known)

    def assume(self, record: Record) -> None:
        """A plan is being written: its room is taken from now on."""
        self.begin_assumption(record)
        self._hold(record)

    def begin_assumption(self, record: Record) -> None:
        """A plan is being written, whose room is still to be taken, by `assume_part`."""
        self._assumed[record.key] = record

    def assume_part(self, record: Record, first: int, count: int) -> None:
        """Takes the room of so many placements of a plan that is being written, if it still is."""
        if self._assumed.get(record.key) is record:
            self._hold(record, record.placements[first : first + count])

    def is_assumed(self, gang: GangKey) -> bool:
        """Whether a plan of this gang is being written."""
        return Record(gang, (), 0, 0).key in self._assumed

    def end_assumption(self, record: Record) -> None:
        """The plan was written, and is known as such, or cannot be: then its room is given back.

        What was assumed for the same gang since stays.
        """
        if self._assumed.get(record.key) is record:
            del self._assumed[record.key]
        self._release(record)

    def _hold(self, record: Record, placements: Sequence[Placement] | None = None) -> None:
        """Charges the nodes of a plan, for all or some of its pods; what was held there for these stays."""
        for placement in record.placements if placements is None else placements:
            key = record.gang.namespace, placement.pod
            before, _ = self._planned.get(key, (None, None))
            self._planned[key] = placement, record
            if before == placement:
                continue  # charged already
            if before is not None and before.node != placement.node:
                self._planned_on[before.node].discard(key)
            self._planned_on[placement.node].add(key)
            if key in self.pods:
                self._charge(self.pods[key])

    def _release(self, record: Record) -> None:
        """Frees what was held for a plan's pods, as far as no other plan has them."""
        kept = [found for found in (self.records.get(record.key), self._assumed.get(record.key)) if found]
        for found in kept:
            self._hold(found)
        still = {placement.pod for found in kept for placement in found.placements}
        for placement in record.placements:
            key = record.gang.namespace, placement.pod
            if placement.pod in still or key not in self._planned:
                continue
            self._planned.pop(key)
            on_node = self._planned_on[placement.node]
            on_node.discard(key)
            if not on_node:
                del self._planned_on[placement.node]
            if key in self.pods:
                self._charge(self.pods[key])

    def set_volume_claim(self, key: ObjectKey, claim: VolumeClaim | None) -> bool:
        """A claim has come or changed, or (None) has gone.

        Whether something else is to be said of a pod, from when `ask_anew` has been run through.
        """
        return self._note_volumes(self._volumes.set_claim(key, claim))

    def set_volume(self, name: str, volume: Volume | None) -> bool:
        """As `set_volume_claim`."""
        return self._note_volumes(self._volumes.set_volume(name, volume))

    def set_volume_class(self, name: str, volume_class: VolumeClass | None) -> bool:
        """As `set_volume_claim`."""
        return self._note_volumes(self._using if self._volumes.set_class(name, volume_class) else ())

    def begin_volumes(self) -> bool:
        """All volumes, claims and classes have been told: from now on they are judged."""
        self._volumes.begin()
        return self._note_volumes(self._using)

    def forget_volumes(self) -> bool:
        """They are not kept up any more, and left to kube-scheduler."""
        self._volumes.forget()
        return self._note_volumes(self._using)

    def _note_volumes(self, claims: Iterable[ObjectKey]) -> bool:
        used = [claim for claim in claims if claim in self._using]
        self._changed_claims.update(used)
        return bool(used)

    def ask_anew(self) -> Iterator[None]:
        """Works out anew what pods ask for whose volumes have changed, so many at a time as take some 1 ms.

        Only what has changed until it begins: whoever changes claims all the time makes it no longer.
        """
        changed, self._changed_claims = self._changed_claims, set()
        pods = (pod for claim in changed for pod in tuple(self._using.get(claim, ())))
        while part := list(islice(pods, _PODS_AT_ONCE)):
            for key in part:
                self._asked.pop(key, None)
                if key in self.pods:
                    self._gangs.pop(gang_key(self.pods[key], self.prefix), None)
            yield

    def records_on(self, node: str) -> Sequence[ObjectKey]:
        """The keys of the plans that put pods on this node."""
        return tuple({self._planned[key][1].key for key in self._planned_on.get(node, ())})

    def planned_node(self, pod: Pod) -> str | None:
        """Where a plan that is under way puts this pod."""
        placement = self._placement(pod)
        return placement.node if placement else None

    @property
    def owners(self) -> Owners:
        """The objects that say how many pods gangs have."""
        return self._owners

    def gang_keys(self) -> Sequence[GangKey]:
        """Every gang that has a pod, of whatever kind."""
        return tuple(self._members)

    def members(self, gang: GangKey) -> list[Pod]:
        """The pods of a gang, ended ones too."""
        return [self.pods[key] for key in self._members.get(gang, ())]

    def shape(self, pod: Pod) -> PodShape:
        return self.asked_by(pod).shape

    def asked_by(self, pod: Pod) -> PodAsk:
        """What a pod asks for, worked out once for each version of it."""
        if self.pods.get(pod.key) is not pod:
            return self._ask(pod)
        if pod.key not in self._asked:
            self._asked[pod.key] = self._ask(pod)
        return self._asked[pod.key]

    def _ask(self, pod: Pod) -> PodAsk:
        ask = asked_by(pod, self._card_resources)
        if not pod.volume_claims:
            return ask
        try:
            return ask.with_volumes(self._volumes.reaches(pod))
        except VolumeAwaitedError as error:
            return ask.with_volumes(frozenset(), str(error))

    def _placement(self, pod: Pod) -> Placement | None:
        placement, _ = self._planned.get(pod.key, (None, None))
        return placement if placement and placement.uid == pod.uid else None

    def record_with(self, pod: Pod) -> Record | None:
        """The plan under way that has a pod of this name."""
        _, record = self._planned.get(pod.key, (None, None))
        return record

    def record_of(self, gang: GangKey) -> Record | None:
        return self.records.get(Record(gang, (), 0, 0).key)

    def gangs(self) -> list[Gang]:
        """Gangs with gated pods that no plan places, in order; pods with a place count as being there."""
        while self.rebuild_gangs():
            pass
        return in_order(gang for gang in self._gangs.values() if gang is not None)

    def rebuild_gangs(self) -> bool:
        """Makes some of the gangs anew that have changed, for some 10 ms; whether some are left."""
        pods = 0
        for key in list(self._gated.keys() - self._gangs.keys()):
            if pods >= _PODS_AT_ONCE:
                return True
            for pod in self._not_asked(key, _PODS_AT_ONCE - pods):
                self.asked_by(self.pods[pod])
                pods += 1
            if pods >= _PODS_AT_ONCE:
                return True
            if all(self._placement(self.pods[pod]) for pod in self._gated[key]):
                self._gangs[key] = None  # a plan has all of them: nobody is left to be planned
                pods += len(self._gated[key]) // _PLACED_AS_ONE
                continue
            members = [self._placed(self.pods[pod]) for pod in self._members[key]]
            made = make_gang(key, members, self._owners, self.prefix, self.asked_by)
            excluded = self._exclusions.of(key)
            self._gangs[key] = replace(made, excluded=excluded) if made and excluded else made
            pods += len(made.members) if made else len(members)  # those that are still to come, too
        return False

    def _not_asked(self, gang: GangKey, most: int) -> list[ObjectKey]:
        """So many of a gang's gated pods of which it is not worked out yet what they ask for."""
        return list(islice((pod for pod in self._gated[gang] if pod not in self._asked), most))

    def exclude(self, gang: GangKey, node: str, now_s: float) -> bool:
        """The gang is not placed on this node for a while; False where it has tried as many as it may."""
        self._gangs.pop(gang, None)
        return self._exclusions.add(gang, node, now_s)

    def is_begun(self, gang: GangKey) -> bool:
        """Whether pods of it are on nodes, or on their way, so that it cannot begin anew."""
        members = (self.pods[key] for key in self._members.get(gang, ()))
        return any(pod.node_name is not None and not pod.is_terminal for pod in members)

    def excluded(self, gang: GangKey) -> frozenset[str]:
        """The nodes on which the gang is not placed at present."""
        return self._exclusions.of(gang)

    def end_exclusions(self, now_s: float) -> float | None:
        """Ends those whose time is over; returns in how many seconds the next one ends."""
        for gang in self._exclusions.end(now_s):
            self._gangs.pop(gang, None)
        return self._exclusions.next_end_s(now_s)

    def job_terms(self, pod: Pod) -> JobTerms | None:
        """On what terms the pod's Job loses it; None where its owner is no Job, or none that was seen."""
        job = self._owners.job_of(pod)
        return job.job_terms if job else None

    def suspended_jobs(self) -> Sequence[Workload]:
        """The Jobs that the scheduler has suspended and has to resume."""
        return self._owners.suspended()

    def job(self, namespace: str, name: str) -> Workload | None:
        return self._owners.get("Job", namespace, name)

    def steps(self, record: Record) -> Steps:
        return next_steps(record, self.pods, self._takes, self.prefix)

    def _placed(self, pod: Pod) -> Pod:
        node = self.planned_node(pod)
        return pod if node is None or pod.node_name else replace(pod, node_name=node, gates=())

    def _charge(self, pod: Pod) -> None:
        self._gangs.pop(gang_key(pod, self.prefix), None)
        placement = self._placement(pod)
        if pod.node_name or pod.is_terminal:
            self.cluster.set_pod(pod, self._owner_ends_s(pod))
        elif (node := released_to(pod, self.prefix)) is not None:
            # Even if its plan was deleted by somebody: that does not take its cards from it.
            self.cluster.hold(pod, node, pod.annotations[ASSIGNMENT_ANNOTATION])
        elif placement is not None:
            self.cluster.hold(pod, placement.node, placement.assignment)
        else:
            self.cluster.set_pod(pod)

    def _owner_ends_s(self, pod: Pod) -> float | None:
        """When its Job has it end at the latest; None where that is not known."""
        job = self._owners.job_of(pod)
        return None if job is None or job.ends_by_s is None else job.ends_by_s + pod.ending_s

    def _forget(self, pod: Pod) -> None:
        self._asked.pop(pod.key, None)
        gang = gang_key(pod, self.prefix)
        self._gangs.pop(gang, None)
        for index in (self._members, self._gated):
            index[gang].discard(pod.key)
            if not index[gang]:
                del index[gang]
        for claim in pod.volume_claims:
            using = self._using[pod.namespace, claim.name]
            using.discard(pod.key)
            if not using:
                del self._using[pod.namespace, claim.name]
                self._changed_claims.discard((pod.namespace, claim.name))
        if gang not in self._members:
            self._forget_owners_of(gang)

    def _forget_owners_of(self, gang: GangKey) -> None:
        for owner in self._owners_of.pop(gang, ()):
            self._owned[owner].discard(gang)
            if not self._owned[owner]:
                del self._owned[owner]

    def _takes(self, pod: Pod, node: str) -> bool:
        """Whether a node still allows a pod that is charged to it and has room for it."""
        return self.cluster.still_takes(self.shape(pod), node, pod.key)
