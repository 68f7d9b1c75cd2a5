"""A Pod, as far as anybody here needs it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal

from accelet.kube.objects import Amounts, Condition, Owner, no_amounts, no_labels

if TYPE_CHECKING:  # a node agent reads no selectors, whose classes take a while to be made
    from accelet.kube.selection import NodeTerm, PodTerm, PreferredTerm, SpreadTerm, TogetherTerm, Toleration

HostPort = tuple[str, str, int]
"""An address of a node, a protocol and a number."""

ANY_ADDRESS = "0.0.0.0"  # noqa: S104 - what kube-scheduler takes for all addresses of a node


@dataclass(frozen=True, slots=True)
class Container:
    """One container of the spec. `environment` has the literal values only, no valueFrom or envFrom.

    `referred_environment` names the variables with a valueFrom. `is_sidecar` is true of an init container
    with `restartPolicy: Always`.
    """

    name: str
    requests: Amounts = field(default_factory=no_amounts)
    limits: Amounts = field(default_factory=no_amounts)
    environment: Mapping[str, str] = field(default_factory=no_labels)
    referred_environment: frozenset[str] = frozenset()
    is_sidecar: bool = False


@dataclass(frozen=True, slots=True)
class ContainerStatus:
    """What the kubelet last wrote of one container.

    `has_run` is true once the kubelet has started it, now or before a restart. `allocated` and
    `actuated` are the kubelet's view of its requests, None where it writes none (before 1.33).
    """

    state: Literal["waiting", "running", "terminated"] = "waiting"
    has_run: bool = False
    restarts: int = 0
    allocated: Amounts | None = None
    actuated: Amounts | None = None


@dataclass(frozen=True, slots=True)
class UsedClaim:
    """The name of a PersistentVolumeClaim that a pod uses.

    An `is_ephemeral` one is made for this pod, of a template in it.
    """

    name: str
    is_ephemeral: bool = False


@dataclass(frozen=True, slots=True)
class Pod:
    """A Pod without what nobody here reads (volumes, probes, images, managed fields …).

    Times are seconds since the epoch. `grace_s` is how long the containers of one that is being deleted were
    given to end, 0 for others. `required_terms` is None without required node affinity; terms are
    alternatives. `nominated_node` is where kube-scheduler wants it once others have ended there. `started_s`
    is when its node took it over, `deadline_s` how long it may run from then on, `ending_s` how long its
    containers are given to end. `has_pod_rules` is true where pod affinity, anti-affinity or topology spread
    constrain it. `claimed_resources` are the extended resources, each by container and name, that a resource
    claim serves. `host_ports` are the ports of its node that its containers and sidecars take, `apart_from`
    the pods that it requires not to be on its node, as far as `read_apart` goes, `together_with` those beside
    which it is required to be, None if that is more than `read_together` reads, `spread` how it must be
    spread over nodes, as far as `read_spread` goes. `volume_claims` are those that its volumes name, and
    those that are made for it. `pod_group` is the name of its PodGroup. `may_preempt` is false where its
    `preemptionPolicy` is `Never`. `unread` says what of it is not read, since it is too much: no node is then
    for it. `level_requests` are the pod-level ones. `statuses` is keyed by container name, of both lists.
    `mounts_token` is true where a container mounts a service account token: none of them starts then once the
    API server has the pod no longer, since it gives such a token for a pod that it has. `features` are those
    that its node's kubelet must declare, `required_keys` the labels that its node must have.
    """

    namespace: str
    name: str
    uid: str = ""
    resource_version: str = ""
    created_s: float = 0.0
    deleted_s: float | None = None
    grace_s: int = 0
    labels: Mapping[str, str] = field(default_factory=no_labels)
    annotations: Mapping[str, str] = field(default_factory=no_labels)
    owners: tuple[Owner, ...] = ()
    node_name: str | None = None
    nominated_node: str | None = None
    phase: str = "Pending"
    restart_policy: str = "Always"
    started_s: float | None = None
    deadline_s: int | None = None
    ending_s: int = 30
    gates: tuple[str, ...] = ()
    unread: str = ""
    priority: int = 0
    may_preempt: bool = True
    pod_group: str | None = None
    scheduler_name: str = "default-scheduler"
    node_selector: Mapping[str, str] = field(default_factory=no_labels)
    required_terms: "tuple[NodeTerm, ...] | None" = None
    preferred_terms: "tuple[PreferredTerm, ...]" = ()
    has_pod_rules: bool = False
    tolerations: "tuple[Toleration, ...]" = ()
    init_containers: tuple[Container, ...] = ()
    containers: tuple[Container, ...] = ()
    overhead: Amounts = field(default_factory=no_amounts)
    level_requests: Amounts = field(default_factory=no_amounts)
    level_allocated: Amounts | None = None
    level_actuated: Amounts | None = None
    statuses: Mapping[str, ContainerStatus] = field(default_factory=lambda: MappingProxyType({}))
    conditions: tuple[Condition, ...] = ()
    has_resource_claims: bool = False
    mounts_token: bool = False
    host_ports: frozenset[HostPort] = frozenset()
    apart_from: "frozenset[PodTerm]" = frozenset()
    together_with: "frozenset[TogetherTerm] | None" = frozenset()
    features: frozenset[str] = frozenset()
    required_keys: frozenset[str] = frozenset()
    spread: "frozenset[SpreadTerm]" = frozenset()
    claimed_resources: frozenset[tuple[str, str]] = frozenset()
    volume_claims: tuple[UsedClaim, ...] = ()

    @property
    def has_peer_rules(self) -> bool:
        """Whether it says something about other pods near it that is looked at."""
        return bool(self.apart_from or self.together_with or self.spread)

    @property
    def key(self) -> tuple[str, str]:
        return self.namespace, self.name

    @property
    def is_terminal(self) -> bool:
        """Whether its containers have ended for good: phase Succeeded or Failed."""
        return self.phase in ("Succeeded", "Failed")

    @property
    def has_started(self) -> bool:
        """Whether the kubelet has started a container of it: then its admission is over."""
        return self.phase != "Pending" or any(status.has_run for status in self.statuses.values())

    @property
    def is_under_way(self) -> bool:
        """Whether containers of it may be running, also when the API server has just forgotten it."""
        return self.node_name is not None and self.has_started and not self.is_terminal

    @property
    def ends(self) -> bool:
        """Whether it can be expected to end by itself: it runs once, has a deadline, or is on its way out."""
        return self.restart_policy != "Always" or self.deadline_s is not None or self.deleted_s is not None

    @property
    def ends_by_s(self) -> float | None:
        """When its containers have ended at the latest; None where nobody knows."""
        if self.deleted_s is not None:
            return self.deleted_s
        if self.deadline_s is None or self.started_s is None:
            return None
        return self.started_s + self.deadline_s + self.ending_s

    @property
    def is_mirror(self) -> bool:
        """Whether it is the API server's image of a static pod, whose UID on the node is another."""
        return "kubernetes.io/config.mirror" in self.annotations

    @property
    def all_containers(self) -> tuple[Container, ...]:
        """In the order in which the kubelet admits them."""
        return self.init_containers + self.containers
