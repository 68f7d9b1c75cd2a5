"""What becomes of one claim: an entry to be remembered with its CDI file, or why not."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from accelet.accelerators.device import UnitId
from accelet.accelerators.edits import ContainerEdits, Folder
from accelet.accelerators.gathering import gather_edits
from accelet.dra.errors import ClaimError, NotYetError
from accelet.dra.names import FILES_DRIVER, GPU_DRIVER, GPU_RESOURCES
from accelet.dra.pool import DevicePool
from accelet.dra.preparing.cdi import WHOLE_CLAIM, CdiDevice, kind_of, nodes_in, render_cdi
from accelet.dra.preparing.claim import AllocatedClaim
from accelet.dra.preparing.claimtable import ClaimTable
from accelet.dra.preparing.consumers import ConsumerPod
from accelet.dra.preparing.entry import Entry, PreparedDevice
from accelet.dra.preparing.grant import Hardware, describe_with
from accelet.dra.preparing.hold import DeviceHold, explain_conflict, explain_parent_held, holds_of
from accelet.dra.preparing.opaque import environment_of
from accelet.dra.preparing.views import (
    Environment,
    OtherClaim,
    Views,
    prove_views,
    refuse_beside_plugin,
    refuse_mixture,
)


@dataclass(frozen=True)
class DriverOffer:
    """What one driver has on this node.

    `missing` are units that claims hold and no resource of the driver has, `elsewhere` those of them that are
    on the node all the same.
    """

    pool: DevicePool
    hardware: Hardware
    elsewhere: frozenset[UnitId] = frozenset()
    missing: frozenset[UnitId] = frozenset()


@dataclass(frozen=True, slots=True)
class Decision:
    """What is to be remembered and written; the host folders of its devices must be made first."""

    entry: Entry
    driver: str
    devices: tuple[CdiDevice, ...]

    def with_devices(self, devices: Sequence[CdiDevice]) -> "Decision":
        """The same with these in its CDI file, as where a folder could not be made."""
        entry = replace(self.entry, cdi=render_cdi(self.driver, devices).decode())
        return Decision(entry, self.driver, tuple(devices))


@dataclass(frozen=True)
class Wanted:
    """A claim whose allocation was understood, before anything is decided.

    `parents` are the physical functions of virtual ones that it is to hold.
    """

    claim: AllocatedClaim
    holds: tuple[DeviceHold, ...]
    settings: Mapping[str, Environment]
    parents: frozenset[UnitId] = frozenset()

    @property
    def requests(self) -> tuple[str, ...]:
        return tuple(sorted({hold.request for hold in self.holds}))


def understand(claim: AllocatedClaim, offer: DriverOffer) -> Wanted:
    """What the allocation means here.

    Raises:
        ClaimError: it cannot be meant for this node, or says what this driver does not know.
    """
    holds = holds_of(claim, offer.pool)
    if not holds:
        raise ClaimError(f"the claim has no device of {offer.pool.driver}")
    return _wanted(claim, holds, offer)


def understand_again(claim: AllocatedClaim, entry: Entry, offer: DriverOffer) -> Wanted:
    """The same of an allocation that is in the record: it means what it meant when it was first met.

    A name may be another device's by now, or that of none.
    """
    return _wanted(claim, entry.holds, offer)


def _wanted(claim: AllocatedClaim, holds: tuple[DeviceHold, ...], offer: DriverOffer) -> Wanted:
    units = {unit for hold in holds if hold.is_exclusive for unit, _ in hold.atoms}
    inventory = offer.hardware.inventory.by_unit
    found = (inventory[unit][0].parent for unit in units & inventory.keys())
    parents = frozenset(parent for parent in found if parent is not None)
    settings = environment_of(claim.configs, offer.pool.driver, claim.results)
    return Wanted(claim, holds, settings, parents)


def explain_stale(entry: Entry, offer: DriverOffer, boot: str) -> str | None:
    """Why a prepared claim cannot be given again as it is in the record; None where it can.

    Device files are numbered anew at each boot, and for cards that come back; the number of a card that left
    may be another's by now. A driver without resources judges no hardware.
    """
    if entry.boot != boot:
        return "the node was started anew since"
    if offer.hardware.backend is None:
        return None
    atoms = {atom for hold in entry.holds for atom in hold.atoms}
    inventory = offer.hardware.inventory.by_unit
    units = {unit for unit, _ in atoms} - offer.elsewhere
    if gone := sorted(units - inventory.keys()):
        return f"{gone[0]} is not there any more"
    if any(unit in units and tile >= inventory[unit][0].tile_count for unit, tile in atoms):
        return "a tile of it is not there any more"
    now = {(node.host_path, node.container_path) for unit in units for node in inventory[unit][0].nodes}
    recorded = nodes_in(entry.cdi)
    is_same = now <= recorded if units != {unit for unit, _ in atoms} else now == recorded
    return None if is_same else "its device files are others by now"


def may_set_environment(wanted: Wanted, offer: DriverOffer) -> bool:
    """Whether any container could be given environment by it, so that its pods must be known."""
    return any(
        describe_safely(wanted, offer, frozenset(some))
        for some in (wanted.requests, *((request,) for request in wanted.requests))
    )


def describe_safely(wanted: Wanted, offer: DriverOffer, requests: frozenset[str]) -> bool:
    """Whether these requests set anything; what cannot be used together would."""
    try:
        return bool(describe_with(offer.hardware, wanted.holds, wanted.settings, requests))
    except ClaimError:
        return True


def decide(
    wanted: Wanted,
    offer: DriverOffer,
    *,
    entries: ClaimTable,
    pods: Collection[ConsumerPod] | None,
    beside: Collection[OtherClaim],
    boot: str,
) -> Decision:
    """The entry for a claim.

    `entries` are all claims that are prepared; `pods` those the claim is reserved for, None where they did
    not have to be read; `beside` the other claims of the same call.

    Raises:
        ClaimError: it is refused for good.
        NotYetError: hardware of it is still held.
    """
    claim = wanted.claim
    holders = [one.holder for one in _others(claim, entries.of_hardware(wanted.holds, wanted.parents))]
    if conflict := explain_conflict(wanted.holds, holders) or explain_parent_held(wanted.parents, holders):
        raise NotYetError(conflict)
    describe = partial(describe_with, offer.hardware, wanted.holds, wanted.settings)
    owned = pods if claim.owner is not None or claim.is_extended else None
    views = prove_views(claim.name, wanted.requests, describe, owned)
    decision = _grant(wanted, offer, views, boot)
    if offer.pool.driver == FILES_DRIVER:
        former = _others(claim, entries.not_of(offer.hardware.inventory.by_unit))
        if held := _find_held_file(decision, offer, former):
            raise NotYetError(held)
    refuse_together(decision.entry, offer.pool.driver, entries=entries, pods=pods or (), beside=beside)
    return decision


def _others(claim: AllocatedClaim, entries: Collection[Entry]) -> list[Entry]:
    """Those that are not this allocation's own."""
    return [entry for entry in entries if entry.key != (claim.uid, claim.digest)]


def _find_held_file(decision: Decision, offer: DriverOffer, former: Collection[Entry]) -> str | None:
    """Which file of a claim is one that a claim in `former` holds as a part of a unit that is none any more.

    The files of a group are put together in order: when the first one leaves, the others move up. Files that
    several units have are meant to be shared.
    """
    inventory = offer.hardware.inventory.by_unit
    having = Counter(node.host_path for devices in inventory.values() for node in devices[0].nodes)
    own = {
        node.host_path
        for device in decision.devices
        for node in device.edits.nodes
        if having[node.host_path] < 2
    }
    for entry in former:
        if common := sorted(own & {host_path for host_path, _ in nodes_in(entry.cdi)}):
            return f"{common[0]} is still held by the claim {entry.holder.claim}"
    return None


def refuse_together(
    entry: Entry,
    driver: str,
    *,
    entries: ClaimTable,
    pods: Collection[ConsumerPod],
    beside: Collection[OtherClaim],
) -> None:
    """A claim is right only beside what else the containers have that use it.

    `entries` are all claims that are prepared, `beside` those of the same call that are not.

    Raises:
        ClaimError: a container of `pods` has something beside it.
    """
    used = {use.claim for pod in pods for use in pod.uses}
    known = [
        OtherClaim(other.name, other.has_environment)
        for other in entries.of_names(entry.namespace, used)
        if other.uid != entry.uid
    ]
    refuse_mixture(entry.name, has_environment=entry.has_environment, pods=pods, others=[*known, *beside])
    if driver == GPU_DRIVER:
        refuse_beside_plugin(entry.name, GPU_RESOURCES, pods)


def _grant(wanted: Wanted, offer: DriverOffer, views: Views, boot: str) -> Decision:
    claim, kind = wanted.claim, kind_of(offer.pool.driver)
    devices: list[CdiDevice] = []
    answers: list[PreparedDevice] = []
    for hold in wanted.holds:
        edits = _edits_of(hold, offer, views.by_request.get(hold.request, {}))
        if _is_first(hold, wanted.holds):
            beside = _edits_beside(hold.request, wanted, offer)
            edits = replace(edits, mounts=(*edits.mounts, *beside.mounts), folders=beside.folders)
        name = _cdi_name(claim, hold)
        devices.append(CdiDevice(name, edits))
        answers.append(
            PreparedDevice((hold.request,), hold.pool, hold.device, (f"{kind}={name}",), hold.share)
        )
    if views.whole:
        name = f"{claim.uid}-{claim.digest}-whole"
        devices.append(CdiDevice(name, ContainerEdits(environment=views.whole)))
        first = answers[0]
        ids = (*first.cdi_ids, f"{kind}={name}")
        answers.append(PreparedDevice((WHOLE_CLAIM,), first.pool, first.device, ids, first.share))
    entry = Entry(
        uid=claim.uid,
        digest=claim.digest,
        namespace=claim.namespace,
        name=claim.name,
        phase="started",
        holds=wanted.holds,
        answers=tuple(answers),
        cdi=render_cdi(offer.pool.driver, devices).decode(),
        has_environment=views.has_environment,
        boot=boot,
    )
    return Decision(entry, offer.pool.driver, tuple(devices))


def folders_of(wanted: Wanted, offer: DriverOffer) -> tuple[Folder, ...]:
    """The host folders that the claim's containers mount."""
    return tuple(
        folder for request in wanted.requests for folder in _edits_beside(request, wanted, offer).folders
    )


def _edits_of(hold: DeviceHold, offer: DriverOffer, environment: Environment) -> ContainerEdits:
    units = sorted({unit for unit, _ in hold.atoms})
    devices = [offer.hardware.inventory.by_unit[unit][0] for unit in units]
    own = {} if not hold.is_exclusive else environment
    return gather_edits(devices, own)


def _is_first(hold: DeviceHold, holds: Sequence[DeviceHold]) -> bool:
    return next(one for one in holds if one.request == hold.request) is hold


def _edits_beside(request: str, wanted: Wanted, offer: DriverOffer) -> ContainerEdits:
    """What a request's containers mount beside what each device brings, and the folders for it."""
    holds = [hold for hold in wanted.holds if hold.request == request and hold.is_exclusive]
    if not holds:
        return ContainerEdits()
    try:
        edits = offer.hardware.edits(holds, {})
    except ClaimError:
        return ContainerEdits()  # used together with others only, whose environment says where
    own = {mount.container_path for hold in holds for mount in _edits_of(hold, offer, {}).mounts}
    mounts = tuple(mount for mount in edits.mounts if mount.container_path not in own)
    return ContainerEdits(mounts=mounts, folders=edits.folders)


def _cdi_name(claim: AllocatedClaim, hold: DeviceHold) -> str:
    share = f"-{hold.share[:8]}" if hold.share else ""
    place = "" if hold.share or _is_named_once(hold, claim) else f"-{hold.request}"
    return f"{claim.uid}-{claim.digest}-{hold.device}{share}{place}"


def _is_named_once(hold: DeviceHold, claim: AllocatedClaim) -> bool:
    return sum(result.device == hold.device for result in claim.results) == 1
