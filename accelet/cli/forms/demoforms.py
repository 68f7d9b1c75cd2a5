"""What the demos of a node, of claims and of slices print with --json."""

import msgspec


class SeenResource(msgspec.Struct, frozen=True):
    """One resource as the kubelet has it."""

    name: str
    healthy: int
    unhealthy: int


class SeenContainer(msgspec.Struct, frozen=True):
    """One container and what it was given; `rejected` is the pod's status message where it was refused.

    `cdi` are the names of CDI devices, which the container's runtime looks up.
    """

    pod: str
    container: str
    resource: str
    asked: int
    devices: tuple[str, ...]
    nodes: tuple[str, ...]
    environment: dict[str, str]
    rejected: str | None
    cdi: tuple[str, ...] = ()


class Recovery(msgspec.Struct, frozen=True):
    """What the restart did: seconds from the new kubelet.sock until every resource was whole again."""

    seconds: float
    resources: tuple[SeenResource, ...]
    kept: int
    lost: int


class Report(msgspec.Struct, frozen=True):
    """Everything `accelet demo` shows."""

    kubelet: str
    first_list_s: float
    resources: tuple[SeenResource, ...]
    containers: tuple[SeenContainer, ...]
    recovery: Recovery


class ShownClaim(msgspec.Struct, frozen=True):
    """One claim: what it was allocated and what its container got; `refused` says why it got nothing."""

    claim: str
    devices: tuple[str, ...]
    nodes: tuple[str, ...] = ()
    environment: dict[str, str] = {}
    refused: str | None = None


class DraReport(msgspec.Struct, frozen=True):
    """Everything `accelet demo dra` shows. Allocation is plain first fit, not kube-scheduler's."""

    allocation: str
    published_s: float
    slices: int
    devices: int
    claims: tuple[ShownClaim, ...]
    files_left: int


class ShownWorker(msgspec.Struct, frozen=True):
    """One pod, the Node it runs on, and what its container is told."""

    pod: str
    node: str
    environment: dict[str, str]


class ProvisionerReport(msgspec.Struct, frozen=True):
    """Everything `accelet demo provisioner` shows. `events` are the provisioner's own, in their order."""

    ready_s: float
    tiers: tuple[str, ...]
    events: tuple[str, ...]
    workers: tuple[ShownWorker, ...]
    released_s: float
