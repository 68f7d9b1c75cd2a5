"""MachineDeployments as pools, and what the API server's answers mean for a slice."""

from collections.abc import Callable, Iterable
from typing import Final

from accelet.kube.errors import (
    ExistsError,
    ForbiddenError,
    InvalidError,
    KubeError,
    MalformedObjectError,
    NotFoundError,
)
from accelet.kube.objects import RawObject, Wire, WireCondition, WireMetadata, WireObject, read_object
from accelet.provisioner.pools.plan import CLUSTER_LABEL, FINGERPRINT_LABEL, REQUEST_LABEL
from accelet.provisioner.pools.pool import Failure, NodePool, PoolList, Trouble

_KIND: Final = "MachineDeployment"
_LONGEST: Final = 800
_BLOCKED: Final = " is blocked "
"""What ScalingUp says where a template is not there (core/reconcilers/machinedeployment, v1.14.2)."""


class _Condition(WireCondition, frozen=True):
    message: str | None = None


class _MachineSpec(Wire, frozen=True):
    failure_domain: str | None = None


class _Template(Wire, frozen=True):
    spec: _MachineSpec | None = None


class _Spec(Wire, frozen=True):
    template: _Template | None = None


class _Status(Wire, frozen=True):
    conditions: list[_Condition] | None = None


class _MachineDeployment(Wire, frozen=True):
    metadata: WireMetadata
    spec: _Spec | None = None
    status: _Status | None = None


def is_ours(metadata: WireMetadata, cluster: str) -> bool:
    labels = metadata.labels or {}
    return labels.get(CLUSTER_LABEL) == cluster and bool(labels.get(REQUEST_LABEL))


def read_pools(
    items: Iterable[RawObject], cluster: str, asked_s: float, odd: Callable[[str], None]
) -> PoolList:
    """The pools that have our marks; the names of all other MachineDeployments are foreign.

    `odd` is told of one of ours that cannot be read: it is busy.

    Raises:
        MalformedObjectError: one does not tell whose it is. What is not in the list would count as gone.
    """
    pools: list[NodePool] = []
    foreign: set[str] = set()
    for raw in items:
        metadata = read_object(raw, _KIND, WireObject).metadata
        if not is_ours(metadata, cluster):
            foreign.add(metadata.name)
            continue
        try:
            pools.append(_read_pool(read_object(raw, _KIND, _MachineDeployment)))
        except MalformedObjectError as error:
            odd(str(error))
            pools.append(NodePool(metadata.name, (metadata.labels or {})[REQUEST_LABEL], "busy"))
    return PoolList(tuple(pools), asked_s, frozenset(foreign))


def _read_pool(wire: _MachineDeployment) -> NodePool:
    """It runs from its first moment: its machines come within `join_s`, or the attempt has failed.

    Cluster API itself gives no machine up, so that no state of its own would ever end the wait.
    """
    labels = wire.metadata.labels or {}
    machine = wire.spec.template.spec if wire.spec and wire.spec.template else None
    failure = _why_blocked(wire.status)
    is_deleting = wire.metadata.deletion_timestamp is not None
    return NodePool(
        name=wire.metadata.name,
        mark=labels[REQUEST_LABEL],
        state="deleting" if is_deleting else "failed" if failure else "running",
        fingerprint=labels.get(FINGERPRINT_LABEL, ""),
        tier="on-demand",
        zone=(machine.failure_domain if machine else None) or "",
        failure=None if is_deleting else failure,
    )


def _why_blocked(status: _Status | None) -> Failure | None:
    """Cluster API's own sentence where it cannot make machines at all."""
    for one in (status.conditions if status else None) or ():
        message = " ".join((one.message or "").split())
        if one.type == "ScalingUp" and one.status == "True" and _BLOCKED in message:
            return Failure(Trouble.INVALID, f"Cluster API: {message[:_LONGEST]}")
    return None


def read_refusal(error: KubeError) -> Failure:
    """What an error of the API server means for a request to make or delete a pool."""
    sentence = str(error)[:_LONGEST]
    match error:
        case ExistsError():
            return Failure(Trouble.EXISTS, sentence)
        case NotFoundError():
            return Failure(Trouble.GONE, sentence)
        case ForbiddenError() if "exceeded quota" in sentence:
            return Failure(Trouble.QUOTA, sentence)
        case ForbiddenError():
            return Failure(Trouble.FORBIDDEN, sentence)
        case InvalidError():
            return Failure(Trouble.INVALID, sentence)
        case _:
            return Failure(Trouble.UNKNOWN, sentence)
