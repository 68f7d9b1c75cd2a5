"""The search for the container that a call of the kubelet is for: what is known so far, what to ask next."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from types import MappingProxyType

from accelet.kube.objects import ObjectKey
from accelet.kube.pods import Pod
from accelet.kube.poduid import PodUid, index_pods, kubelet_uid
from resourcemanager.holdings.evidence import ContainerKey, ShownPod
from resourcemanager.holdings.ledger import Ledger
from resourcemanager.matching.admissions import Admissions


class Podresources(Enum):
    """What the kubelet's podresources service shows."""

    GET_ACTIVE = "get-active"
    """It has Get, and shows only pods it runs or is admitting: Kubernetes from 1.34."""

    GET_ALL = "get-all"
    """It has Get and also shows pods it turned away: 1.27 to 1.33 with KubeletPodResourcesGet switched on."""

    LIST_ALL = "list-all"
    """It has List alone, which also shows pods it turned away: Kubernetes up to 1.33."""


class Proof(Enum):
    """Why a container is the one, strongest first."""

    CHECKPOINT = "checkpoint"
    """The kubelet's checkpoint holds our answer's token under it. Exact; known only afterwards."""

    VISIBLE = "visible"
    """The kubelet shows the pod, and shows it without these devices: it is being admitted. Exact."""

    SOLE = "sole"
    """Of all pods the kubelet shows, all of them known, no other lacks such devices. Exact."""

    EXCLUSION = "exclusion"
    """No other pod known to the API server lacks such devices. Wrong where a static pod, or one deleted by
    force at this moment, is being admitted."""

    @property
    def is_exact(self) -> bool:
        return self is not Proof.EXCLUSION


class Doubt(Enum):
    """Why there is no proof."""

    NOBODY = "nobody"
    SEVERAL = "several"
    RIVAL = "rival"
    CONTAINER = "container"
    STATIC = "static"
    STRANGER = "stranger"
    UNVERIFIED = "unverified"
    UNANSWERED = "unanswered"
    UNGUARDED = "unguarded"


@dataclass(frozen=True, slots=True)
class AskShown:
    """Get this pod from podresources; `CallFacts.with_shown`."""

    pod: ObjectKey


@dataclass(frozen=True, slots=True)
class AskAllShown:
    """List podresources; `CallFacts.with_all_shown`."""


@dataclass(frozen=True, slots=True)
class AskCheckpoint:
    """Read the kubelet's checkpoint and reconcile the ledger with it, as after answers; `with_ledger`."""


@dataclass(frozen=True, slots=True)
class ReadPod:
    """Read this pod from the API server, no cache between; `CallFacts.with_pod`."""

    pod: ObjectKey


@dataclass(frozen=True, slots=True)
class ReadPods:
    """After so long, list this node's pods at the API server; `CallFacts.with_pods`.

    With resourceVersion unset, so that the answer is no older than the question.
    """

    after_s: float


@dataclass(frozen=True, slots=True)
class FollowWatch:
    """Wait until the watch has shown this pod, and so whoever had its name before; `CallFacts.with_followed`,
    or `without_watch` where it is too far behind.
    """

    pod: Pod


@dataclass(frozen=True, slots=True)
class FollowEnd:
    """Wait until the watch has shown how this pod, which was not found any more, was at its end;
    `CallFacts.with_end`, or `without_watch`.
    """

    uid: PodUid


@dataclass(frozen=True, slots=True)
class Match:
    """The call is for this container."""

    owner: ContainerKey
    pod: Pod
    proof: Proof


@dataclass(frozen=True, slots=True)
class NoProof:
    """It cannot be told whom the call is for; the text says why, in a sentence for people.

    `former`: a deleted pod that the call may be for. Once it is refused, that pod is not asked for again.
    """

    doubt: Doubt
    reason: str
    former: PodUid | None = None


Question = AskShown | AskAllShown | AskCheckpoint | ReadPod | ReadPods | FollowWatch | FollowEnd
Step = Question | Match | NoProof


NO_PODS: Mapping[PodUid, Pod] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class CallFacts:
    """What is known about one call for `size` devices of `ledger.resource`.

    `pods` are those of this node by the UID the kubelet uses, in the order in which they are to be asked for:
    at first the watch's, then what was read.
    `podresources`: what kind of podresources service there is.
    `is_watch_current`: nobody needs to doubt that the watch has delivered what happened up to about now.
    `can_read`: the API server can be asked. `can_follow`: the watch shows in time what was read.
    `admissions`: what is remembered of this kubelet.
    `deleted`: pods that the API server no longer has and the kubelet may still show, as last seen.
    `heard`: those of `deleted` of whose deletion the kubelet has heard: it does not show them any more.
    `heard_before`: those of which it had heard when the call came: it is not for one of them.
    `deletions`: in which order the watch showed pods to be deleted, as numbers. `deleted_before`: how many it
    had shown to be deleted when it showed this pod to be bound. The kubelet hears of both in the same order.
    `passed`: those of `pods` that the kubelet has come to, as far as its order tells.
    `knows_former`: `deleted` has whoever the kubelet may still come to.
    `unwatched`: those of `pods` that were read and that the watch has not shown yet, nor who had their names.
    `vanished`: pods that the watch has shown to be bound and that a list did not show. What they were is not
    known until the watch shows their end.
    The rest is filled in by the methods; `missing` are those of `deleted` of which a read alone tells,
    `ended` those whose end was waited for,
    `read_since_shown` those of `pods` that were read after podresources had been asked for them. In
    `watched_since` are pods that the watch has shown since and that may be gone: not among `pods`.
    """

    size: int
    ledger: Ledger
    pods: Mapping[PodUid, Pod]
    podresources: Podresources = Podresources.GET_ACTIVE
    is_watch_current: bool = True
    can_read: bool = True
    can_follow: bool = True
    admissions: Admissions = field(default_factory=Admissions)
    deleted: Mapping[PodUid, Pod] = field(default_factory=lambda: MappingProxyType({}))
    heard: frozenset[PodUid] = frozenset()
    heard_before: frozenset[PodUid] = frozenset()
    deletions: Mapping[PodUid, int] = field(default_factory=lambda: MappingProxyType({}))
    deleted_before: Mapping[PodUid, int] = field(default_factory=lambda: MappingProxyType({}))
    passed: frozenset[PodUid] = frozenset()
    knows_former: bool = True
    unwatched: frozenset[PodUid] = frozenset()
    vanished: frozenset[PodUid] = frozenset()
    shown: Mapping[ObjectKey, ShownPod | None] = field(default_factory=lambda: MappingProxyType({}))
    shown_twice: frozenset[ObjectKey] = frozenset()
    is_all_shown: bool = False
    missing: frozenset[PodUid] = frozenset()
    ended: frozenset[PodUid] = frozenset()
    verified: frozenset[ObjectKey] = frozenset()
    read_since_shown: frozenset[PodUid] = frozenset()
    watched_since: Mapping[PodUid, Pod] = field(default_factory=lambda: NO_PODS)
    reads: int = 0
    has_asked_checkpoint: bool = False

    def awaits_end(self, uid: PodUid) -> bool:
        """Whether the pod is gone and the watch has not shown yet how it was at its end, but may soon."""
        is_open = uid in self.deleted and uid not in self.deletions and uid not in self.ended
        return is_open and self.can_follow

    def with_shown(self, name: ObjectKey, pod: ShownPod | None) -> "CallFacts":
        return replace(self, shown={**self.shown, name: pod})

    def with_all_shown(self, pods: Sequence[ShownPod]) -> "CallFacts":
        """`pods` are all that podresources shows; two of them can have one name."""
        names = Counter((pod.namespace, pod.name) for pod in pods)
        return replace(
            self,
            shown={(pod.namespace, pod.name): pod for pod in pods},
            shown_twice=frozenset(name for name, count in names.items() if count > 1),
            is_all_shown=True,
        )

    def with_ledger(self, ledger: Ledger) -> "CallFacts":
        """The ledger as it is with the checkpoint of this moment; as it was if that cannot be read."""
        return replace(self, ledger=ledger, has_asked_checkpoint=True)

    def with_pod(self, name: ObjectKey, pod: Pod | None) -> "CallFacts":
        """`pod` is what the API server has under `name` on this node, None if nothing."""
        others = [one for one in self.pods.values() if one.key != name]
        read = self._with_read([*others, pod] if pod else others)
        return replace(
            read,
            verified=self.verified | {name},
            read_since_shown=self.read_since_shown | self._shown_of([pod] if pod else []),
        )

    def with_pods(self, pods: Iterable[Pod]) -> "CallFacts":
        """`pods` are all that the API server has for this node."""
        pods = tuple(pods)
        read = self._with_read(pods)
        names = {pod.key for pod in (*self.pods.values(), *read.pods.values())}
        return replace(
            read,
            verified=self.verified | names,
            read_since_shown=self.read_since_shown | self._shown_of(pods),
            reads=self.reads + 1,
        )

    def _shown_of(self, pods: Iterable[Pod]) -> frozenset[PodUid]:
        return frozenset(kubelet_uid(pod) for pod in pods if pod.key in self.shown)

    def _with_read(self, pods: Iterable[Pod]) -> "CallFacts":
        """With what was read, in the order known so far; first what is new, since the watch lags."""
        found = index_pods(pods, self._was_pod)
        missing = {uid: pod for uid, pod in self.pods.items() if uid not in found}
        new = [uid for uid in found if uid not in self.pods]
        return replace(
            self,
            pods={uid: found[uid] for uid in (*new, *self.pods) if uid in found},
            deleted={**self.deleted, **missing},
            missing=self.missing | missing.keys(),
            unwatched=self.unwatched | set(new),
        )

    def _was_pod(self, uid: PodUid) -> bool:
        pod = self.pods.get(uid) or self.deleted.get(uid)
        return uid in self.vanished or (pod is not None and not pod.is_mirror)

    def with_followed(
        self, pod: Pod, deleted: Mapping[PodUid, Pod], watched: Mapping[PodUid, Pod] = NO_PODS
    ) -> "CallFacts":
        """The watch has shown `pod`; by now it shows `watched`, and `deleted` to be deleted."""
        followed = self._with_watched(deleted, watched)
        return replace(followed, unwatched=self.unwatched - {kubelet_uid(pod)})

    def _with_watched(self, deleted: Mapping[PodUid, Pod], watched: Mapping[PodUid, Pod]) -> "CallFacts":
        # A mirror that anybody can have forged is not one of a pod that is gone.
        lost = {uid for uid, one in deleted.items() if not one.is_mirror}
        pods = {uid: one for uid, one in self.pods.items() if not (one.is_mirror and uid in lost)}
        return replace(
            self,
            pods=pods,
            deleted={**self.deleted, **deleted},
            missing=self.missing - deleted.keys(),
            watched_since={uid: one for uid, one in watched.items() if uid not in pods},
        )

    def with_end(
        self, uid: PodUid, deleted: Mapping[PodUid, Pod], watched: Mapping[PodUid, Pod] = NO_PODS
    ) -> "CallFacts":
        """The watch has shown the end of this pod; `deleted` and `watched` as for `with_followed`."""
        followed = self._with_watched(deleted, watched)
        return replace(
            followed,
            missing=followed.missing - {uid},
            vanished=followed.vanished - {uid},
            ended=followed.ended | {uid},
        )

    def without_watch(self) -> "CallFacts":
        """The watch did not show in time what was read."""
        return replace(self, can_follow=False)

    def without_api_server(self) -> "CallFacts":
        """The API server did not answer."""
        return replace(self, can_read=False)
