"""What helps a container to which the kubelet would give other devices than those it is assigned."""

from collections.abc import Collection, Iterator

from accelet.accelerators.device import DeviceId
from accelet.kube.poduid import PodUid
from resourcemanager.matching.candidates import list_needs
from resourcemanager.matching.inquiry import Match
from resourcemanager.surroundings import Surroundings
from resourcemanager.target import Target


def advise(found: Match, target: Target, chosen: Collection[DeviceId], surroundings: Surroundings) -> str:
    """What to do about it, as the end of a sentence.

    To create the pod again is said only where the same pod could be given what it is assigned: elsewhere the
    next one would be refused as well.
    """
    size, resource = len(set(chosen)), surroundings.resource
    most = len(target.devices)
    if size > most:
        return (
            f"it requests {size} {resource}, and what it is assigned has {most}: request as many as are"
            " assigned, or have as many assigned as it requests"
        )
    if (former := _find_forcing(found, target, chosen, surroundings)) is not None:
        return (
            f"the kubelet hands on what init container {former} had: have that one request no more than the"
            " containers after it, or assign it the same devices"
        )
    lacking = _explain_lacking(found.owner.pod_uid, target, size, surroundings)
    if lacking is not None:
        return f"{lacking}: have others assigned to it"
    return "what it is assigned is free, so create the pod again"


def _find_forcing(
    found: Match, target: Target, chosen: Collection[DeviceId], surroundings: Surroundings
) -> str | None:
    """The plain init container of the pod whose devices, not of the target, the kubelet hands on."""
    held = surroundings.ledger.containers_of(found.owner.pod_uid)
    strangers = set(chosen) - target.devices
    for need in list_needs(found.pod, surroundings.resource):
        is_before = need.container != found.owner.container
        if need.is_plain_init and is_before and strangers & held.get(need.container, frozenset()):
            return need.container
    return None


def _explain_lacking(own: PodUid, target: Target, size: int, surroundings: Surroundings) -> str | None:
    """Why the target cannot be given now, whatever the kubelet chooses; None where it can."""
    usable = target.devices - dict(_list_unusable(own, target, surroundings)).keys()
    is_enough = len(usable) >= size
    if is_enough and all(len(usable.intersection(want.devices)) >= want.count for want in target.wants):
        return None
    device, reason = next(_list_unusable(own, target, surroundings))
    return f"{device}, which it is assigned, is {reason}"


def _list_unusable(own: PodUid, target: Target, surroundings: Surroundings) -> Iterator[tuple[DeviceId, str]]:
    by_id, ledger = surroundings.inventory.by_id, surroundings.ledger
    for device in sorted(target.devices):
        if (reason := by_id[device].health.reason) is not None:
            yield device, f"unhealthy ({reason})"
        elif any(owner is None or owner.pod_uid != own for owner in ledger.holders(device)):
            yield device, "held by another pod"
