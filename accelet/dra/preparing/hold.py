"""Hardware that claims hold, and whether another may be held beside it."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from accelet.accelerators.device import UnitId
from accelet.dra.errors import ClaimError
from accelet.dra.names import is_numbered
from accelet.dra.pool import Atom, DevicePool, PoolDevice
from accelet.dra.preparing.claim import AllocatedClaim, Result
from accelet.dra.publishing.keeping import HeldDevice

_SAID = 3
"""A sentence names no more parts than these."""


@dataclass(frozen=True, slots=True)
class DeviceHold:
    """One device of one claim. `share` is None where it is held alone.

    `amounts` are what is taken of the device's capacities `limits`.
    """

    request: str
    pool: str
    device: str
    atoms: frozenset[Atom]
    is_exclusive: bool = True
    share: str | None = None
    amounts: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))
    limits: Mapping[str, int] = field(default_factory=lambda: MappingProxyType({}))


@dataclass(frozen=True, slots=True)
class Holder:
    """A claim that is prepared on this node."""

    claim: str
    holds: tuple[DeviceHold, ...]


def holds_of(claim: AllocatedClaim, pool: DevicePool) -> tuple[DeviceHold, ...]:
    """What the claim's allocation means in hardware.

    Raises:
        ClaimError: it names devices this node does not publish, or in a way they cannot be held.
    """
    holds = tuple(_hold(result, pool) for result in claim.results)
    for place, hold in enumerate(holds):
        if conflict := _find_conflict(hold, holds[:place]):
            raise ClaimError(f"the claim was given {conflict} twice")
    return holds


def _hold(result: Result, pool: DevicePool) -> DeviceHold:
    device = pool.by_name.get(result.device)
    if result.pool != pool.node or device is None:
        said = f"the device {result.device[:64]} of pool {result.pool[:64]} is not on this node"
        earlier = ": its name is that of an earlier version; create the pod again"
        raise ClaimError(said + (earlier if is_numbered(result.device) else ""))
    if result.share is not None and not device.is_shareable:
        raise ClaimError(f"{device.name} cannot be shared, and was allocated as a share")
    return DeviceHold(
        request=result.request,
        pool=result.pool,
        device=device.name,
        atoms=device.atoms,
        is_exclusive=device.is_exclusive and not result.is_admin,
        share=result.share,
        amounts=result.amounts if result.share else {},
        limits=_limits(device),
    )


def _limits(device: PoolDevice) -> Mapping[str, int]:
    return {name: capacity.value for name, capacity in device.capacities.items()}


def explain_conflict(holds: Iterable[DeviceHold], others: Collection[Holder]) -> str | None:
    """Why `holds` cannot be held beside what the other claims hold; None where they can."""
    wanted = list(holds)
    for holder in others:
        for hold in wanted:
            if any(_excludes(hold, other) for other in holder.holds):
                return f"{hold.device} is still held by the claim {holder.claim}"
    for place, hold in enumerate(wanted):
        before = [*(other for holder in others for other in holder.holds), *wanted[:place]]
        if amount := _find_too_much(hold, before):
            return f"more {amount} of {hold.device} is held than it has"
    return None


def explain_parent_held(parents: Collection[UnitId], others: Collection[Holder]) -> str | None:
    """Why virtual functions of these physical ones cannot be held; None where they can."""
    for holder in others:
        for hold in holder.holds:
            if hold.is_exclusive and (found := {unit for unit, _ in hold.atoms} & set(parents)):
                claim = holder.claim
                return f"{min(found)}, whose virtual function it is, is still held by the claim {claim}"
    return None


def explain_held(
    holds: Iterable[DeviceHold], parents: Collection[UnitId], by_plugin: Collection[UnitId]
) -> str | None:
    """Why `holds` cannot be held beside what containers hold by the device plugin; None where they can.

    `parents` are the physical functions of virtual ones among them.
    """
    wanted = {unit for hold in holds if hold.is_exclusive for unit, _ in hold.atoms} | set(parents)
    if common := sorted(wanted & set(by_plugin)):
        return f"{common[0]} is still held by a pod that came by it as an extended resource of this node"
    return None


def held_devices(holds: Iterable[DeviceHold]) -> tuple[HeldDevice, ...]:
    """What these holds have of each device, by its name."""
    found: dict[str, HeldDevice] = {}
    for hold in holds:
        known = found.get(hold.device) or HeldDevice(hold.device, frozenset(), is_exclusive=False)
        found[hold.device] = HeldDevice(
            hold.device,
            known.atoms | hold.atoms,
            is_exclusive=known.is_exclusive or hold.is_exclusive,
            is_shared=known.is_shared or hold.share is not None,
            limits={**known.limits, **hold.limits},
        )
    return tuple(found.values())


def _find_conflict(hold: DeviceHold, others: Collection[DeviceHold]) -> str | None:
    is_again = hold in others  # as with monitors, which exclude nobody
    return hold.device if is_again or any(_excludes(hold, other) for other in others) else None


def _excludes(one: DeviceHold, other: DeviceHold) -> bool:
    """Whether both are made of the same hardware and do not share it by request."""
    if not (one.is_exclusive and other.is_exclusive) or one.atoms.isdisjoint(other.atoms):
        return False
    are_shares = one.device == other.device and one.share is not None and other.share is not None
    return not are_shares or one.share == other.share


def _find_too_much(hold: DeviceHold, others: Iterable[DeviceHold]) -> str | None:
    if hold.share is None:
        return None
    beside = [other for other in others if other.device == hold.device and other.share is not None]
    for name, limit in hold.limits.items():
        if sum(one.amounts.get(name, 0) for one in (hold, *beside)) > limit:
            return name
    return None
