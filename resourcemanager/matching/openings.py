"""Which containers of a pod a call may be for."""

from collections.abc import Iterator

from accelet.kube.pods import Pod
from accelet.kube.poduid import PodUid, kubelet_uid
from resourcemanager.holdings.evidence import ContainerKey
from resourcemanager.matching.candidates import find_gaps, find_next, has_all, lacks_devices, list_needs
from resourcemanager.matching.inquiry import Evidence, Match, Proof


def list_living(evidence: Evidence, *, with_deleted: bool = False) -> tuple[Pod, ...]:
    """The pods that may want devices of this number, in the order they stand in, those being deleted last.

    `with_deleted`: also pods that the API server has no longer, while no other has their name.
    """
    pods = dict(evidence.pods)
    if with_deleted:
        names = {pod.key for pod in pods.values()}
        pods |= {uid: pod for uid, pod in evidence.deleted.items() if pod.key not in names}
    living = (pod for uid, pod in pods.items() if _may_want(uid, pod, evidence))
    return tuple(sorted(living, key=lambda pod: pod.deleted_s is not None))


def _may_want(uid: PodUid, pod: Pod, evidence: Evidence) -> bool:
    return (
        not pod.is_terminal
        and uid not in evidence.admissions.turned_away
        and lacks_devices(pod, evidence.ledger, evidence.size)
    )


def list_former(pod: Pod, evidence: Evidence) -> tuple[Pod, ...]:
    """The pods that had the name of `pod` before it, and had not ended when they were deleted.

    Somebody deleted them by force: else the kubelet has them end before the API server forgets them.
    """
    return tuple(
        one
        for uid, one in evidence.deleted.items()
        if one.key == pod.key and uid not in evidence.pods and not one.is_terminal
    )


def find_former_openings(pod: Pod, evidence: Evidence) -> tuple[Match, ...]:
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


def may_show_former(pod: Pod, evidence: Evidence) -> bool:
    """Whether what is shown under the pod's name may be a former one that has all it asks for."""
    shown = evidence.shown.get(pod.key)
    return shown is not None and any(
        has_all(former, shown, evidence.ledger) for former in list_former(pod, evidence)
    )


def needs_checkpoint(evidence: Evidence) -> bool:
    """Whether it matters, and is not known, what plain init containers have."""
    if evidence.has_asked_checkpoint or evidence.ledger.knows_init_containers:
        return False
    return any(
        need.is_plain_init
        for pod in list_living(evidence)
        for need in list_needs(pod, evidence.ledger.resource)
    )


def is_past_admission(pod: Pod, evidence: Evidence) -> bool:
    """Whether the kubelet may have admitted the pod and left it without devices.

    It may not have known the resource then. It writes statuses of containers of those it has admitted alone.
    Of a static pod the API server knows only what was admitted before.
    """
    return (
        pod.has_started
        or bool(pod.statuses)
        or pod.is_mirror
        or kubelet_uid(pod) in evidence.admissions.skipped
    )


def find_openings(pod: Pod, proof: Proof, evidence: Evidence) -> Iterator[Match]:
    """The containers the call may be for; of a pod in admission one, if they can be told apart."""
    shown = evidence.shown.get(pod.key)
    if shown is None:
        return
    find = find_gaps if is_past_admission(pod, evidence) else find_next
    for container in find(pod, shown, evidence.ledger, evidence.size):
        yield Match(ContainerKey(kubelet_uid(pod), container), pod, proof)
