"""Which containers of a pod a call may be for."""

from collections.abc import Iterator

from accelet.kube.pods import Pod
from accelet.kube.poduid import kubelet_uid
from resourcemanager.holdings.evidence import ContainerKey
from resourcemanager.matching.candidates import find_gaps, find_next, lacks_devices, list_needs
from resourcemanager.matching.inquiry import Evidence, Match, Proof


def list_living(evidence: Evidence, *, with_deleted: bool = False) -> tuple[Pod, ...]:
    """The pods that may want devices of this number, newest first, those being deleted last.

    The order only decides who is asked for first. Resource versions grow with time on every API server;
    where they do not look like numbers the order is as it comes. `with_deleted`: also pods that the API
    server has no longer, while no other has their name.
    """
    pods = dict(evidence.pods)
    if with_deleted:
        names = {pod.key for pod in pods.values()}
        pods |= {uid: pod for uid, pod in evidence.deleted.items() if pod.key not in names}
    living = (
        pod
        for uid, pod in pods.items()
        if not pod.is_terminal
        and uid not in evidence.turned_away
        and lacks_devices(pod, evidence.ledger, evidence.size)
    )
    return tuple(sorted(living, key=lambda pod: (pod.deleted_s is not None, -_version(pod))))


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

    It may not have known the resource then; or a resource claim is what gives the pod its devices, and no
    call ever comes for it. Of a static pod the API server knows only what was admitted before.
    """
    return (
        pod.has_started
        or pod.is_mirror
        or pod.has_extended_resource_claim
        or kubelet_uid(pod) in evidence.older_than_resource
    )


def find_openings(pod: Pod, proof: Proof, evidence: Evidence) -> Iterator[Match]:
    """The containers the call may be for; of a pod in admission one, if they can be told apart."""
    shown = evidence.shown.get(pod.key)
    if shown is None:
        return
    find = find_gaps if is_past_admission(pod, evidence) else find_next
    for container in find(pod, shown, evidence.ledger, evidence.size):
        yield Match(ContainerKey(kubelet_uid(pod), container), pod, proof)


def _version(pod: Pod) -> int:
    return int(pod.resource_version) if pod.resource_version.isdecimal() else 0
