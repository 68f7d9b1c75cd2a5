"""Raw pods to values."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice

import msgspec

from accelet.kube.objects import (
    EMPTY,
    NO_AMOUNTS,
    Amounts,
    RawObject,
    Wire,
    WireCondition,
    WireMetadata,
    WireObject,
    WireQuantities,
    no_labels,
    read_conditions,
    read_labels,
    read_object,
    read_owners,
    read_resources,
    share_text,
)
from accelet.kube.pods import ANY_ADDRESS, Container, ContainerStatus, HostPort, Pod, UsedClaim
from accelet.kube.selection import (
    NodeTerm,
    PreferredTerm,
    Toleration,
    WireNodeAffinity,
    WirePodAffinity,
    WireSpread,
    WireToleration,
    count_requirements,
    read_apart,
    read_required_keys,
    read_spread,
    read_term,
    read_together,
    read_tolerations,
)

_ENDING_S = 30
"""What the API server writes where nobody says how long a pod is given to end."""

_LONGEST_S = 2**31
MOST_PORTS = 100
_HIGHEST_PORT = 65_535
MOST_VARIABLES = 1000
MOST_RULES = 1000
"""Gates, selector labels, tolerations, requirements and their values of one pod: the API server sets them no
bound, and each takes hundreds of bytes here, and time for each node.
"""

RESTART_ALL_CONTAINERS = "RestartAllContainersOnContainerExits"
USERS_ON_HOST_NETWORK = "UserNamespacesHostNetworkSupport"
"""Names of features that nodes declare."""

LONGEST_VALUE = 1000
MOST_CLAIMS = 100
LONGEST_CLAIM = 253
"""Of a pod; more claims are not read. No object has a longer name, but a volume may name one."""


class _WireResources(Wire, frozen=True):
    requests: WireQuantities = None
    limits: WireQuantities = None


class _WireVariable(Wire, frozen=True):
    name: str
    value: str | None = None
    value_from: object = None


class _WirePort(Wire, frozen=True):
    host_port: int | None = None
    protocol: str | None = None
    host_ip: str | None = msgspec.field(name="hostIP", default=None)


class _WireMount(Wire, frozen=True):
    name: str


class _WireRestartRule(Wire, frozen=True):
    action: str | None = None


class _WireContainer(Wire, frozen=True):
    name: str
    volume_mounts: list[_WireMount] | None = None
    ports: list[_WirePort] | None = None
    restart_policy: str | None = None
    restart_policy_rules: list[_WireRestartRule] | None = None
    resources: _WireResources | None = None
    env: list[_WireVariable] | None = None


class _WireProjection(Wire, frozen=True):
    service_account_token: dict[str, object] | None = None


class _WireProjected(Wire, frozen=True):
    sources: list[_WireProjection] | None = None


class _WireUsedClaim(Wire, frozen=True):
    claim_name: str | None = None


class _WireEphemeral(Wire, frozen=True):
    """The template of a claim, of which nothing is read."""


class _WireVolume(Wire, frozen=True):
    name: str
    projected: _WireProjected | None = None
    persistent_volume_claim: _WireUsedClaim | None = None
    ephemeral: _WireEphemeral | None = None


class _WireNamed(Wire, frozen=True):
    name: str


class _WireAffinity(Wire, frozen=True):
    node_affinity: WireNodeAffinity | None = None
    pod_affinity: WirePodAffinity | None = None
    pod_anti_affinity: WirePodAffinity | None = None


class _WireSchedulingGroup(Wire, frozen=True):
    pod_group_name: str | None = None


class _WireSpec(Wire, frozen=True):
    containers: list[_WireContainer]
    init_containers: list[_WireContainer] | None = None
    volumes: list[_WireVolume] | None = None
    node_name: str | None = None
    restart_policy: str | None = None
    active_deadline_seconds: int | None = None
    termination_grace_period_seconds: int | None = None
    scheduling_gates: list[_WireNamed] | None = None
    priority: int | None = None
    preemption_policy: str | None = None
    scheduling_group: _WireSchedulingGroup | None = None
    scheduler_name: str | None = None
    node_selector: dict[str, str] | None = None
    affinity: _WireAffinity | None = None
    topology_spread_constraints: list[WireSpread] | None = None
    tolerations: list[WireToleration] | None = None
    overhead: WireQuantities = None
    resources: _WireResources | None = None
    resource_claims: list[object] | None = None
    host_network: bool | None = None
    host_users: bool | None = None


class _WireState(Wire, frozen=True):
    running: dict[str, object] | None = None
    terminated: dict[str, object] | None = None


class _WireContainerStatus(Wire, frozen=True):
    name: str
    state: _WireState | None = None
    last_state: _WireState | None = None
    restart_count: int | None = None
    allocated_resources: WireQuantities = None
    resources: _WireResources | None = None


class _WireRequestMapping(Wire, frozen=True):
    container_name: str
    resource_name: str


class _WireExtendedClaim(Wire, frozen=True):
    request_mappings: list[_WireRequestMapping] | None = None


class _WireStatus(Wire, frozen=True):
    phase: str | None = None
    start_time: datetime | None = None
    conditions: list[WireCondition] | None = None
    init_container_statuses: list[_WireContainerStatus] | None = None
    container_statuses: list[_WireContainerStatus] | None = None
    nominated_node_name: str | None = None
    extended_resource_claim_status: _WireExtendedClaim | None = None
    allocated_resources: WireQuantities = None
    resources: _WireResources | None = None


class _WirePod(WireObject, frozen=True):
    spec: _WireSpec
    status: _WireStatus | None = None


def parse_pod(raw: RawObject, *, keeps_environment: bool = True) -> Pod:
    """The Pod that `raw` describes. As in the API, absent requests of a container are its limits.

    Without the containers' environment a pod takes half the memory or less, which counts where a whole
    cluster is watched. With it, it is kept of containers that ask for an extended resource, as far as
    MOST_VARIABLES and LONGEST_VALUE go: who writes a pod may fill a megabyte with it.

    Raises:
        MalformedObjectError: a field is not what the API promises.
    """
    wire = read_object(raw, "Pod", _WirePod)
    metadata, spec, status = wire.metadata, wire.spec, wire.status or _WireStatus()
    affinity = spec.affinity or _WireAffinity()
    level, rules = status.resources, _read_rules(spec)

    def containers(wires: list[_WireContainer] | None, place: str) -> tuple[Container, ...]:
        return tuple(
            _container(container, f"{place}[{index}]", metadata, keeps_environment=keeps_environment)
            for index, container in enumerate(wires or ())
        )

    return Pod(
        namespace=share_text(metadata.namespace or "default"),
        name=metadata.name,
        uid=metadata.uid or "",
        resource_version=metadata.resource_version or "",
        created_s=_seconds(metadata.creation_timestamp) or 0.0,
        deleted_s=_seconds(metadata.deletion_timestamp),
        grace_s=max(0, metadata.deletion_grace_period_seconds or 0),
        labels=read_labels(metadata.labels),
        annotations=read_labels(metadata.annotations),
        owners=read_owners(metadata.owner_references),
        node_name=share_text(spec.node_name) if spec.node_name else None,
        phase=share_text(status.phase or "Pending"),
        nominated_node=status.nominated_node_name or None,
        restart_policy=share_text(spec.restart_policy or "Always"),
        started_s=_seconds(status.start_time),
        deadline_s=_bounded(spec.active_deadline_seconds),
        ending_s=_ENDING_S if (given := _bounded(spec.termination_grace_period_seconds)) is None else given,
        gates=rules.gates,
        unread=rules.unread,
        priority=spec.priority or 0,
        pod_group=(spec.scheduling_group.pod_group_name or None) if spec.scheduling_group else None,
        may_preempt=spec.preemption_policy != "Never",
        scheduler_name=share_text(spec.scheduler_name or "default-scheduler"),
        node_selector=rules.node_selector,
        required_terms=rules.required_terms,
        preferred_terms=rules.preferred_terms,
        has_pod_rules=bool(
            (affinity.pod_affinity and affinity.pod_affinity.says_anything)
            or (affinity.pod_anti_affinity and affinity.pod_anti_affinity.says_anything)
            or spec.topology_spread_constraints
        ),
        tolerations=rules.tolerations,
        init_containers=containers(spec.init_containers, "spec.initContainers"),
        containers=containers(spec.containers, "spec.containers"),
        overhead=_amounts(spec.overhead, "spec.overhead", metadata),
        level_requests=(
            _amounts(spec.resources.requests, "spec.resources.requests", metadata)
            if spec.resources
            else NO_AMOUNTS
        ),
        level_allocated=_optional(status.allocated_resources, "status.allocatedResources", metadata),
        level_actuated=_amounts(level.requests, "status.resources.requests", metadata) if level else None,
        statuses=_statuses(status, metadata),
        conditions=read_conditions(status.conditions),
        has_resource_claims=bool(spec.resource_claims),
        mounts_token=_mounts_token(spec),
        host_ports=_host_ports(spec),
        apart_from=read_apart(
            affinity.pod_anti_affinity, metadata.namespace or "default", metadata.labels or {}
        ),
        together_with=read_together(
            affinity.pod_affinity, metadata.namespace or "default", metadata.labels or {}
        ),
        spread=read_spread(
            spec.topology_spread_constraints, metadata.namespace or "default", metadata.labels or {}
        ),
        claimed_resources=_claimed(status.extended_resource_claim_status),
        volume_claims=_used_claims(spec, metadata.name),
        features=_needed_features(spec),
        required_keys=read_required_keys(affinity.pod_affinity, spec.topology_spread_constraints),
    )


@dataclass(frozen=True, slots=True)
class _Rules:
    """Which nodes a pod may be on, and when. Where that is not read, no node."""

    gates: tuple[str, ...]
    unread: str = ""
    node_selector: Mapping[str, str] = field(default_factory=no_labels)
    required_terms: tuple[NodeTerm, ...] | None = ()
    preferred_terms: tuple[PreferredTerm, ...] = ()
    tolerations: tuple[Toleration, ...] = ()


def _read_rules(spec: _WireSpec) -> _Rules:
    affinity = (spec.affinity.node_affinity if spec.affinity else None) or WireNodeAffinity()
    required = affinity.required.node_selector_terms or [] if affinity.required else None
    preferred = affinity.preferred or []
    terms = [*(required or ()), *(liked.preference for liked in preferred)]
    listed = (spec.scheduling_gates, spec.node_selector, spec.tolerations)
    count = sum(len(one or ()) for one in listed) + sum(map(count_requirements, terms))
    gates = tuple(share_text(gate.name) for gate in (spec.scheduling_gates or ())[:MOST_RULES])
    if count > MOST_RULES:
        what = "gates, selector labels, tolerations, and requirements of node affinity with their values"
        return _Rules(gates, f"it has {count:,} {what}: at most {MOST_RULES:,} are read")
    return _Rules(
        gates=gates,
        node_selector=spec.node_selector or EMPTY,
        required_terms=None if required is None else tuple(map(read_term, required)),
        preferred_terms=tuple(
            PreferredTerm(liked.weight, read_term(liked.preference)) for liked in preferred
        ),
        tolerations=read_tolerations(spec.tolerations),
    )


def _host_ports(spec: _WireSpec) -> frozenset[HostPort]:
    sidecars = (one for one in spec.init_containers or () if one.restart_policy == "Always")
    ports = (port for one in (*sidecars, *spec.containers) for port in one.ports or ())
    return frozenset(
        (share_text(port.host_ip or ANY_ADDRESS), share_text(port.protocol or "TCP"), port.host_port)
        for port in islice(ports, MOST_PORTS)
        if port.host_port and 0 < port.host_port <= _HIGHEST_PORT
    )


def _needed_features(spec: _WireSpec) -> frozenset[str]:
    """What kube-scheduler's plugin NodeDeclaredFeatures infers from a pod (component-helpers v0.36)."""
    containers = (*(spec.init_containers or ()), *spec.containers)
    rules = (rule for one in containers for rule in one.restart_policy_rules or ())
    restarts_all = any(rule.action == "RestartAllContainers" for rule in rules)
    has_users = bool(spec.host_network) and spec.host_users is False
    found = (RESTART_ALL_CONTAINERS,) * restarts_all + (USERS_ON_HOST_NETWORK,) * has_users
    return frozenset(found)


def _mounts_token(spec: _WireSpec) -> bool:
    """A volume that no container mounts the kubelet leaves out (volumemanager, processPodVolumes)."""
    tokens = {
        volume.name
        for volume in spec.volumes or ()
        if volume.projected is not None
        and any(source.service_account_token is not None for source in volume.projected.sources or ())
    }
    if not tokens:
        return False
    containers = (*(spec.init_containers or ()), *spec.containers)
    return any(mount.name in tokens for one in containers for mount in one.volume_mounts or ())


def _used_claims(spec: _WireSpec, pod: str) -> tuple[UsedClaim, ...]:
    found: dict[UsedClaim, None] = {}
    for volume in spec.volumes or ():
        if volume.persistent_volume_claim is not None:
            name = (volume.persistent_volume_claim.claim_name or "")[: LONGEST_CLAIM + 1]
            found[UsedClaim(share_text(name))] = None
        elif volume.ephemeral is not None:
            found[UsedClaim(f"{pod}-{volume.name}"[: LONGEST_CLAIM + 1], is_ephemeral=True)] = None
        if len(found) == MOST_CLAIMS:
            break
    return tuple(found)


def _claimed(claim: _WireExtendedClaim | None) -> frozenset[tuple[str, str]]:
    mappings = (claim.request_mappings if claim else None) or ()
    return frozenset((one.container_name, one.resource_name) for one in mappings)


def _container(
    wire: _WireContainer, place: str, metadata: WireMetadata, *, keeps_environment: bool
) -> Container:
    return Container(
        name=share_text(wire.name),
        requests=_requests(wire.resources, f"{place}.resources", metadata),
        limits=_limits(wire.resources, f"{place}.resources", metadata),
        environment=(
            _environment(wire.env) if keeps_environment and _asks_for_devices(wire.resources) else EMPTY
        ),
        referred_environment=(
            _referred(wire.env) if keeps_environment and _asks_for_devices(wire.resources) else frozenset()
        ),
        is_sidecar=place.startswith("spec.init") and wire.restart_policy == "Always",
    )


def _environment(wire: list[_WireVariable] | None) -> Mapping[str, str]:
    variables = islice((v for v in wire or () if v.value_from is None), MOST_VARIABLES)
    return {share_text(v.name): (v.value or "")[:LONGEST_VALUE] for v in variables} or EMPTY


def _referred(wire: list[_WireVariable] | None) -> frozenset[str]:
    variables = islice((v for v in wire or () if v.value_from is not None), MOST_VARIABLES)
    return frozenset(share_text(v.name) for v in variables)


def _asks_for_devices(wire: _WireResources | None) -> bool:
    asked = (*(wire.limits or ()), *(wire.requests or ())) if wire else ()
    return any("/" in name for name in asked)


def _requests(wire: _WireResources | None, place: str, metadata: WireMetadata) -> Amounts:
    if wire is None:
        return NO_AMOUNTS
    limits = _limits(wire, place, metadata)
    requests = _amounts(wire.requests, f"{place}.requests", metadata)
    # The same mapping serves both where they are equal: most pods with devices are so.
    return limits if requests.items() <= limits.items() else {**limits, **requests}


def _limits(wire: _WireResources | None, place: str, metadata: WireMetadata) -> Amounts:
    return _amounts(wire.limits, f"{place}.limits", metadata) if wire else NO_AMOUNTS


def _statuses(status: _WireStatus, metadata: WireMetadata) -> Mapping[str, ContainerStatus]:
    found: dict[str, ContainerStatus] = {}
    for place, wires in (
        ("status.initContainerStatuses", status.init_container_statuses),
        ("status.containerStatuses", status.container_statuses),
    ):
        for index, wire in enumerate(wires or ()):
            found[share_text(wire.name)] = _container_status(wire, f"{place}[{index}]", metadata)
    return found


def _container_status(wire: _WireContainerStatus, place: str, metadata: WireMetadata) -> ContainerStatus:
    state, last = wire.state or _WireState(), wire.last_state or _WireState()
    is_running, is_terminated = state.running is not None, state.terminated is not None
    restarts = wire.restart_count or 0
    actuated = wire.resources
    return ContainerStatus(
        state="running" if is_running else "terminated" if is_terminated else "waiting",
        has_run=is_running or is_terminated or last.terminated is not None or restarts > 0,
        restarts=restarts,
        allocated=_optional(wire.allocated_resources, f"{place}.allocatedResources", metadata),
        actuated=(_amounts(actuated.requests, f"{place}.resources.requests", metadata) if actuated else None),
    )


def _amounts(wire: WireQuantities, place: str, metadata: WireMetadata) -> Amounts:
    return read_resources(wire, place, "Pod", metadata)


def _optional(wire: WireQuantities, place: str, metadata: WireMetadata) -> Amounts | None:
    return None if wire is None else _amounts(wire, place, metadata)


def _bounded(seconds: int | None) -> int | None:
    return None if seconds is None else max(0, min(seconds, _LONGEST_S))


def _seconds(time: datetime | None) -> float | None:
    return None if time is None else time.timestamp()
