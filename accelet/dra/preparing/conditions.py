"""The condition `Ready` of a claim's devices, in its `status.devices`, as far as one driver writes it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from accelet.dra.errors import ClaimError
from accelet.dra.pool import Atom
from accelet.dra.preparing.claim import RESOURCE_CLAIMS, parse_claim
from accelet.dra.preparing.entry import Entry
from accelet.dra.preparing.hold import DeviceHold
from accelet.kube.errors import MalformedObjectError
from accelet.kube.objects import RawObject, Wire, WireObject, read_object
from accelet.kube.writing.conditions import (
    StatusCondition,
    WireStatusCondition,
    read_status_conditions,
    set_conditions,
)

READY: Final = "Ready"
LONGEST_MESSAGE: Final = 512

Place = tuple[str, str, str | None]
"""Pool, device and share: what the API tells the devices of one driver apart by."""


class _WireDevice(Wire, frozen=True):
    driver: str
    pool: str
    device: str
    share_id: str | None = msgspec.field(name="shareID", default=None)
    conditions: list[WireStatusCondition] | None = None


class _WireStatus(Wire, frozen=True):
    devices: list[_WireDevice] | None = None


class _WireClaim(WireObject, frozen=True):
    status: _WireStatus | None = None


@dataclass(frozen=True, slots=True)
class DeviceCondition:
    """What is said of one device."""

    place: Place
    ready: StatusCondition


def find_conditions(
    raw: RawObject, driver: str, entry: Entry, sick: Mapping[Atom, str], now: str
) -> tuple[DeviceCondition, ...] | None:
    """What the claim is to say of the devices that `entry` holds; None where it says so already.

    Devices that never fell ill are not spoken of; nothing is said in a claim that is another by now, or was
    allocated anew. `sick` are parts of hardware and why; `now` is RFC 3339.
    """
    try:
        claim = parse_claim(raw, driver)
    except ClaimError:
        return None
    if (claim.uid, claim.digest) != entry.key:
        return None
    before = _said(raw, driver)
    after: dict[Place, StatusCondition] = {}
    for hold in entry.holds:
        place = hold.pool, hold.device, hold.share
        if (ready := _ready(hold, sick, before.get(place), now)) is not None:
            after[place] = ready
    if after == before:
        return None
    return tuple(DeviceCondition(place, ready) for place, ready in after.items())


def render_conditions(
    entry: Entry, driver: str, conditions: Sequence[DeviceCondition]
) -> Mapping[str, object]:
    """The claim as it is to be applied; what others say in its status stays."""
    devices = []
    for condition in conditions:
        pool, device, share = condition.place
        ready = condition.ready.to_body()
        del ready["observedGeneration"]  # of a claim's spec, which nobody can change
        devices.append(
            {
                "driver": driver,
                "pool": pool,
                "device": device,
                **({"shareID": share} if share else {}),
                "conditions": [ready],
            }
        )
    return {
        "apiVersion": RESOURCE_CLAIMS.api_version,
        "kind": RESOURCE_CLAIMS.kind,
        "metadata": {"name": entry.name, "namespace": entry.namespace, "uid": entry.uid},
        "status": {"devices": devices},
    }


def _said(raw: RawObject, driver: str) -> Mapping[Place, StatusCondition]:
    """What the claim says of this driver's devices."""
    try:
        status = read_object(raw, RESOURCE_CLAIMS.kind, _WireClaim).status or _WireStatus()
    except MalformedObjectError:
        return {}  # whatever somebody wrote there is replaced
    return {
        (one.pool, one.device, one.share_id): condition
        for one in status.devices or ()
        if one.driver == driver
        for condition in read_status_conditions(one.conditions)
        if condition.type == READY
    }


def _ready(
    hold: DeviceHold, sick: Mapping[Atom, str], before: StatusCondition | None, now: str
) -> StatusCondition | None:
    reasons = sorted({sick[atom] for atom in hold.atoms if atom in sick})
    if reasons:
        message = f"{hold.device} is ill: {'; '.join(reasons)}"[:LONGEST_MESSAGE]
        ready = StatusCondition(READY, "False", "DeviceUnhealthy", message)
    elif before is not None:
        ready = StatusCondition(READY, "True", "DeviceHealthy", f"{hold.device} is well")
    else:
        return None
    (ready,) = set_conditions([] if before is None else [before], [ready], now)
    return ready
