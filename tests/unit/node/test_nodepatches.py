"""What is changed of a Node so that it says a node's cards."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from accelet.accelerators.device import UnitId
from accelet.assignments.nodecards import (
    NODE_CARDS_ANNOTATION,
    NodeCard,
    capacity_names,
    extended_capacity,
    render_node_cards,
)
from accelet.fakeapi.patches import merge_patch
from accelet.kube.nodes import Node, parse_node
from accelet.node.publishing.nodepatches import NodePatches, plan_patches
from tests.unit.resourcemanager.test_nodecards import nodes

OURS = [f"gpu.intel.com/{name}" for name in ("tiles", "millicores", "memory.max")]
amounts = st.dictionaries(st.sampled_from([*OURS, "cpu", "gpu.intel.com/i915"]), st.integers(0, 9).map(str))


def ids(count: int) -> list[UnitId]:
    return [UnitId(f"u{number}") for number in range(count)]


def node_of(raw: dict[str, Any]) -> Node:
    return parse_node(json.dumps(raw).encode())


def apply(raw: dict[str, Any], patches: NodePatches) -> dict[str, Any]:
    for patch in (patches.metadata, patches.status):
        if patch is not None:
            raw = merge_patch(raw, patch)
    return raw


@given(nodes, nodes, amounts, amounts, st.booleans())
def test_after_the_patches_the_node_says_the_cards_and_nothing_else_of_it_is_changed(
    before: tuple[NodeCard, ...],
    after: tuple[NodeCard, ...],
    capacity: dict[str, str],
    allocatable: dict[str, str],
    is_said: bool,
) -> None:
    annotations = {"other": "stays"}
    if is_said:
        annotations[NODE_CARDS_ANNOTATION] = render_node_cards(before)
    raw: dict[str, Any] = {
        "kind": "Node",
        "metadata": {"name": "n", "labels": {"a": "b"}, "annotations": annotations},
        "spec": {"unschedulable": True},
        "status": {"capacity": capacity, "allocatable": allocatable},
    }
    made = apply(raw, plan_patches(node_of(raw), after))
    said = made["metadata"]["annotations"]
    assert said.get(NODE_CARDS_ANNOTATION) == (render_node_cards(after) if after else None)
    assert said["other"] == "stays"
    assert (made["metadata"]["labels"], made["spec"]) == ({"a": "b"}, {"unschedulable": True})
    wanted = {name: str(amount) for name, amount in extended_capacity(after).items()}
    known = {
        name for card in (*after, *(before if is_said else ())) for name in capacity_names(card.resource)
    }
    for part, old in (("capacity", capacity), ("allocatable", allocatable)):
        assert made["status"][part] == {k: v for k, v in old.items() if k not in known} | wanted
    assert plan_patches(node_of(made), after) == NodePatches()


def test_amounts_that_were_published_go_even_where_nothing_says_so_any_more() -> None:
    raw = {"kind": "Node", "metadata": {"name": "n"}, "status": {"capacity": {OURS[0]: "4", "cpu": "2"}}}
    assert plan_patches(node_of(raw), ()) == NodePatches()
    patches = plan_patches(node_of(raw), (), frozenset(OURS))
    nothing = {OURS[0]: None}
    assert patches == NodePatches(None, {"status": {"capacity": nothing, "allocatable": nothing}})


def test_an_amount_of_memory_goes_once_the_memory_of_no_card_is_known() -> None:
    """As where an earlier agent said 0 of it."""
    cards = [NodeCard(id=_id, resource="gpu.intel.com/i915") for _id in ids(2)]
    raw: dict[str, Any] = {
        "kind": "Node",
        "metadata": {"name": "n", "annotations": {NODE_CARDS_ANNOTATION: render_node_cards(cards)}},
        "status": {
            part: dict(zip(OURS, ("2", "2k", "0"), strict=True)) for part in ("capacity", "allocatable")
        },
    }
    gone = {OURS[2]: None}
    assert plan_patches(node_of(raw), cards).status == {"status": {"capacity": gone, "allocatable": gone}}


def test_amount_that_means_the_same_is_left_as_it_is_written() -> None:
    cards = [NodeCard(id=_id, resource="gpu.intel.com/i915", memory_bytes=2**36) for _id in ids(4)]
    raw: dict[str, Any] = {
        "kind": "Node",
        "metadata": {"name": "n", "annotations": {NODE_CARDS_ANNOTATION: render_node_cards(cards)}},
        "status": {"capacity": dict(zip(OURS, ("4", "4k", "256Gi"), strict=True))},
    }
    assert plan_patches(node_of(raw), cards) == NodePatches()


def test_annotation_that_nobody_can_read_is_replaced() -> None:
    raw = {"kind": "Node", "metadata": {"name": "n", "annotations": {NODE_CARDS_ANNOTATION: "{"}}}
    cards = [NodeCard(id=_id, resource="gpu.intel.com/i915") for _id in ids(1)]
    text = render_node_cards(cards)
    assert plan_patches(node_of(raw), cards).metadata == {
        "metadata": {"annotations": {NODE_CARDS_ANNOTATION: text}}
    }
