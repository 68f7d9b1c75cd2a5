"""Finds the pods that the kubelet turned away and takes up again: a call may be for one of their containers.

It wants to tell the API server that it turned a pod away, finds that the name is another pod's by now, since
somebody deleted the pod by force and it was made anew, and drops what it knows of it. Then it takes the pod
for an active one, shows it, and tries to start it, until it comes to its deletion (1.33 to 1.37,
pkg/kubelet/status, syncPod; kubelet_pods.go, HandlePodCleanups). Where a container mounts a service account
token that fails: the API server gives none for such a pod. Without one a container starts, and the kubelet
asks for its devices. Once it has heard of the deletion it asks for no more (pkg/kubelet/cm/devicemanager,
checkPodActive); a call that was under way by then may still be waiting for its answer.
"""

from collections import Counter
from collections.abc import Iterator

from accelet.kube.pods import Pod
from accelet.kube.poduid import PodUid, kubelet_uid, may_recur
from resourcemanager.matching.candidates import list_needs
from resourcemanager.matching.doubts import doubt_taken_up, doubt_vanished
from resourcemanager.matching.inquiry import AskShown, CallFacts, FollowEnd, Step
from resourcemanager.matching.openings import is_past_admission


def ask_taken_up(caller: PodUid, evidence: CallFacts) -> Step | None:
    """What to find out before the call is believed to be for `caller`, or why it may be for such a pod."""
    for uid in evidence.vanished - evidence.deleted.keys() - evidence.pods.keys():
        return FollowEnd(uid) if evidence.can_follow else doubt_vanished()
    for pod in (*_list_deleted(evidence), *_list_living(caller, evidence)):
        if step := _ask(pod, caller, evidence):
            return step
    return None


def _list_deleted(evidence: CallFacts) -> Iterator[Pod]:
    """Those of whose deletion the kubelet had not heard when the call came.

    Also such as the watch has shown to be deleted since: they are as they were at their end.
    """
    names = Counter(pod.key for pod in {**evidence.pods, **evidence.deleted}.values())
    return (
        pod
        for uid, pod in evidence.deleted.items()
        if uid not in evidence.heard_before
        and _may_be_taken_up(pod, evidence)
        and (may_recur(pod) or names[pod.key] > 1)
    )


def _list_living(caller: PodUid, evidence: CallFacts) -> Iterator[Pod]:
    """Those that the kubelet has come to and that may be gone already: the watch may be behind.

    And those that were asked for: of two that are shown without their devices one is not being admitted.
    The caller is none of them. Where its name may recur, it was read: it is there, and no other has its name.
    """
    since = {uid: pod for uid, pod in evidence.watched_since.items() if uid not in evidence.deleted}
    others = {uid: pod for uid, pod in evidence.pods.items() if uid != caller and uid not in evidence.deleted}
    passed = {uid: pod for uid, pod in others.items() if uid in evidence.passed}
    asked = {uid: pod for uid, pod in others.items() if pod.key in evidence.shown}
    return (pod for pod in {**since, **passed, **asked}.values() if _may_be_taken_up(pod, evidence))


def _may_be_taken_up(pod: Pod, evidence: CallFacts) -> bool:
    """The checkpoint does not tell that it has devices: of a pod that it turned away the kubelet takes them
    back at its next call, and writes that only if it takes the answer.
    """
    return (
        not (pod.is_terminal or pod.is_mirror or pod.mounts_token)
        and not is_past_admission(pod, evidence)
        and any(need.size == evidence.size for need in list_needs(pod, evidence.ledger.resource))
    )


def _ask(pod: Pod, caller: PodUid, evidence: CallFacts) -> Step | None:
    """One that is not shown is not being started, unless the kubelet has just heard of its deletion.

    It has not while it admits a pod that was bound before.
    """
    uid = kubelet_uid(pod)
    if evidence.awaits_end(uid):
        return FollowEnd(uid)
    if uid in evidence.deleted and not _was_bound_before_deletion(caller, uid, evidence):
        return doubt_taken_up(pod, evidence)
    if pod.key not in evidence.shown:
        return AskShown(pod.key)
    return doubt_taken_up(pod, evidence) if _is_shown_lacking(pod, evidence) else None


def _was_bound_before_deletion(caller: PodUid, gone: PodUid, evidence: CallFacts) -> bool:
    """Whether that is known."""
    number, before = evidence.deletions.get(gone), evidence.deleted_before.get(caller)
    return number is not None and before is not None and before < number


def _is_shown_lacking(pod: Pod, evidence: CallFacts) -> bool:
    """Whether a container of the pod asks for devices of this number and is not shown to have any.

    Plain init containers are not shown. Of a pod that is there the checkpoint tells what they have.
    """
    shown = evidence.shown.get(pod.key)
    if shown is None:
        return False
    given = {one.name for one in shown.containers if one.devices.get(evidence.ledger.resource)}
    uid = kubelet_uid(pod)
    of_init = evidence.ledger.recorded(uid).keys() if uid not in evidence.deleted else frozenset()
    return any(
        need.size == evidence.size and need.container not in (of_init if need.is_plain_init else given)
        for need in list_needs(pod, evidence.ledger.resource)
    )
