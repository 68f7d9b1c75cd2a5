"""Finds the container that a call of the kubelet is for.

The kubelet asks for devices without saying for whom. What makes an answer exact is the way it admits pods
(Kubernetes 1.27 to 1.38, pkg/kubelet, pkg/kubelet/cm/devicemanager):

    One pod after the other is admitted, on one thread. It is known to podresources before its first call,
    each container's devices are on record before the next call, and a pod that is turned away is no longer
    an active one when the next is looked at.

From 1.34 podresources shows active pods only. So during a call that belongs to an admission

    Invariant: among the pods that have not started, exactly one is shown by podresources and shown without
    all its devices: the one that is being admitted.

Hence one such pod, once found, is the proof, and no other has to be asked for. It need not be searched in
any order; the kubelet's own finds it soonest (`resourcemanager.matching.admissions`). Its containers are
served in the order of the spec, so the first without devices is the one. Plain init containers are not shown;
what they were given stands in the ledger, or, where an answer was given to nobody known, in the kubelet's
checkpoint, written before the next call.

Two things break the premise, and each is looked for before a pod is believed:

    A call can also belong to a container that is started again and whose devices the kubelet has forgotten,
    or never gave because it did not know the resource then. A pod past its admission that lacks devices of
    this number is a rival: with one about, there is no proof. So is one that the kubelet turned away and
    takes up again (`resourcemanager.matching.takenup`).

    Podresources knows names, not UIDs. Where a name can come again and the watch may lag, the pod is read
    from the API server before it is believed. Where it did come again after somebody deleted a pod by force,
    the kubelet may not have heard of that: what it shows may be the former pod, and the call for that one, or
    for anybody else. Also after it turned the former pod away: it forgets that when it finds the name to be
    another pod's, and shows it again. Then the others are asked too.

Before 1.34 pods that were turned away stay visible. There the argument is by exclusion: the pod being
admitted is among those shown, so if all shown pods are known and one alone lacks such devices, it is the one.
Turned-away pods drop out as soon as the API server has their end, for which there are three more reads.

Nothing is ever decided by age, order, or annotations. A pod that was deleted by force while it is being
admitted may be taken for the one that has its name since, as long as the watch has not shown that; the
kubelet kills it at once.

`next_step` is called with growing evidence until it returns a Match or a NoProof; it asks for at most the
pods of this node once each, four reads, and one read for each name. The kubelet may have seen a pod that our
watch has not shown yet; so they are read once some have been asked for in vain, and not after all of them.
"""

from collections.abc import Sequence

from accelet.kube.pods import Pod
from accelet.kube.poduid import kubelet_uid, may_recur
from resourcemanager.matching.doubts import (
    accept_single,
    doubt_former,
    doubt_hidden_rival,
    doubt_name,
    doubt_rival,
    doubt_unknown_former,
    doubt_watch,
)
from resourcemanager.matching.exclusion import exclude_others
from resourcemanager.matching.inquiry import (
    AskCheckpoint,
    AskShown,
    CallFacts,
    FollowEnd,
    FollowWatch,
    Match,
    NoProof,
    Podresources,
    Proof,
    Question,
    ReadPod,
    ReadPods,
    Step,
)
from resourcemanager.matching.openings import (
    find_former_openings,
    find_openings,
    is_past_admission,
    list_living,
    list_rivals,
    may_show_former,
    may_start_hidden,
    needs_checkpoint,
)
from resourcemanager.matching.takenup import ask_taken_up

GETS_BEFORE_READ = 5
"""How many pods are asked for before the watch is doubted. Podresources answers 10 calls at once and 100 a
second after that, to all its clients; the API server's list costs less than to go on in vain."""


def next_step(evidence: CallFacts) -> Step:
    """The container the call is for, or that it cannot be told, or what to find out before either."""
    if needs_checkpoint(evidence):
        return AskCheckpoint()
    if evidence.podresources is Podresources.GET_ACTIVE:
        return _find_visible(evidence)
    return exclude_others(evidence)


def _find_visible(evidence: CallFacts) -> Step:
    """Whoever is certainly shown without its devices; a pod in doubt is passed over until nobody is left."""
    living = list_living(evidence)
    doubts: list[NoProof] = []
    for pod in living:
        if is_past_admission(pod, evidence):
            continue
        if pod.key not in evidence.shown:
            may_lag = evidence.can_read and evidence.reads == 0 and len(evidence.shown) >= GETS_BEFORE_READ
            return ReadPods(after_s=0) if may_lag else AskShown(pod.key)
        if found := list(find_openings(pod, Proof.VISIBLE, evidence)):
            step = _verify_name(pod, evidence)
            if step is None:
                return _ask_rivals(found, evidence)
            if not isinstance(step, NoProof):
                return step
            doubts.append(step)
    if evidence.can_read and evidence.reads == 0:
        return ReadPods(after_s=0)
    return doubts[0] if doubts else _find_gap(living, evidence)


def _verify_name(pod: Pod, evidence: CallFacts) -> Question | NoProof | None:
    """What to find out before the pod is believed to be what is shown under its name, or why it is not."""
    is_unwatched = kubelet_uid(pod) in evidence.unwatched
    if not may_recur(pod):
        return FollowWatch(pod) if is_unwatched and evidence.can_follow else None
    if not (evidence.is_watch_current or pod.key in evidence.verified):
        return ReadPod(pod.key) if evidence.can_read else doubt_name(pod)
    if is_unwatched:
        return FollowWatch(pod) if evidence.can_follow else doubt_watch(pod)
    if not evidence.knows_former:
        return doubt_unknown_former(pod)
    if former := find_former_openings(pod, evidence):
        return doubt_former(pod, former)
    return doubt_former(pod, ()) if may_show_former(pod, evidence) else None


def _ask_rivals(found: Sequence[Match], evidence: CallFacts) -> Step:
    for rival in list_rivals(evidence):
        if step := _ask_rival(rival, evidence):
            return step
    return ask_taken_up(found[0].owner.pod_uid, evidence) or accept_single(found, evidence)


def _ask_rival(rival: Pod, evidence: CallFacts) -> Step | None:
    """What to find out about it, or that it is one; None if no container of it can be starting.

    The kubelet hides a pod that it was told to remove before it stops starting it, and no other (1.33 to
    1.37, HandlePodRemoves; podWorkerLoop ends a pod only between two syncs). So one that is hidden and that
    the API server has still had ended before, or waits for its admission.
    """
    uid = kubelet_uid(rival)
    if uid not in evidence.pods and evidence.awaits_end(uid):
        return FollowEnd(uid)
    if uid not in evidence.pods:
        return doubt_hidden_rival(rival, evidence)
    if rival.key not in evidence.shown:
        return AskShown(rival.key)
    if any(find_openings(rival, Proof.VISIBLE, evidence)):
        return _verify_rival(rival, evidence) or doubt_rival(rival, evidence)
    if uid in evidence.read_since_shown or not may_start_hidden(uid, rival, evidence):
        return None
    return ReadPod(rival.key) if evidence.can_read else doubt_hidden_rival(rival, evidence)


def _verify_rival(rival: Pod, evidence: CallFacts) -> Step | None:
    is_verified = evidence.is_watch_current or rival.key in evidence.verified or not may_recur(rival)
    return None if is_verified or not evidence.can_read else ReadPod(rival.key)


def _find_gap(living: Sequence[Pod], evidence: CallFacts) -> Step:
    """Nobody is being admitted: a container that is started again and has no devices on record."""
    started = [pod for pod in living if is_past_admission(pod, evidence)]
    for pod in started:
        if pod.key not in evidence.shown:
            return AskShown(pod.key)
    return accept_single(
        [match for pod in started for match in find_openings(pod, Proof.EXCLUSION, evidence)], evidence
    )
