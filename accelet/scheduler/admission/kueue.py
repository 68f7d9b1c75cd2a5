"""Kueue's Workloads, AdmissionChecks and ResourceFlavors (kueue.x-k8s.io/v1beta2), as far as we need them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated

import msgspec

from accelet.kube.apiresources import ApiResource
from accelet.kube.objects import (
    EMPTY,
    ObjectKey,
    Owner,
    RawObject,
    Wire,
    WireObject,
    no_labels,
    read_object,
    read_owners,
)
from accelet.kube.selection import Toleration, WireToleration, read_tolerations
from accelet.kube.writing.conditions import StatusCondition, WireStatusCondition, read_status_conditions

CONTROLLER = "accelet.dev/placement"
"""What the `controllerName` of an AdmissionCheck says that is for this scheduler."""

WORKLOADS = ApiResource("Workload", "workloads", "kueue.x-k8s.io", "v1beta2")
ADMISSION_CHECKS = ApiResource("AdmissionCheck", "admissionchecks", "kueue.x-k8s.io", "v1beta2")
RESOURCE_FLAVORS = ApiResource("ResourceFlavor", "resourceflavors", "kueue.x-k8s.io", "v1beta2")

MOST_POD_SETS = 8
"""Of one Workload, and so many checks, by Kueue's own definition."""

_MOST_RETRIES = 1_000
_Checks = Annotated[list["_WireCheck"], msgspec.Meta(max_length=MOST_POD_SETS)]


@dataclass(frozen=True, slots=True)
class CheckState:
    """What an AdmissionCheck says of a Workload: Pending, Ready, Retry or Rejected, after so many retries."""

    name: str
    state: str
    retries: int = 0


@dataclass(frozen=True, slots=True)
class PodSetQuota:
    """For how many pods of a pod set there is quota, None for all of them, and of which flavors."""

    name: str
    count: int | None = None
    flavors: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class KueueWorkload:
    """A Workload of Kueue without its pods, which are read when they are to be planned.

    `reserved_s` is since when it has quota, None while it has none, or loses it, or is over, and `quota` for
    what. `owner` is what makes its pods. It is `is_admitted` once they may be made.
    """

    namespace: str
    name: str
    uid: str
    resource_version: str = field(default="", compare=False)
    owner: Owner | None = None
    reserved_s: float | None = None
    quota: tuple[PodSetQuota, ...] = ()
    is_admitted: bool = False
    checks: tuple[CheckState, ...] = ()

    @property
    def key(self) -> ObjectKey:
        return self.namespace, self.name

    def of(self, checks: Iterable[str]) -> list[CheckState]:
        """What those of these names say of it."""
        names = frozenset(checks)
        return [check for check in self.checks if check.name in names]


@dataclass(frozen=True, slots=True)
class AdmissionCheck:
    """Who evaluates it, and what is said of that in its status."""

    name: str
    controller: str
    has_parameters: bool = False
    generation: int = 0
    resource_version: str = field(default="", compare=False)
    conditions: tuple[StatusCondition, ...] = ()


@dataclass(frozen=True, slots=True)
class ResourceFlavor:
    """What pods are given that get quota of it."""

    name: str
    node_labels: Mapping[str, str] = field(default_factory=no_labels)
    tolerations: tuple[Toleration, ...] = ()


class _WireTimedCondition(Wire, frozen=True):
    type: str
    status: str
    last_transition_time: datetime | None = None


class _WireCheck(Wire, frozen=True):
    name: str
    state: str
    retry_count: int | None = None


class _WireWorkloadSpec(Wire, frozen=True):
    active: bool | None = None


class _WireAssignment(Wire, frozen=True):
    name: str = "main"
    count: int | None = None
    flavors: dict[str, str] | None = None


class _WireAdmission(Wire, frozen=True):
    pod_set_assignments: list[_WireAssignment] | None = None


class _WireWorkloadStatus(Wire, frozen=True):
    conditions: list[_WireTimedCondition] | None = None
    admission: _WireAdmission | None = None
    admission_checks: _Checks | None = None


class _WireQueued(WireObject, frozen=True):
    spec: _WireWorkloadSpec | None = None
    status: _WireWorkloadStatus | None = None


class _WireCheckSpec(Wire, frozen=True):
    controller_name: str
    parameters: object = None


class _WireCheckStatus(Wire, frozen=True):
    conditions: list[WireStatusCondition] | None = None


class _WireGeneration(Wire, frozen=True):
    generation: int | None = None


class _WireGenerated(Wire, frozen=True):
    metadata: _WireGeneration


class _WireAdmissionCheck(WireObject, frozen=True):
    spec: _WireCheckSpec
    status: _WireCheckStatus | None = None


class _WireFlavorSpec(Wire, frozen=True):
    node_labels: dict[str, str] | None = None
    tolerations: list[WireToleration] | None = None


class _WireFlavor(WireObject, frozen=True):
    spec: _WireFlavorSpec | None = None


def parse_kueue_workload(raw: RawObject) -> KueueWorkload:
    """
    Raises:
        MalformedObjectError: a field is not what Kueue's API promises.
    """
    wire = read_object(raw, "Workload", _WireQueued)
    metadata, status = wire.metadata, wire.status or _WireWorkloadStatus()
    assigned = (status.admission or _WireAdmission()).pod_set_assignments or []
    true = {one.type: one for one in status.conditions or () if one.status == "True"}
    reserved = true.get("QuotaReserved")
    is_over = bool({"Evicted", "Finished"} & true.keys()) or metadata.deletion_timestamp is not None
    if reserved is None or is_over or (wire.spec and wire.spec.active is False):
        reserved_s = None
    else:
        since = reserved.last_transition_time
        reserved_s = since.timestamp() if since else 0.0
    return KueueWorkload(
        namespace=metadata.namespace or "default",
        name=metadata.name,
        uid=metadata.uid or "",
        resource_version=metadata.resource_version or "",
        owner=next((one for one in read_owners(metadata.owner_references) if one.is_controller), None),
        reserved_s=reserved_s,
        quota=tuple(
            PodSetQuota(one.name, one.count, frozenset((one.flavors or {}).values()))
            for one in assigned[:MOST_POD_SETS]
        ),
        is_admitted="Admitted" in true,
        checks=tuple(
            CheckState(one.name, one.state, max(0, min(one.retry_count or 0, _MOST_RETRIES)))
            for one in status.admission_checks or ()
        ),
    )


def parse_admission_check(raw: RawObject) -> AdmissionCheck:
    """
    Raises:
        MalformedObjectError: a field is not what Kueue's API promises.
    """
    wire = read_object(raw, "AdmissionCheck", _WireAdmissionCheck)
    generation = read_object(raw, "AdmissionCheck", _WireGenerated).metadata.generation
    return AdmissionCheck(
        name=wire.metadata.name,
        controller=wire.spec.controller_name,
        has_parameters=wire.spec.parameters is not None,
        generation=generation or 0,
        resource_version=wire.metadata.resource_version or "",
        conditions=read_status_conditions((wire.status or _WireCheckStatus()).conditions),
    )


def parse_flavor(raw: RawObject) -> ResourceFlavor:
    """
    Raises:
        MalformedObjectError: a field is not what Kueue's API promises.
    """
    wire = read_object(raw, "ResourceFlavor", _WireFlavor)
    spec = wire.spec or _WireFlavorSpec()
    return ResourceFlavor(wire.metadata.name, spec.node_labels or EMPTY, read_tolerations(spec.tolerations))
