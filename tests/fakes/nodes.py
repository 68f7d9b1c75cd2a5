"""Node values, as short as they can be said."""

from collections.abc import Mapping, Sequence

from accelet.assignments.nodecards import (
    NODE_CARDS_ANNOTATION,
    NodeCard,
    extended_capacity,
    render_node_cards,
)
from accelet.kube.nodes import Node
from accelet.kube.objects import Condition
from accelet.kube.selection import Taint
from accelet.scheduler.cluster.topology import Scheme

BLOCK, SUBBLOCK, HOST = Scheme().label_sets[0]
GPU = "nvidia.com/gpu"


def place(block: str, subblock: str, host: str) -> dict[str, str]:
    """The labels of a node that is there."""
    return {BLOCK: block, SUBBLOCK: subblock, HOST: host}


def node(
    name: str,
    where: str = "",
    *,
    gpus: int = 8,
    cards: Sequence[NodeCard] = (),
    labels: Mapping[str, str] | None = None,
    annotations: Mapping[str, str] | None = None,
    taints: Sequence[Taint] = (),
    is_cordoned: bool = False,
    ready: str = "True",
    more: Mapping[str, int] | None = None,
    features: Sequence[str] = (),
) -> Node:
    """A node at `where` (`b0/s0/h0`), or nowhere, which publishes and offers `cards`."""
    at = place(*where.split("/")) if where else {}
    return Node(
        name=name,
        labels={"kubernetes.io/hostname": name, **at, **(labels or {})},
        annotations={**published(cards), **(annotations or {})},
        unschedulable=is_cordoned,
        taints=tuple(taints),
        conditions=(Condition("Ready", ready),),
        features=frozenset(features),
        allocatable={"cpu": 64, "memory": 2**38, "pods": 110, GPU: gpus, **offered(cards), **(more or {})},
    )


def published(cards: Sequence[NodeCard]) -> dict[str, str]:
    """The annotation by which a node says what cards it has; none where it has none."""
    return {NODE_CARDS_ANNOTATION: render_node_cards(cards)} if cards else {}


def offered(cards: Sequence[NodeCard]) -> dict[str, int]:
    """What kube-scheduler counts of the cards: their shares by resource, and the extended resources."""
    shares = {one.resource: 0 for one in cards}
    for one in cards:
        shares[one.resource] += one.shares
    return {**shares, **extended_capacity(cards)}
