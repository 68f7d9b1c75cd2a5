"""What one pod may be asking for, read against the ledger and against what podresources shows of it."""

from collections.abc import Iterator, Set
from dataclasses import dataclass

from accelet.kube.pods import Container, Pod
from accelet.kube.poduid import kubelet_uid
from resourcemanager.holdings.evidence import ShownPod
from resourcemanager.holdings.ledger import Ledger


@dataclass(frozen=True, slots=True)
class Need:
    """One container's request for devices of a resource. `is_plain_init`: podresources never shows it."""

    container: str
    size: int
    is_plain_init: bool


def list_needs(pod: Pod, resource: str) -> tuple[Need, ...]:
    """The pod's requests for `resource`, in the order in which the kubelet allocates them.

    Not those that a resource claim serves: for them the kubelet asks no device plugin.
    """
    init = [(container, not container.is_sidecar) for container in pod.init_containers]
    main = [(container, False) for container in pod.containers]
    return tuple(
        Need(container.name, size, is_plain_init)
        for container, is_plain_init in (*init, *main)
        if (size := _size(container, pod, resource)) > 0
    )


def lacks_devices(pod: Pod, ledger: Ledger, size: int, served: Set[str] = frozenset()) -> bool:
    """Whether a request of this size is one that no record of the kubelet shows as met.

    `served` are containers that had devices once.
    """
    recorded = ledger.recorded(kubelet_uid(pod))
    return size > 0 and any(
        container.name not in recorded
        and container.name not in served
        and _size(container, pod, ledger.resource) == size
        for container in pod.all_containers
    )


def find_next(pod: Pod, shown: ShownPod, ledger: Ledger, size: int) -> tuple[str, ...]:
    """The container whose turn it is, if the kubelet is admitting this pod and `size` is what it asks.

    Empty if `shown` is another pod of the name, has all its devices, or the next container asks another
    number; more than one where it is not known what init containers have, and they ask the same number.
    """
    needs = list_needs(pod, ledger.resource)
    missing = find_missing(pod, shown, ledger)
    served = max((index + 1 for index, need in enumerate(needs) if need not in missing), default=0)
    if any(need in missing and not need.is_plain_init for need in needs[:served]):
        return ()  # a gap: not how an admission looks
    return tuple(need.container for need in _possible_next(needs[served:], ledger) if need.size == size)


def find_gaps(pod: Pod, shown: ShownPod, ledger: Ledger, size: int) -> tuple[str, ...]:
    """The containers that the kubelet would allocate `size` devices for when it starts them, in any order."""
    return tuple(need.container for need in find_missing(pod, shown, ledger) if need.size == size)


def find_missing(pod: Pod, shown: ShownPod, ledger: Ledger) -> tuple[Need, ...]:
    """The requests that the kubelet has not met, none if `shown` is another pod of the name."""
    if not is_same_pod(pod, shown, ledger):
        return ()
    given = {container.name for container in shown.containers if container.devices.get(ledger.resource)}
    allocated = ledger.allocated(kubelet_uid(pod))
    return tuple(
        need
        for need in list_needs(pod, ledger.resource)
        if need.container not in (allocated if need.is_plain_init else given)
    )


def is_same_pod(pod: Pod, shown: ShownPod, ledger: Ledger) -> bool:
    """Whether what podresources shows under the pod's name can be this pod.

    It has the pod's containers (kubelets before 1.29 leave out sidecars), and those that the kubelet's
    records give devices to have them. Podresources has no UID to compare.
    """
    names = {container.name for container in shown.containers}
    if not {container.name for container in pod.containers} <= names <= list_shown_containers(pod):
        return False
    recorded = ledger.recorded(kubelet_uid(pod))
    return all(
        container.devices.get(ledger.resource) == recorded[container.name]
        for container in shown.containers
        if container.name in recorded
    )


def list_shown_containers(pod: Pod) -> frozenset[str]:
    """The names of the containers that podresources shows of the pod: all but its plain init containers."""
    sidecars = (container for container in pod.init_containers if container.is_sidecar)
    return frozenset(container.name for container in (*pod.containers, *sidecars))


def _possible_next(needs: tuple[Need, ...], ledger: Ledger) -> Iterator[Need]:
    for need in needs:
        yield need
        if ledger.knows_init_containers or not need.is_plain_init:
            return


def _size(container: Container, pod: Pod, resource: str) -> int:
    limit = container.limits.get(resource)
    if limit is None or (container.name, resource) in pod.claimed_resources:
        return 0
    return int(limit)
