"""A ProvisioningRequest as a value, and the status that is written of it."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final, Literal

import msgspec

from accelet.kube.apiresources import ApiResource
from accelet.kube.objects import RawObject, Wire, WireObject, read_object

PROVISIONING_REQUESTS: Final = ApiResource(
    "ProvisioningRequest", "provisioningrequests", "autoscaling.x-k8s.io", "v1"
)
_QUEUE: Final = re.compile(r"kueue\.x-k8s\.io/(v[a-z0-9]{1,20})")
_MOST_PODS: Final = 1_000_000

ConditionType = Literal["Accepted", "Provisioned", "Failed", "BookingExpired", "CapacityRevoked"]
Words = tuple[bool, str, str]
"""What a condition says: whether it holds, the reason, the message."""

_OVER: Final = frozenset(("Failed", "BookingExpired", "CapacityRevoked"))


class BookingCondition(Wire, frozen=True, kw_only=True):
    """One condition as all of Kubernetes has them."""

    type: str
    status: str
    reason: str
    message: str
    last_transition_time: datetime
    observed_generation: int | None = None


@dataclass(frozen=True, slots=True)
class BookedPods:
    """`count` pods like those of the PodTemplate of that name."""

    template: str
    count: int


@dataclass(frozen=True, slots=True)
class QueuedWorkload:
    """Kueue's Workload that a ProvisioningRequest is for."""

    version: str
    name: str
    uid: str


@dataclass(frozen=True, slots=True)
class Booking:
    """One ProvisioningRequest. `workload` is None where it is not one of Kueue's."""

    namespace: str
    name: str
    uid: str
    resource_version: str
    created_s: float
    class_name: str
    is_deleted: bool
    workload: QueuedWorkload | None
    pods: tuple[BookedPods, ...]
    conditions: tuple[BookingCondition, ...]
    slice_set: str = ""

    @property
    def key(self) -> tuple[str, str]:
        return self.namespace, self.name

    @property
    def is_in_force(self) -> bool:
        """Whether its slices are to be had and kept for it."""
        return not self.is_deleted and not any(self.holds(kind) for kind in _OVER)

    def holds(self, kind: str) -> bool:
        return any(one.type == kind and one.status == "True" for one in self.conditions)

    def since_s(self, kind: ConditionType) -> float:
        """Since when the condition is what it is; 0 where it was never said."""
        found = (one.last_transition_time.timestamp() for one in self.conditions if one.type == kind)
        return next(found, 0.0)


class _WireRef(Wire, frozen=True):
    name: str


class _WirePodSet(Wire, frozen=True):
    pod_template_ref: _WireRef
    count: int


class _WireSpec(Wire, frozen=True):
    provisioning_class_name: str
    pod_sets: list[_WirePodSet]


class _WireStatus(Wire, frozen=True):
    conditions: list[BookingCondition] | None = None
    provisioning_class_details: dict[str, str] | None = None


class _WireRequest(WireObject, frozen=True):
    spec: _WireSpec
    status: _WireStatus | None = None


def parse_booking(raw: RawObject) -> Booking:
    """The ProvisioningRequest that `raw` describes.

    Raises:
        MalformedObjectError: a field is not what the API promises.
    """
    wire = read_object(raw, "ProvisioningRequest", _WireRequest)
    metadata, status = wire.metadata, wire.status or _WireStatus()
    return Booking(
        namespace=metadata.namespace or "default",
        name=metadata.name,
        uid=metadata.uid or "",
        resource_version=metadata.resource_version or "",
        created_s=metadata.creation_timestamp.timestamp() if metadata.creation_timestamp else 0.0,
        class_name=wire.spec.provisioning_class_name,
        is_deleted=metadata.deletion_timestamp is not None,
        workload=_workload(wire),
        pods=tuple(
            BookedPods(one.pod_template_ref.name, min(max(one.count, 0), _MOST_PODS))
            for one in wire.spec.pod_sets
        ),
        conditions=tuple(status.conditions or ()),
        slice_set=(status.provisioning_class_details or {}).get("SliceSet", ""),
    )


def status_of(
    booking: Booking, said: Mapping[ConditionType, Words], slice_set: str, now_s: float
) -> dict[str, Any]:
    """The status that says `said`. Conditions that are not in it stay as they are."""
    found = [_condition(booking, kind, words, now_s) for kind, words in said.items()]
    found += [one for one in booking.conditions if one.type not in said]
    return {
        "conditions": [
            {key: value for key, value in msgspec.to_builtins(one).items() if value is not None}
            for one in sorted(found, key=lambda one: one.type)
        ],
        **({"provisioningClassDetails": {"SliceSet": slice_set}} if slice_set else {}),
    }


def _condition(booking: Booking, kind: ConditionType, words: Words, now_s: float) -> BookingCondition:
    is_true, reason, message = words
    truth = "True" if is_true else "False"
    known = next((one for one in booking.conditions if one.type == kind), None)
    since = datetime.fromtimestamp(int(now_s), UTC)
    if known is not None and known.status == truth:
        since = known.last_transition_time
    return BookingCondition(
        type=kind, status=truth, reason=reason, message=message, last_transition_time=since
    )


def _workload(wire: _WireRequest) -> QueuedWorkload | None:
    for owner in wire.metadata.owner_references or ():
        version = _QUEUE.fullmatch(owner.api_version or "")
        if owner.controller and owner.kind == "Workload" and version:
            return QueuedWorkload(version[1], owner.name, owner.uid)
    return None
