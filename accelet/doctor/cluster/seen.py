"""What was seen in a cluster, as values: of each object only what is judged."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Literal

from accelet.doctor.rights import Right
from accelet.kube.nodes import Node
from accelet.kube.pods import Pod

_NOTHING: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class NodeMachine:
    """A Node and its kubelet's version. `ahead_s` is its clock less the API server's, None if unknown."""

    node: Node
    kubelet: str = ""
    ahead_s: float | None = None


@dataclass(frozen=True, slots=True)
class PodSeen:
    """A pod that waits, was refused, or is a device plugin's or ours.

    `reason` and `message` are of its status, `unscheduled` is what kube-scheduler says, `stuck` are the
    reasons for which containers wait, `images` those of its containers
    (without what only goes with a device plugin).
    """

    pod: Pod
    reason: str = ""
    message: str = ""
    unscheduled: str = ""
    stuck: tuple[str, ...] = ()
    images: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ProcessSeen:
    """A DaemonSet or Deployment of ours. `account` is empty where its pods are given no token."""

    kind: Literal["DaemonSet", "Deployment"]
    namespace: str
    name: str
    component: str
    wanted: int
    ready: int
    account: str = ""
    config_map: str = ""

    @property
    def user(self) -> str:
        return f"system:serviceaccount:{self.namespace}:{self.account}"

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}"


@dataclass(frozen=True, slots=True)
class AgentConfigSeen:
    """The configuration in an agent's ConfigMap; `needs` are the rights of an agent with it."""

    process: ProcessSeen
    mistakes: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    publishes_cards: bool = False
    needs: tuple[tuple[Right, str], ...] = ()


@dataclass(frozen=True, slots=True)
class PolicySeen:
    """`cards` is its list of resources that count cards, empty where it has none that could be read."""

    kind: str
    name: str
    fails_closed: bool
    warnings: int = 0
    cards: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class BindingSeen:
    """`denies` is true of bindings of mutating policies too, which have no other effect."""

    kind: str
    name: str
    policy: str
    denies: bool


@dataclass(frozen=True, slots=True)
class LeaseSeen:
    """`renewed_s` and `duration_s` by the holder's clock and wish."""

    holder: str
    renewed_s: float | None
    duration_s: int


@dataclass(frozen=True, slots=True)
class AccountRight:
    """Whether a process' account may do something; None where the API server does not say."""

    process: ProcessSeen
    right: Right
    purpose: str
    is_given: bool | None


@dataclass(frozen=True, slots=True)
class ClusterSeen:
    """Everything that was looked at. `unseen` are the kinds that could not be listed, and why not.

    `leases` are by component, None where there is none; `offered` are the resource names of DeviceClasses;
    `waiting` is the scheduler's newest word on a pod, by namespace/name. By any of `label_sets` a node tells
    the scheduler where it is in the network; empty where there is none, or its settings are not known.
    """

    now_s: float
    version: str = ""
    ahead_s: float | None = None
    machines: tuple[NodeMachine, ...] = ()
    pods: tuple[PodSeen, ...] = ()
    processes: tuple[ProcessSeen, ...] = ()
    configs: tuple[AgentConfigSeen, ...] = ()
    policies: tuple[PolicySeen, ...] = ()
    bindings: tuple[BindingSeen, ...] = ()
    leases: Mapping[str, LeaseSeen | None] = field(default_factory=lambda: MappingProxyType({}))
    rights: tuple[AccountRight, ...] = ()
    offered: frozenset[str] = frozenset()
    waiting: Mapping[str, str] = field(default_factory=lambda: _NOTHING)
    unseen: Mapping[str, str] = field(default_factory=lambda: _NOTHING)
    label_sets: tuple[tuple[str, ...], ...] = ()

    def of(self, component: str) -> tuple[ProcessSeen, ...]:
        return tuple(process for process in self.processes if process.component == component)
