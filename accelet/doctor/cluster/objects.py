"""Reads objects of the API: of each only the fields named here."""

from datetime import datetime
from typing import Annotated, Literal

import msgspec

from accelet.doctor.cluster.seen import BindingSeen, LeaseSeen, NodeMachine, PodSeen, PolicySeen, ProcessSeen
from accelet.kube.nodes import parse_node
from accelet.kube.objects import RawObject, Wire, WireMetadata, WireObject, read_object
from accelet.kube.podparser import parse_pod

COMPONENT = "app.kubernetes.io/component"
PART_OF = "app.kubernetes.io/part-of"


class _WireInfo(Wire, frozen=True):
    kubelet_version: str | None = None


class _WireNodeStatus(Wire, frozen=True):
    node_info: _WireInfo | None = None


class _WireMachine(WireObject, frozen=True):
    status: _WireNodeStatus | None = None


class _WireReason(Wire, frozen=True):
    reason: str | None = None


class _WireState(Wire, frozen=True):
    waiting: _WireReason | None = None


class _WireContainerStatus(Wire, frozen=True):
    state: _WireState | None = None


class _WireCondition(Wire, frozen=True):
    type: str
    status: str
    message: str | None = None


class _WirePodStatus(Wire, frozen=True):
    reason: str | None = None
    message: str | None = None
    conditions: list[_WireCondition] | None = None
    container_statuses: list[_WireContainerStatus] | None = None


class _WireNamed(Wire, frozen=True):
    name: str | None = None


class _WireVolume(Wire, frozen=True):
    config_map: _WireNamed | None = None


class _WireContainer(Wire, frozen=True):
    name: str | None = None
    image: str | None = None


class _WirePodSpec(Wire, frozen=True):
    containers: list[_WireContainer] | None = None
    service_account_name: str | None = None
    automount_service_account_token: bool | None = None
    volumes: list[_WireVolume] | None = None


class _WirePod(WireObject, frozen=True):
    spec: _WirePodSpec | None = None
    status: _WirePodStatus | None = None


class _WireTemplate(Wire, frozen=True):
    spec: _WirePodSpec | None = None


class _WireProcessSpec(Wire, frozen=True):
    template: _WireTemplate | None = None
    replicas: int | None = None


class _WireProcessStatus(Wire, frozen=True):
    desired_number_scheduled: int | None = None
    number_ready: int | None = None
    ready_replicas: int | None = None


class _WireProcess(WireObject, frozen=True):
    spec: _WireProcessSpec | None = None
    status: _WireProcessStatus | None = None


class _WireChecking(Wire, frozen=True):
    expression_warnings: list[object] | None = None


class _WirePolicyStatus(Wire, frozen=True):
    type_checking: _WireChecking | None = None


_CardNames = Annotated[
    list[Annotated[str, msgspec.Meta(pattern=r"^[a-z0-9.-]{1,253}/[A-Za-z0-9._-]{1,63}$")]],
    msgspec.Meta(max_length=64),
]


class _WireVariable(Wire, frozen=True):
    name: str | None = None
    expression: str | None = None


class _WirePolicySpec(Wire, frozen=True):
    variables: list[_WireVariable] | None = None
    failure_policy: str | None = None
    policy_name: str | None = None
    validation_actions: list[str] | None = None


class _WirePolicy(WireObject, frozen=True):
    spec: _WirePolicySpec | None = None
    status: _WirePolicyStatus | None = None


class _WireEntry(Wire, frozen=True):
    time: datetime | None = None


class _WireLeaseMetadata(WireMetadata, frozen=True):
    managed_fields: list[_WireEntry] | None = None


class _WireLeaseSpec(Wire, frozen=True):
    holder_identity: str | None = None
    lease_duration_seconds: int | None = None
    renew_time: datetime | None = None


class _WireLease(Wire, frozen=True):
    metadata: _WireLeaseMetadata
    spec: _WireLeaseSpec | None = None


def read_machine(raw: RawObject) -> NodeMachine:
    """
    Raises:
        MalformedObjectError: as of every function here.
    """
    status = read_object(raw, "Node", _WireMachine).status or _WireNodeStatus()
    return NodeMachine(parse_node(raw), (status.node_info or _WireInfo()).kubelet_version or "")


def read_pod(raw: RawObject) -> PodSeen:
    wire = read_object(raw, "Pod", _WirePod)
    status, spec = wire.status or _WirePodStatus(), wire.spec or _WirePodSpec()
    states = (one.state or _WireState() for one in status.container_statuses or ())
    unscheduled = (
        one for one in status.conditions or () if (one.type, one.status) == ("PodScheduled", "False")
    )
    return PodSeen(
        parse_pod(raw, keeps_environment=False),
        status.reason or "",
        status.message or "",
        next((one.message or "" for one in unscheduled), ""),
        tuple(state.waiting.reason or "" for state in states if state.waiting is not None),
        tuple(one.image or "" for one in spec.containers or () if not _is_beside(one.name or "")),
    )


def _is_beside(container: str) -> bool:
    """Whether it only goes with a device plugin, whose image NVIDIA gives it too."""
    return "feature-discovery" in container or "mps-control" in container


def read_process(raw: RawObject, kind: Literal["DaemonSet", "Deployment"]) -> ProcessSeen:
    wire = read_object(raw, kind, _WireProcess)
    spec, status = wire.spec or _WireProcessSpec(), wire.status or _WireProcessStatus()
    pod = (spec.template or _WireTemplate()).spec or _WirePodSpec()
    has_token = pod.automount_service_account_token is not False
    maps = [one.config_map.name for one in pod.volumes or () if one.config_map is not None]
    is_daemon = kind == "DaemonSet"
    wanted = status.desired_number_scheduled if is_daemon else (1 if spec.replicas is None else spec.replicas)
    return ProcessSeen(
        kind,
        wire.metadata.namespace or "",
        wire.metadata.name,
        (wire.metadata.labels or {}).get(COMPONENT, ""),
        wanted or 0,
        (status.number_ready if is_daemon else status.ready_replicas) or 0,
        (pod.service_account_name or "default") if has_token else "",
        next((name for name in maps if name), ""),
    )


def read_policy(raw: RawObject, kind: str) -> PolicySeen:
    wire = read_object(raw, kind, _WirePolicy)
    spec, status = wire.spec or _WirePolicySpec(), wire.status or _WirePolicyStatus()
    warnings = (status.type_checking or _WireChecking()).expression_warnings or ()
    said = next((one.expression for one in spec.variables or () if one.name == "cards"), None)
    fails_closed = spec.failure_policy != "Ignore"
    return PolicySeen(kind, wire.metadata.name, fails_closed, len(warnings), _card_names(said or ""))


def _card_names(expression: str) -> tuple[str, ...]:
    """The names of a list of CEL that is one of JSON too, as ours are; none of any other expression."""
    try:
        names = msgspec.json.decode(expression.encode(), type=_CardNames)
    except (msgspec.DecodeError, UnicodeEncodeError, RecursionError):
        return ()
    return tuple(names)


def read_binding(raw: RawObject, kind: str) -> BindingSeen:
    wire = read_object(raw, kind, _WirePolicy)
    spec = wire.spec or _WirePolicySpec()
    denies = kind.startswith("Mutating") or "Deny" in (spec.validation_actions or ())
    return BindingSeen(kind, wire.metadata.name, spec.policy_name or "", denies)


def read_lease(raw: RawObject) -> tuple[str, LeaseSeen, float | None]:
    """Its name, what it says, and by how much the holder's clock is ahead of the API server's.

    The holder writes when it renewed; the API server notes when it was given that, in whole seconds.
    """
    wire = read_object(raw, "Lease", _WireLease)
    spec = wire.spec or _WireLeaseSpec()
    renewed = spec.renew_time.timestamp() if spec.renew_time else None
    noted = [one.time.timestamp() for one in wire.metadata.managed_fields or () if one.time is not None]
    ahead_s = renewed - (max(noted) + 0.5) if renewed is not None and noted else None
    seen = LeaseSeen(spec.holder_identity or "", renewed, spec.lease_duration_seconds or 0)
    return wire.metadata.name, seen, ahead_s


class _WireClassSpec(Wire, frozen=True):
    extended_resource_name: str | None = None


class _WireClass(WireObject, frozen=True):
    spec: _WireClassSpec | None = None


def read_class(raw: RawObject) -> tuple[str, ...]:
    """The names by which containers may ask for devices of a DeviceClass."""
    wire = read_object(raw, "DeviceClass", _WireClass)
    given = (wire.spec or _WireClassSpec()).extended_resource_name
    return (f"deviceclass.resource.kubernetes.io/{wire.metadata.name}", *([given] if given else ()))


class _WireData(WireObject, frozen=True):
    data: dict[str, str] | None = None


def read_config_text(raw: RawObject) -> str:
    return (read_object(raw, "ConfigMap", _WireData).data or {}).get("config.yaml", "")


class _WireRegarding(Wire, frozen=True):
    kind: str | None = None
    namespace: str | None = None
    name: str | None = None


class _WireEvent(WireObject, frozen=True):
    regarding: _WireRegarding | None = None
    note: str | None = None
    reason: str | None = None


def read_event(raw: RawObject) -> tuple[str, float, str]:
    """What it is about, as namespace/name of a pod, when it was made, and what it says."""
    wire = read_object(raw, "Event", _WireEvent)
    about = wire.regarding or _WireRegarding()
    made = wire.metadata.creation_timestamp
    is_waiting = about.kind == "Pod" and wire.reason == "Waiting"
    name = f"{about.namespace}/{about.name}" if is_waiting else ""
    return name, made.timestamp() if made else 0.0, wire.note or ""


class _WireVersion(Wire, frozen=True):
    git_version: str | None = None


def read_version(raw: RawObject) -> str:
    return read_object(raw, "Version", _WireVersion).git_version or ""
