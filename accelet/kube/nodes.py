"""A Node, as far as anybody here needs it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import islice

from accelet.kube.errors import MalformedObjectError
from accelet.kube.objects import (
    Amounts,
    Condition,
    RawObject,
    Wire,
    WireCondition,
    WireObject,
    WireQuantities,
    no_amounts,
    no_labels,
    read_conditions,
    read_labels,
    read_object,
    read_resources,
    share_text,
)
from accelet.kube.selection import Taint, WireTaint, read_taints

MOST_RESOURCES = 256
"""More than any node offers; a compromised one may write tens of thousands of names."""

MOST_FEATURES = 256
"""Declared features of a node that are read: Kubernetes 1.37 knows fewer than ten."""


@dataclass(frozen=True, slots=True)
class Node:
    """A Node's identity, its labels, what it offers and what it keeps pods away with.

    `features` are those that its kubelet declares (`status.declaredFeatures`, Kubernetes 1.35).
    """

    name: str
    uid: str = ""
    resource_version: str = ""
    labels: Mapping[str, str] = field(default_factory=no_labels)
    annotations: Mapping[str, str] = field(default_factory=no_labels)
    unschedulable: bool = False
    taints: tuple[Taint, ...] = ()
    conditions: tuple[Condition, ...] = ()
    capacity: Amounts = field(default_factory=no_amounts)
    allocatable: Amounts = field(default_factory=no_amounts)
    features: frozenset[str] = frozenset()

    @property
    def is_ready(self) -> bool:
        return any(c.type == "Ready" and c.status == "True" for c in self.conditions)

    @property
    def is_out_of_service(self) -> bool:
        """Whether an administrator says by a taint that it is shut down: nothing runs there."""
        return any(taint.key == "node.kubernetes.io/out-of-service" for taint in self.taints)


class _WireSpec(Wire, frozen=True):
    unschedulable: bool | None = None
    taints: list[WireTaint] | None = None


class _WireStatus(Wire, frozen=True):
    capacity: WireQuantities = None
    allocatable: WireQuantities = None
    conditions: list[WireCondition] | None = None
    declared_features: list[str] | None = None


class _WireNode(WireObject, frozen=True):
    spec: _WireSpec | None = None
    status: _WireStatus | None = None


def parse_node(raw: RawObject) -> Node:
    """The Node that `raw` describes. As in the API, an absent allocatable is the capacity.

    Raises:
        MalformedObjectError: a field is not what the API promises.
    """
    wire = read_object(raw, "Node", _WireNode)
    metadata, spec, status = wire.metadata, wire.spec or _WireSpec(), wire.status or _WireStatus()
    for offered in (status.capacity, status.allocatable):
        if offered is not None and len(offered) > MOST_RESOURCES:
            problem = f"it has {len(offered):,} resources, more than the {MOST_RESOURCES} that are counted"
            raise MalformedObjectError("Node", "", metadata.name, "status", problem)
    capacity = read_resources(status.capacity, "status.capacity", "Node", metadata)
    allocatable = read_resources(status.allocatable, "status.allocatable", "Node", metadata)
    return Node(
        name=metadata.name,
        uid=metadata.uid or "",
        resource_version=metadata.resource_version or "",
        labels=read_labels(metadata.labels),
        annotations=read_labels(metadata.annotations),
        unschedulable=bool(spec.unschedulable),
        taints=read_taints(spec.taints),
        conditions=read_conditions(status.conditions),
        capacity=capacity,
        allocatable=allocatable if status.allocatable is not None else capacity,
        features=frozenset(map(share_text, islice(status.declared_features or (), MOST_FEATURES))),
    )
