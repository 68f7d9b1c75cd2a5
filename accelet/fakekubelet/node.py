"""What outlives a kubelet: its folders, the pods bound to the node, and their containers."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from random import Random

from accelet.fakekubelet.behaviour import KubeletVersion
from accelet.fakekubelet.claims.cdi import NO_EDITS, CdiEdits
from accelet.fakekubelet.claims.claimapi import ClaimApi
from accelet.fakekubelet.clock import Clock
from accelet.fakekubelet.devices.devicemanager import PluginOptions
from accelet.fakekubelet.devices.options import NO_OPTIONS, ContainerOptions
from accelet.fakekubelet.faults import Faults
from accelet.fakekubelet.pods import Container, Pod, PodUid
from accelet.fakekubelet.trace import Trace


class Phase(Enum):
    """A pod's phase as the API server has it."""

    PENDING = "Pending"
    RUNNING = "Running"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"


class ContainerState(Enum):
    """What the container runtime says."""

    WAITING = "waiting"
    RUNNING = "running"
    EXITED = "exited"


@dataclass(frozen=True, slots=True)
class Rejection:
    """Why a pod was not admitted, as its status says it: `status.reason` and `status.message`."""

    reason: str
    message: str


class PodRejectedError(AssertionError):
    """A test asked for what a container was given, and its pod was rejected. The text says why."""


@dataclass(slots=True)
class ContainerRecord:
    """One container of a pod and what it was given. `error` is why it waits (CreateContainerConfigError).

    `injected` is what its CDI devices gave it, where the kubelet was told of folders to find them in.
    """

    container: Container
    state: ContainerState = ContainerState.WAITING
    devices: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    options: ContainerOptions = NO_OPTIONS
    error: str | None = None
    starts: int = 0
    injected: CdiEdits = NO_EDITS


@dataclass(slots=True, eq=False)
class PodRecord:
    """A pod on this node, kept up to date by the fake; read it, do not write it.

    `admitted` is None until a kubelet has decided, and again when a kubelet has to decide anew.
    `claim_error` is the last Event FailedPrepareDynamicResources of a pod that could not be started for it.
    """

    pod: Pod
    starts: bool = True
    phase: Phase = Phase.PENDING
    rejection: Rejection | None = None
    admitted: bool | None = None
    tried: bool = False
    terminating: bool = False
    removed: bool = False
    has_sandbox: bool = False
    claim_error: str | None = None
    containers: dict[str, ContainerRecord] = field(default_factory=dict)
    worker: asyncio.Lock = field(default_factory=asyncio.Lock)

    def __post_init__(self) -> None:
        self.containers = {each.name: ContainerRecord(each) for each in self.pod.in_order()}

    def __getitem__(self, container: str) -> ContainerRecord:
        """What `container` was given.

        Raises:
            PodRejectedError: nothing, since the pod was rejected.
        """
        if self.rejection is not None:
            raise PodRejectedError(f"{self.pod} was rejected: {self.rejection.message}")
        return self.containers[container]

    @property
    def is_over(self) -> bool:
        return self.phase in (Phase.SUCCEEDED, Phase.FAILED)

    @property
    def is_active(self) -> bool:
        """Whether it is bound here and has neither ended nor been rejected, as far as this node knows."""
        return not self.is_over and not self.removed

    @property
    def is_running(self) -> bool:
        return any(record.state is ContainerState.RUNNING for record in self.containers.values())


@dataclass(frozen=True, slots=True)
class RegisterCall:
    """One call of Register as it came in. `deadline_s` is how long the caller waits; None for ever.

    `options` are those of the request, None where it has none. No kubelet looks at them.
    """

    at: float
    resource: str
    version: str
    endpoint: str
    deadline_s: float | None
    options: PluginOptions | None = None


AdmissionHook = Callable[[Pod], Rejection | None]
"""Stands for the checks that come after devices were allocated (CPU and memory manager, predicates)."""


@dataclass(slots=True)
class Node:
    """One node. `status` is capacity and allocatable by resource, as last told to the API server.

    `claim_api` is where pods' ResourceClaims are looked up; without one there is no DRA. `cdi_dirs` are the
    folders of the container runtime, the last one first in rank.
    """

    root: Path
    version: KubeletVersion
    clock: Clock
    rng: Random
    trace: Trace
    faults: Faults
    admission_hook: AdmissionHook = lambda _pod: None
    name: str = "node"
    claim_api: ClaimApi | None = None
    cdi_dirs: tuple[Path, ...] = ()
    pods: dict[PodUid, PodRecord] = field(default_factory=dict)
    status: dict[str, tuple[int, int]] = field(default_factory=dict)
    registrations: dict[str, int] = field(default_factory=dict)
    register_calls: list[RegisterCall] = field(default_factory=list)
    serial: int = 0
    driver_registrations: dict[str, int] = field(default_factory=dict)

    @property
    def plugins_dir(self) -> Path:
        return self.root / "device-plugins"

    @property
    def pod_resources_dir(self) -> Path:
        return self.root / "pod-resources"

    @property
    def registry_dir(self) -> Path:
        return self.root / "plugins_registry"

    @property
    def checkpoint(self) -> Path:
        return self.plugins_dir / "kubelet_internal_checkpoint"

    @property
    def claim_state(self) -> Path:
        return self.root / "dra_manager_state"
