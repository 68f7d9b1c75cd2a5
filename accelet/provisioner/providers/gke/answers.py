"""GKE's answers as values: node pools, and what its errors mean for a slice."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Final

import msgspec

from accelet.provisioner.pools.plan import CLUSTER_LABEL, FINGERPRINT_LABEL, REQUEST_LABEL
from accelet.provisioner.pools.pool import (
    ORIGINAL_MARK,
    Failure,
    NodePool,
    Original,
    PoolList,
    PoolState,
    Trouble,
)
from accelet.provisioner.pools.tiers import FLEX_START, Tier

_STATES: Final[dict[str, PoolState]] = {
    "PROVISIONING": "creating",
    "RUNNING": "running",
    "RUNNING_WITH_ERROR": "running",
    "RECONCILING": "busy",
    "STOPPING": "deleting",
    "ERROR": "failed",
}
"""container v1, NodePool.Status. A word that is not there is taken for busy: nothing is done to it."""

_ORIGINAL: Final = "google.com/tpu-provisioner"
"""How the labels of the original's pools begin (tpu-provisioner, internal/cloud/gke.go)."""

_LONGEST_NAME: Final = 40
_LONGEST: Final = 800
_RULES: Final[tuple[tuple[Trouble, tuple[str, ...]], ...]] = (
    (Trouble.BUSY, ("CLUSTER_ALREADY_HAS_OPERATION", "incompatible operation", "is currently deleting")),
    (Trouble.BUSY, ("concurrent operations quota", "RATE_LIMIT")),
    (
        Trouble.RESERVATION,
        ("RESERVATION_", "does not have available resources for the request", "Specified reservation"),
    ),
    (Trouble.RESERVATION, ("is incorrect for the requested resources",)),
    (
        Trouble.NO_CAPACITY,
        ("STOCKOUT", "RESOURCE_POOL_EXHAUSTED", "INSUFFICIENT_CAPACITY", "lack of capacity"),
    ),
    (Trouble.NO_CAPACITY, ("Requested resource is exhausted",)),
    (Trouble.ADDRESSES, ("IP_SPACE_EXHAUSTED", "byte size limit reached", "enough available IPs")),
    (Trouble.QUOTA, ("QUOTA",)),
)
"""Words by which GKE and Compute Engine say what is wrong, the telling ones first.

From threads of their users and from GKE's own autoscaler (pkg/backoff, async_gke_manager.go).
"""


class _Camel(msgspec.Struct, frozen=True, rename="camel"):
    """Base of the shapes: unknown fields are skipped."""


class _Condition(_Camel, frozen=True):
    code: str | None = None
    canonical_code: str | None = None
    message: str | None = None


class _Affinity(_Camel, frozen=True):
    values: list[str] | None = None


class _Labels(_Camel, frozen=True):
    labels: dict[str, str] | None = None


class _Marked(_Camel, frozen=True):
    """What tells whose a pool is."""

    name: str
    config: _Labels | None = None


class _Placement(_Camel, frozen=True):
    tpu_topology: str | None = None


class _Config(_Camel, frozen=True):
    machine_type: str | None = None
    spot: bool | None = None
    flex_start: bool | None = None
    reservation_affinity: _Affinity | None = None


class _NodePool(_Camel, frozen=True):
    name: str
    status: str | None = None
    locations: list[str] | None = None
    conditions: list[_Condition] | None = None
    status_message: str | None = None
    initial_node_count: int | None = None
    placement_policy: _Placement | None = None
    config: _Config | None = None


class _PoolPage(_Camel, frozen=True):
    node_pools: list[msgspec.Raw] | None = None


class _Detail(_Camel, frozen=True):
    reason: str | None = None


class _Error(_Camel, frozen=True):
    message: str | None = None
    status: str | None = None
    details: list[_Detail] | None = None


class _ErrorAnswer(_Camel, frozen=True):
    error: _Error | None = None


def read_pools(payload: bytes, cluster: str, asked_s: float, odd: Callable[[str], None]) -> PoolList:
    """The pools of a list answer that have our marks; the names of all others are foreign.

    `odd` is told of a pool of ours that cannot be read, or is in a state that is not known: it is busy. Those
    of the original that can be read are foreign too.

    Raises:
        msgspec.DecodeError, UnicodeDecodeError: the answer is no list of pools, or does not tell whose one of
            them is. What is not in the list would count as gone.
    """
    pools: list[NodePool] = []
    foreign: set[str] = set()
    originals: list[NodePool] = []
    for raw in msgspec.json.decode(payload, type=_PoolPage).node_pools or ():
        marked = msgspec.json.decode(raw, type=_Marked)
        labels = (marked.config.labels if marked.config else None) or {}
        if labels.get(CLUSTER_LABEL) != cluster or not labels.get(REQUEST_LABEL):
            foreign.add(marked.name)
            if REQUEST_LABEL not in labels and (found := _read_original(raw, labels)) is not None:
                originals.append(found)
            continue
        try:
            wire = msgspec.json.decode(raw, type=_NodePool)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            odd(f"the node pool {marked.name} cannot be read: {error}")
            pools.append(NodePool(marked.name, labels[REQUEST_LABEL], "busy"))
            continue
        if wire.status not in _STATES:
            odd(f"the node pool {wire.name} is {str(wire.status)[:60]}: it is left alone until that changes")
        pools.append(_read_pool(wire, labels))
    return PoolList(tuple(pools), asked_s, frozenset(foreign), tuple(originals))


def _read_original(raw: msgspec.Raw, labels: Mapping[str, str]) -> NodePool | None:
    """A pool that the original made for a Job; None for any other, and for one that cannot be read."""
    parent = tuple(labels.get(f"{_ORIGINAL}-parent-{word}") for word in ("kind", "namespace", "name"))
    if labels.get("google.com/nodepool-manager") != "tpu-provisioner" or parent[0] != "job":
        return None
    try:
        wire = msgspec.json.decode(raw, type=_NodePool)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    config, placement = wire.config or _Config(), wire.placement_policy or _Placement()
    original = Original(
        namespace=parent[1] or "",
        job=parent[2] or "",
        machine_type=config.machine_type or "",
        hosts=(wire.initial_node_count or 0) * max(1, len(wire.locations or ())),
        topology=placement.tpu_topology or "",
    )
    mark = {REQUEST_LABEL: f"{ORIGINAL_MARK}{wire.name}"}
    return replace(_read_pool(wire, mark), original=original) if len(wire.name) <= _LONGEST_NAME else None


def _read_pool(wire: _NodePool, labels: dict[str, str]) -> NodePool:
    state = _STATES.get(wire.status or "", "busy")
    config = wire.config or _Config()
    return NodePool(
        name=wire.name,
        mark=labels[REQUEST_LABEL],
        state=state,
        fingerprint=labels.get(FINGERPRINT_LABEL, ""),
        tier=str(_tier_of(config)),
        zone=(wire.locations or [""])[0],
        failure=_why_failed(wire) if state == "failed" else None,
    )


def _tier_of(config: _Config) -> Tier:
    reserved = config.reservation_affinity.values if config.reservation_affinity else None
    if reserved:
        return Tier("reservation", reserved[0])
    return FLEX_START if config.flex_start else Tier("spot" if config.spot else "on-demand")


def _why_failed(wire: _NodePool) -> Failure:
    """GKE's own sentence on a pool in ERROR, which is also left behind by an operation that failed."""
    conditions = wire.conditions or []
    words = [*(one.code or "" for one in conditions), *(one.canonical_code or "" for one in conditions)]
    sentences = [one.message for one in conditions if one.message]
    sentence = "; ".join(sentences) or wire.status_message or f"GKE gives no reason; {', '.join(words)}"
    kind = _judge([*words, sentence], default=Trouble.NO_CAPACITY if not sentences else Trouble.INVALID)
    return Failure(kind, f"GKE: {sentence[:_LONGEST]}")


def read_error(status: int, payload: bytes, retry_after_s: float | None = None) -> Failure:
    """What an answer that is no success means."""
    try:
        error = msgspec.json.decode(payload, type=_ErrorAnswer).error or _Error()
    except (msgspec.DecodeError, UnicodeDecodeError):
        error = _Error()
    message = error.message or f"HTTP {status}"
    words = [error.status or "", message, *(one.reason or "" for one in error.details or ())]
    return Failure(_kind(status, words), f"GKE: {message[:_LONGEST]}", retry_after_s)


def _kind(status: int, words: Sequence[str]) -> Trouble:
    match status:
        case 409:
            return Trouble.EXISTS
        case 429:
            return Trouble.BUSY
        case 401 | 403:
            return _judge(words, default=Trouble.FORBIDDEN)
        case 400 | 404:
            return _judge(words, default=Trouble.INVALID)
        case _:
            return Trouble.UNKNOWN


def _judge(words: Sequence[str], default: Trouble) -> Trouble:
    text = " ".join(words)
    for trouble, signs in _RULES:
        if any(sign in text for sign in signs):
            return trouble
    return default
