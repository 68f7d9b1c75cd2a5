"""Brings the ledger in line with what the kubelet's records and the API server say.

The rules, the same at start and for ever after:

- What a record of the kubelet shows is held, whatever we believed. The checkpoint says whose; where it and
  our answer disagree, the checkpoint is right.
- Silence releases nothing. A kubelet that has just started shows no pods or half of them, and one that has
  lost its checkpoint has forgotten containers that still run. A holding ends when everything that can be
  asked denies it, in two views in a row of those that have a say: see `_is_denied`.
- An answer of ours ends in one of three ways: confirmed, corrected to the container it was really for, or
  dropped because its pod was turned away after all.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from types import MappingProxyType
from typing import cast

from accelet.accelerators.device import DeviceId
from accelet.kube.objects import ObjectKey
from accelet.kube.pods import Pod
from accelet.kube.poduid import PodUid, index_pods, may_recur
from resourcemanager.holdings.evidence import CheckpointEntry, ContainerKey, ShownPod
from resourcemanager.holdings.ledger import (
    ALLOCATION_ANNOTATION,
    DENIALS_TO_RELEASE,
    PROOF_ANNOTATION,
    Holding,
    InFlight,
    Ledger,
)

_MISSES_TO_DROP = 2


@dataclass(frozen=True, slots=True)
class View:
    """What could be seen at one moment. None where a source is not there or did not answer.

    `checkpoint`: the entries of the kubelet's checkpoint, of all resources.
    `shown`: podresources' answers by the pods asked for; None as an answer says that the kubelet shows no
    such pod. A pod that was not asked for is not in it.
    `pods`: all pods of this node that the API server knows.
    `is_after_answers`: the checkpoint was read when every answer it lacks had been thrown away: during the
    kubelet's next call, before which it writes what it took, or when a new kubelet has started from it.
    `is_of_this_kubelet`: the checkpoint was written by the kubelet that runs now.
    `are_pods_newer`: the pods were read after the checkpoint. A holder that is none of them has ended; else
    the watch may not have shown it yet.
    `former`: pods that the API server had until lately, of which it is still asked whether they lack devices.
    """

    checkpoint: Sequence[CheckpointEntry] | None = None
    shown: Mapping[ObjectKey, ShownPod | None] | None = None
    pods: Sequence[Pod] | None = None
    is_after_answers: bool = False
    is_of_this_kubelet: bool = False
    are_pods_newer: bool = False
    former: frozenset[PodUid] = frozenset()


class AnswerOutcome(Enum):
    """What became of an answer."""

    CONFIRMED = "confirmed"
    CORRECTED = "corrected"
    DROPPED = "dropped"


@dataclass(frozen=True, slots=True)
class Settled:
    """One answer's end; `owner` is the container that has the devices, None where dropped."""

    outcome: AnswerOutcome
    answer: InFlight
    owner: ContainerKey | None


@dataclass(frozen=True, slots=True)
class Reconciled:
    """The new ledger, and what changed: answers settled, holdings released."""

    ledger: Ledger
    settled: tuple[Settled, ...] = field(default=())
    released: tuple[Holding, ...] = field(default=())


def reconcile(ledger: Ledger, view: View) -> Reconciled:
    """The ledger after `view`. From an empty ledger on, this is the rebuilding after a restart."""
    known = _Pods.of(view.pods)
    recorded = _recorded(ledger, view, known)
    ends = tuple(_settle(answer, ledger.in_flight, recorded, view, known) for answer in ledger.in_flight)
    holdings: dict[ContainerKey, Holding] = {}
    released: list[Holding] = []
    for key, holding in {**ledger.holdings, **recorded}.items():
        before = ledger.holdings.get(key)
        pod = known.name(key.pod_uid) or holding.pod or (before.pod if before else None)
        is_recorded = key in recorded or (holding.is_recorded and view.checkpoint is None)
        is_shown = key in recorded and recorded[key].pod is not None
        is_denied = not is_shown and _is_denied(key.pod_uid, pod, view, known, is_recorded=key in recorded)
        denials = _count_denials(before.denials if before else 0, is_denied=is_denied)
        after = Holding(key, holding.device_ids, pod, holding.token, holding.proof, is_recorded, denials)
        if after == before:
            after = before  # what others have made of it stays good
        elif after.is_released and not (before is not None and before.is_released):
            released.append(after)
        if key in recorded or not after.is_released:
            holdings[key] = after
    made = Ledger(
        resource=ledger.resource,
        holdings=MappingProxyType(holdings),
        in_flight=tuple(end for end in ends if isinstance(end, InFlight)),
        checkpointed=_checkpointed(ledger, view),
        has_read_checkpoint=ledger.has_read_checkpoint or view.checkpoint is not None,
    )
    return Reconciled(
        ledger=_note_freed(ledger, made, view, known),
        settled=tuple(end for end in ends if isinstance(end, Settled)),
        released=tuple(released),
    )


def _note_freed(before: Ledger, after: Ledger, view: View, known: "_Pods") -> Ledger:
    """The kubelet takes devices from pods that have ended, and from no other, as long as it lives."""
    if view.checkpoint is None or not view.is_of_this_kubelet:
        return replace(
            after,
            checkpointed_pods=before.checkpointed_pods,
            freed=before.freed,
            inherited=before.inherited,
            inherited_tokens=before.inherited_tokens,
            has_inherited=before.has_inherited,
        )
    now: dict[PodUid, frozenset[str]] = {}
    for one in view.checkpoint:
        if one.resource == after.resource:
            uid = PodUid(one.pod_uid)
            now[uid] = now.get(uid, frozenset()) | {one.container}
    tokens = {one.annotations.get(ALLOCATION_ANNOTATION) for one in view.checkpoint}
    inherited: Mapping[PodUid, frozenset[str]] = before.inherited
    remembered = {**before.freed, **before.checkpointed_pods}
    freed = {uid: containers for uid, containers in remembered.items() if uid not in now}
    if known.by_uid is not None:
        kept = known.by_uid.keys() | view.former | {key.pod_uid for key in after.holdings}
        freed = {uid: containers for uid, containers in freed.items() if uid in kept}
        inherited = {uid: containers for uid, containers in inherited.items() if uid in kept}
    return replace(
        after,
        checkpointed_pods=MappingProxyType(now),
        freed=MappingProxyType(freed),
        inherited=MappingProxyType(dict(inherited)),
        inherited_tokens=before.inherited_tokens,
        has_inherited=before.has_inherited or not before.inherited_tokens.isdisjoint(tokens),
    )


def pods_to_ask(ledger: Ledger, pods: Sequence[Pod] | None) -> tuple[ObjectKey, ...]:
    """The pods whose podresources answer the next view should have: holders that nothing says are alive."""
    known = _Pods.of(pods)
    claims: tuple[tuple[ContainerKey | None, ObjectKey | None], ...] = (
        *((one.owner, one.pod) for one in ledger.holdings.values()),
        *((one.owner, one.pod) for one in ledger.in_flight),
    )
    names = (
        known.name(owner.pod_uid) or name
        for owner, name in claims
        if owner is not None and known.is_gone(owner.pod_uid) is not False
    )
    return tuple(dict.fromkeys(name for name in names if name is not None))


def has_unasked(
    ledger: Ledger, shown: Mapping[ObjectKey, ShownPod | None] | None, pods: Sequence[Pod] | None
) -> bool:
    """Whether there is a holder that is none of `pods` and for which podresources was not asked.

    It may have ended before the ledger was begun, and only its UID be known; or this kubelet has no Get.
    """
    known = _Pods.of(pods)
    return pods is not None and any(
        not holding.is_released
        and known.name(key.pod_uid) is None
        and (shown is None or holding.pod not in shown)
        for key, holding in ledger.holdings.items()
    )


@dataclass(frozen=True, slots=True)
class _Pods:
    """The API server's pods, by the UID the kubelet uses; `by_uid` is None where it cannot be asked."""

    by_uid: Mapping[PodUid, Pod] | None
    uids: Mapping[ObjectKey, PodUid]

    @classmethod
    def of(cls, pods: Sequence[Pod] | None) -> "_Pods":
        if pods is None:
            return cls(None, {})
        by_uid = index_pods(pods)
        return cls(by_uid, {pod.key: uid for uid, pod in by_uid.items()})

    def is_gone(self, uid: PodUid) -> bool | None:
        """Whether the pod has ended for good; None if nobody can say."""
        if self.by_uid is None:
            return None
        pod = self.by_uid.get(uid)
        return pod is None or pod.is_terminal

    def pod(self, name: ObjectKey) -> Pod | None:
        return None if self.by_uid is None or name not in self.uids else self.by_uid[self.uids[name]]

    def name(self, uid: PodUid) -> ObjectKey | None:
        pod = (self.by_uid or {}).get(uid)
        return None if pod is None else pod.key


def _recorded(ledger: Ledger, view: View, known: _Pods) -> Mapping[ContainerKey, Holding]:
    """What the kubelet's records show. Podresources adds names, and holders the checkpoint does not have."""
    resource = ledger.resource
    found: dict[ContainerKey, Holding] = {}
    for entry in view.checkpoint or ():
        if entry.resource == resource and entry.device_ids:
            key = ContainerKey(PodUid(entry.pod_uid), entry.container)
            found[key] = Holding(
                owner=key,
                device_ids=_ids(entry.device_ids),
                token=entry.annotations.get(ALLOCATION_ANNOTATION),
                proof=entry.annotations.get(PROOF_ANNOTATION),
            )
    for name, pod in (view.shown or {}).items():
        for container in pod.containers if pod is not None else ():
            ids = _ids(container.devices.get(resource, frozenset()))
            if ids:
                uid = _uid_by_ids(container.name, ids, found) or _uid_by_name(
                    name, container.name, ids, ledger, known
                )
                key = ContainerKey(uid, container.name)
                before = found.get(key) or Holding(key, frozenset())
                # A checkpoint that could not be written is behind what the kubelet knows.
                found[key] = replace(before, pod=name, device_ids=before.device_ids | ids)
    return found


def _uid_by_ids(
    container: str, ids: frozenset[DeviceId], found: Mapping[ContainerKey, Holding]
) -> PodUid | None:
    same = [key.pod_uid for key, one in found.items() if key.container == container and one.device_ids == ids]
    return same[0] if len(same) == 1 else None


def _uid_by_name(
    name: ObjectKey, container: str, ids: frozenset[DeviceId], ledger: Ledger, known: _Pods
) -> PodUid:
    """Whom podresources shows under the name: who was known to hold these, else who has the name now.

    A kubelet may still show the one that had it before. A pod that has not started is not believed to be the
    one that is shown with devices if its name can come again.
    """
    for key, holding in ledger.holdings.items():
        is_of_uid = key.pod_uid != "/".join(name)
        if is_of_uid and holding.pod == name and key.container == container and holding.device_ids & ids:
            return key.pod_uid
    for answer in ledger.in_flight:
        if answer.owner is not None and answer.pod == name and answer.device_ids == ids:
            return answer.owner.pod_uid
    pod = known.pod(name)
    if pod is not None and (pod.has_started or not may_recur(pod)):
        return known.uids[name]
    return PodUid("/".join(name))


def _ids(ids: Iterable[str]) -> frozenset[DeviceId]:
    return frozenset(cast("Iterable[DeviceId]", ids))


def _checkpointed(ledger: Ledger, view: View) -> frozenset[DeviceId]:
    if view.checkpoint is None:
        return ledger.checkpointed
    return _ids(
        device
        for entry in view.checkpoint
        if entry.resource == ledger.resource
        for device in entry.device_ids
    )


def _count_denials(before: int, *, is_denied: bool | None) -> int:
    if is_denied is None:
        return before
    return min(before + 1, DENIALS_TO_RELEASE) if is_denied else 0


def _is_denied(
    uid: PodUid, name: ObjectKey | None, view: View, known: _Pods, *, is_recorded: bool
) -> bool | None:
    """Whether everything that can be asked says this container has nothing any more; None: nothing has a say.

    Alive for the API server: it has. Else podresources must not show the pod when asked, and either the API
    server or the checkpoint must be without it: silence of a kubelet that has just started is not enough.
    Where podresources cannot be asked, for want of the pod's name or of Get (kubelets before 1.34), the
    checkpoint has the say. It lists pods that are gone until the next one is admitted, which may be never: of
    those the API server tells.
    """
    is_gone = known.is_gone(uid)
    is_unrecorded = view.checkpoint is not None and not is_recorded
    if is_gone is False:
        return False
    if view.shown is None or name is None:
        if is_gone and not is_unrecorded:
            return True if view.are_pods_newer else None
        return is_unrecorded
    if is_gone and name not in view.shown:
        return None
    return _is_hidden(uid, name, view, known) and (is_gone is True or is_unrecorded)


def _is_hidden(uid: PodUid, name: ObjectKey, view: View, known: _Pods) -> bool:
    """Whether the kubelet was asked for the pod and does not show it, or shows another of its name."""
    if view.shown is None or name not in view.shown:
        return False
    return view.shown[name] is None or known.uids.get(name, uid) != uid


def _settle(
    answer: InFlight,
    order: Sequence[InFlight],
    recorded: Mapping[ContainerKey, Holding],
    view: View,
    known: _Pods,
) -> InFlight | Settled:
    """The answer's end, or the answer as it goes on waiting for one."""
    for key, holding in recorded.items():
        if holding.token == answer.token:
            agrees = answer.owner in (None, key)
            return Settled(AnswerOutcome.CONFIRMED if agrees else AnswerOutcome.CORRECTED, answer, key)
    if answer.owner is not None and view.checkpoint is None:
        shown = recorded.get(answer.owner)
        if shown is not None and shown.device_ids == answer.device_ids:
            return Settled(AnswerOutcome.CONFIRMED, answer, answer.owner)
    if view.is_after_answers and view.checkpoint is not None:
        return Settled(AnswerOutcome.DROPPED, answer, None)
    # The kubelet writes each container's devices before it asks for the next one's.
    tokens = {holding.token for holding in recorded.values()}
    later = order[order.index(answer) + 1 :]
    is_passed_over = view.checkpoint is not None and (
        answer.misses > 0 or any(other.token in tokens for other in later)
    )
    waiting = replace(
        answer,
        misses=answer.misses + 1 if is_passed_over else 0,
        denials=answer.denials + 1 if _is_turned_away(answer, view, known) else 0,
    )
    if waiting.misses >= _MISSES_TO_DROP or waiting.denials >= DENIALS_TO_RELEASE:
        return Settled(AnswerOutcome.DROPPED, answer, None)
    return waiting


def _is_turned_away(answer: InFlight, view: View, known: _Pods) -> bool:
    """Whether the pod ended before any record of the kubelet showed the devices it was given."""
    if answer.owner is None or known.is_gone(answer.owner.pod_uid) is not True:
        return False
    return (
        view.shown is None or answer.pod is None or _is_hidden(answer.owner.pod_uid, answer.pod, view, known)
    )
