"""One request of the kubelet against what is there: an allocation, or a refusal in a sentence."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal

from accelet.accelerators.backend import Backend, EditsError, Tiles
from accelet.accelerators.device import Device, DeviceId
from accelet.accelerators.edits import ContainerEdits
from accelet.accelerators.inventory import Inventory
from resourcemanager.listing import Listing

WHOLE: Tiles = MappingProxyType({})
NOTHING_KNOWN: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Notice:
    """Something about an allocation that its owner should know, in a sentence."""

    kind: Literal["mismatch", "conflict", "unproven"]
    sentence: str


@dataclass(frozen=True, slots=True)
class Allocation:
    """What one container gets: its devices in order of hardware, and what it must be given for them.

    `tiles` are those it is restricted to, by unit. `annotations` come back in the kubelet's checkpoint.
    `reason` says why these, where an assignment could have said so.
    """

    devices: tuple[DeviceId, ...]
    edits: ContainerEdits
    tiles: Tiles = field(default_factory=lambda: WHOLE)
    reason: str = ""
    notices: tuple[Notice, ...] = ()
    annotations: Mapping[str, str] = field(default_factory=lambda: NOTHING_KNOWN)


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a container cannot have what the kubelet chose: a code for metrics, a sentence for its owner."""

    code: str
    sentence: str


def allocate(
    requested: Sequence[DeviceId],
    *,
    resource: str,
    backend: Backend,
    inventory: Inventory,
    listing: Listing,
    is_distinct: bool,
    tiles: Tiles = WHOLE,
    environment: Mapping[str, str] = NOTHING_KNOWN,
) -> Allocation | Refusal:
    """Gives a container the devices the kubelet chose for it, or says why not.

    `tiles` restricts it to some tiles of its units; `environment` is the container's own, where it is known.
    The answer depends on the ids and these alone, so that a repeated request (an init container's devices
    used again, a container re-allocated at its start) is answered alike. An id that some other container
    holds is no reason to refuse: kubelets up to 1.37 can hand one out twice.
    """
    ids = sorted(set(requested))
    if not ids:
        return Refusal(
            "empty-request",
            f"the call asks for no device of {resource}, as no kubelet does; find out who calls the agent",
        )
    for device in ids:
        entry = listing.entries.get(device)
        if entry is None:
            return Refusal(
                "unknown-device",
                f"{resource} has no device {device} on this node any more; create the pod again, for which"
                " the kubelet will choose another",
            )
        if not entry.health.is_healthy:
            return Refusal(
                "unhealthy-device",
                f"device {device} of {resource} is unhealthy ({entry.health.reason}); create the pod again,"
                " for which the kubelet will choose another",
            )
    devices = inventory.in_order(set(ids))
    if is_distinct and (shared := _two_of_one_unit(devices)):
        return Refusal(
            "not-distinct",
            f"{resource} gives a container different devices only, but {shared[0].id} and {shared[1].id} "
            "are shares of one; ask for no more than the node has, or set distinct: false for this resource",
        )
    try:
        edits = backend.edits(inventory, devices, tiles, environment)
    except EditsError as error:
        return Refusal("unusable-set", str(error))
    return Allocation(tuple(device.id for device in devices), edits, tiles)


def _two_of_one_unit(devices: Collection[Device]) -> tuple[Device, Device] | None:
    seen: dict[tuple[str, int | None], Device] = {}
    for device in devices:
        which = device.unit, device.tile
        if which in seen:
            return seen[which], device
        seen[which] = device
    return None
