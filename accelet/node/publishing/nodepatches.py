"""What has to be changed of a Node so that it says a node's cards: values in, patches out."""

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass

from accelet.assignments.nodecards import (
    NODE_CARDS_ANNOTATION,
    NodeCard,
    NodeCardsError,
    capacity_names,
    extended_capacity,
    parse_node_cards,
    render_node_cards,
)
from accelet.kube.apiresources import Body
from accelet.kube.nodes import Node


@dataclass(frozen=True, slots=True)
class NodePatches:
    """Merge patches for the Node and for its status; None where nothing differs."""

    metadata: Body | None = None
    status: Body | None = None


def plan_patches(node: Node, cards: Sequence[NodeCard], earlier: Set[str] = frozenset()) -> NodePatches:
    """The patches after which `node` says exactly `cards`; without any card, nothing is left of us.

    What its annotation said before tells which amounts are ours to remove, as do the names `earlier`: of
    amounts that are known to have been published.
    """
    text = render_node_cards(cards) if cards else None
    metadata: Body | None = None
    if node.annotations.get(NODE_CARDS_ANNOTATION) != text:
        metadata = {"metadata": {"annotations": {NODE_CARDS_ANNOTATION: text}}}
    wanted = extended_capacity(cards)
    said = {name for card in (*cards, *_said(node)) for name in capacity_names(card.resource)}
    names = wanted.keys() | said | earlier
    fields: dict[str, Mapping[str, str | None]] = {}
    for field, amounts in (("capacity", node.capacity), ("allocatable", node.allocatable)):
        differing = sorted(name for name in names if amounts.get(name) != wanted.get(name))
        if differing:
            fields[field] = {name: str(wanted[name]) if name in wanted else None for name in differing}
    return NodePatches(metadata, {"status": fields} if fields else None)


def _said(node: Node) -> Sequence[NodeCard]:
    try:
        return parse_node_cards(node.annotations.get(NODE_CARDS_ANNOTATION, ""))
    except NodeCardsError:
        return ()
