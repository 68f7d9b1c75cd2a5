"""Which containers of a pod a call may be for."""

from collections.abc import Iterable, Iterator

from accelet.accelerators.device import DeviceId
from accelet.kube.pods import Pod
from accelet.kube.poduid import PodUid, kubelet_uid
from resourcemanager.holdings.evidence import ContainerKey, ShownPod
from resourcemanager.holdings.ledger import Ledger
from resourcemanager.matching.candidates import (
    find_gaps,
    find_next,
    is_same_pod,
    lacks_devices,
    list_needs,
    list_shown_containers,
)
from resourcemanager.matching.inquiry import CallFacts, Match, Podresources, Proof


def list_living(evidence: CallFacts, *, with_former: bool = False) -> tuple[Pod, ...]:
    """The pods that may want devices of this number, in the order they stand in, those being deleted last.

    `with_former`: also pods that the API server has no longer.
    """
    pods = {**(evidence.deleted if with_former else {}), **evidence.pods}
    return _put_dying_last(pod for uid, pod in pods.items() if _may_want(uid, pod, evidence))


def list_rivals(evidence: CallFacts) -> tuple[Pod, ...]:
    """The pods past their admission of which a container may be starting without its devices.

    Also those that the API server has no longer: the kubelet hides a pod before it stops starting it.
    """
    # Of deleted pods there may be thousands: what is cheap to tell comes first.
    deleted = (
        pod
        for uid, pod in evidence.deleted.items()
        if is_past_admission(pod, evidence)
        and uid not in evidence.pods
        and uid not in evidence.ledger.released
        and may_start_hidden(uid, pod, evidence)
    )
    living = (
        pod
        for uid, pod in evidence.pods.items()
        if is_past_admission(pod, evidence) and _may_want(uid, pod, evidence)
    )
    return (*deleted, *_put_dying_last(living))


def may_start_hidden(uid: PodUid, pod: Pod, evidence: CallFacts) -> bool:
    """Whether a container that never had such devices may be starting in a pod that is not shown."""
    return (
        not pod.is_terminal
        and not pod.is_mirror  # anybody can forge one, which the kubelet does not start
        and uid not in evidence.admissions.turned_away
        and lacks_devices(pod, evidence.ledger, evidence.size, served=evidence.ledger.served(uid))
    )


def _put_dying_last(pods: Iterable[Pod]) -> tuple[Pod, ...]:
    return tuple(sorted(pods, key=lambda pod: pod.deleted_s is not None))


def _may_want(uid: PodUid, pod: Pod, evidence: CallFacts) -> bool:
    return (
        not pod.is_terminal
        and uid not in evidence.admissions.turned_away
        and uid not in evidence.ledger.freed
        and lacks_devices(pod, evidence.ledger, evidence.size)
    )


def list_former(pod: Pod, evidence: CallFacts) -> tuple[Pod, ...]:
    """The pods that had the name of `pod` before it and may still be what is shown under it.

    Somebody deleted them by force: else the kubelet has them end before the API server forgets them. Those of
    whose deletion it has heard have ended for the kubelet as well, and those that it had begun and whose
    devices it has taken back since. That a holding was released does not tell it: podresources shows names,
    and may show the former pod. Nor does it that the kubelet turned the pod away and took back its devices:
    it forgets that when it finds the name to be another pod's, and shows the pod as an active one again
    (1.33 to 1.37, pkg/kubelet/status, syncPod; kubelet_pods.go, isPodInactive).
    """
    shown = evidence.shown.get(pod.key)
    if shown is None:
        return ()
    ledger = evidence.ledger
    return tuple(
        one
        for uid, one in evidence.deleted.items()
        if one.name == pod.name
        and one.namespace == pod.namespace
        and uid not in evidence.pods
        and not one.is_terminal
        and not (uid in ledger.freed and is_past_admission(one, evidence))
        and uid not in evidence.heard
        and (_may_be(one, shown, evidence) or _may_be_rid_of_all(one, shown, evidence))
    )


def find_former_openings(pod: Pod, evidence: CallFacts) -> tuple[Match, ...]:
    """The containers of former pods of this name that the call may be for, by what is shown.

    A former pod whose deletion the watch has not shown yet has most likely ended, and does not count.
    """
    return tuple(
        match
        for former in list_former(pod, evidence)
        if kubelet_uid(former) not in evidence.missing
        and _may_want(kubelet_uid(former), former, evidence)
        and not is_past_admission(former, evidence)
        for match in find_openings(former, Proof.VISIBLE, evidence)
    )


def may_show_former(pod: Pod, evidence: CallFacts) -> bool:
    """Whether what is shown under the pod's name may be a former one, in its admission or past it."""
    return any(list_former(pod, evidence))


def _may_be(pod: Pod, shown: ShownPod, evidence: CallFacts) -> bool:
    """Whether what is shown can be this pod. Kubelets from 1.34 show all sidecars."""
    shows_sidecars = evidence.podresources is Podresources.GET_ACTIVE
    if shows_sidecars and {one.name for one in shown.containers} != list_shown_containers(pod):
        return False
    return is_same_pod(pod, shown, evidence.ledger) and not _is_of_another(pod, shown, evidence.ledger)


def _may_be_rid_of_all(pod: Pod, shown: ShownPod, evidence: CallFacts) -> bool:
    """Whether what is shown can be this pod, turned away, after the kubelet took back what it had by then."""
    has_none = not any(one.devices.get(evidence.ledger.resource) for one in shown.containers)
    is_alike = {one.name for one in shown.containers} == list_shown_containers(pod)
    return has_none and is_alike and not is_past_admission(pod, evidence)


def _is_of_another(pod: Pod, shown: ShownPod, ledger: Ledger) -> bool:
    """Whether devices are shown that, by all that is known, a container of that name in another pod has."""
    for container in shown.containers:
        own = ContainerKey(kubelet_uid(pod), container.name)
        for device in container.devices.get(ledger.resource, frozenset()):
            holders = ledger.holders(DeviceId(device))
            known = {holder.container for holder in holders if holder is not None}
            if own not in holders and None not in holders and container.name in known:
                return True
    return False


def needs_checkpoint(evidence: CallFacts) -> bool:
    """Whether it matters, and is not known, what plain init containers have."""
    if evidence.has_asked_checkpoint or evidence.ledger.knows_init_containers:
        return False
    return any(
        need.is_plain_init
        for pod in list_living(evidence)
        for need in list_needs(pod, evidence.ledger.resource)
    )


def is_past_admission(pod: Pod, evidence: CallFacts) -> bool:
    """Whether the kubelet may have admitted the pod and left it without devices."""
    return evidence.admissions.are_over_for(pod)


def find_openings(pod: Pod, proof: Proof, evidence: CallFacts) -> Iterator[Match]:
    """The containers the call may be for; of a pod in admission one, if they can be told apart.

    Of one past its admission nothing is proven: another of its containers may be starting.
    """
    shown = evidence.shown.get(pod.key)
    if shown is None or not _may_be(pod, shown, evidence):
        return
    is_past = is_past_admission(pod, evidence)
    find = find_gaps if is_past else find_next
    proof = Proof.EXCLUSION if is_past else proof
    for container in find(pod, shown, evidence.ledger, evidence.size):
        yield Match(ContainerKey(kubelet_uid(pod), container), pod, proof)
