"""The pods that a Workload of Kueue will have, as its pod sets and its quota say."""

from dataclasses import dataclass
from typing import Annotated

import msgspec

from accelet.kube.objects import RawObject, Wire, WireObject, read_object
from accelet.kube.podparser import parse_pod
from accelet.kube.pods import Pod
from accelet.scheduler.admission.kueue import MOST_POD_SETS

_Count = Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]
_Priority = Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)]
_PodSets = Annotated[list["_WirePodSet"], msgspec.Meta(max_length=MOST_POD_SETS)]
_Assignments = Annotated[list["_WireAssignment"], msgspec.Meta(max_length=MOST_POD_SETS)]


@dataclass(frozen=True, slots=True)
class PodSet:
    """`count` pods like `pod`, on nodes of these `flavors`; is_assigned: Kueue itself says on which."""

    name: str
    count: int
    pod: Pod
    flavors: tuple[str, ...] = ()
    is_assigned: bool = False


class _WireTemplateMetadata(Wire, frozen=True):
    annotations: dict[str, str] | None = None
    labels: dict[str, str] | None = None


class _WireTemplate(Wire, frozen=True):
    spec: dict[str, object]
    metadata: _WireTemplateMetadata | None = None


class _WirePodSet(Wire, frozen=True):
    template: _WireTemplate
    name: str = "main"
    count: _Count = 1


class _WireClass(Wire, frozen=True):
    group: str | None = None


class _WirePodsSpec(Wire, frozen=True):
    pod_sets: _PodSets
    priority: _Priority | None = None
    priority_class_ref: _WireClass | None = None


class _WireAssignment(Wire, frozen=True):
    name: str = "main"
    flavors: dict[str, str] | None = None
    count: _Count | None = None
    topology_assignment: object = None


class _WireAdmission(Wire, frozen=True):
    pod_set_assignments: _Assignments | None = None


class _WirePodsStatus(Wire, frozen=True):
    admission: _WireAdmission | None = None


class _WirePods(WireObject, frozen=True):
    spec: _WirePodsSpec
    status: _WirePodsStatus | None = None


def parse_pod_sets(raw: RawObject) -> tuple[PodSet, ...]:
    """The pods that a Workload will have, as its quota was reserved for them.

    Of what its templates say of metadata only annotations and labels count. Their priority is the Workload's
    where a PriorityClass of pods gives it, else 0.

    Raises:
        MalformedObjectError: a field is not what the API promises.
    """
    wire = read_object(raw, "Workload", _WirePods)
    admission = (wire.status or _WirePodsStatus()).admission or _WireAdmission()
    assigned = {one.name: one for one in admission.pod_set_assignments or ()}
    spec = wire.spec
    is_of_pods = spec.priority_class_ref is not None and spec.priority_class_ref.group == "scheduling.k8s.io"
    priority = (spec.priority or 0) if is_of_pods else 0
    return tuple(
        _read_pod_set(wire, one, assigned.get(one.name, _WireAssignment()), priority) for one in spec.pod_sets
    )


def _read_pod_set(wire: _WirePods, one: _WirePodSet, assigned: _WireAssignment, priority: int) -> PodSet:
    template, said = one.template, one.template.metadata or _WireTemplateMetadata()
    metadata = {
        "name": f"{wire.metadata.name}/{one.name}",
        "namespace": wire.metadata.namespace or "default",
        "annotations": said.annotations or {},
        "labels": said.labels or {},
    }
    pod = parse_pod(
        {"metadata": metadata, "spec": template.spec | {"priority": priority}}, keeps_environment=False
    )
    return PodSet(
        name=one.name,
        count=one.count if assigned.count is None else assigned.count,
        pod=pod,
        flavors=tuple(dict.fromkeys((assigned.flavors or {}).values())),
        is_assigned=assigned.topology_assignment is not None,
    )
