"""Nodes with cards and pods that ask for parts of them, as short as they can be said."""

from collections.abc import Mapping, Sequence

from accelet.accelerators.device import HEALTHY, Health, TileLink, UnitId
from accelet.assignments.nodecards import NodeCard
from accelet.kube.nodes import Node
from accelet.kube.pods import Container, Pod
from accelet.scheduler.gangs.grouping import CARDS_GATE
from tests.fakes.nodes import node
from tests.fakes.pods import pod

I915 = "gpu.intel.com/i915"
GIB = 2**30


def card(
    number: int,
    *,
    tiles: int = 2,
    memory: int | None = 64,
    numa: int | None = None,
    links: Sequence[tuple[int, int, int]] = (),
    shares: int = 300,
    unassigned: int = 0,
    ill: str | None = None,
) -> NodeCard:
    """Card `number` with so many GiB; a link is from a tile to a card's tile."""
    return NodeCard(
        UnitId(f"0000-{number:02x}-00.0"),
        I915,
        card=f"card{number}",
        tiles=tiles,
        memory_bytes=None if memory is None else memory * GIB,
        numa_node=numa,
        links=tuple(TileLink(tile, UnitId(f"0000-{far:02x}-00.0"), there) for tile, far, there in links),
        shares=shares,
        unassigned=unassigned,
        health=Health(ill) if ill else HEALTHY,
    )


def card_node(name: str, *cards: NodeCard, where: str = "", labels: Mapping[str, str] | None = None) -> Node:
    """A node that publishes these cards, and of which kube-scheduler knows as much."""
    return node(name, where, gpus=0, cards=cards, labels=labels)


def card_container(
    name: str = "main", cards: int = 1, *, tiles: int = 0, millicores: int = 0, memory: int = 0
) -> Container:
    """Memory in GiB, of all cards together as everything."""
    asked = {
        I915: cards,
        "gpu.intel.com/tiles": tiles,
        "gpu.intel.com/millicores": millicores,
        "gpu.intel.com/memory.max": memory * GIB,
    }
    kept = {resource: amount for resource, amount in asked.items() if amount}
    return Container(name, {"cpu": 1, **kept}, kept)


def card_pod(
    name: str,
    *containers: Container,
    said: Mapping[str, str] | None = None,
    gates: Sequence[str] = (CARDS_GATE,),
    labels: Mapping[str, str] | None = None,
) -> Pod:
    asking = containers or (card_container(tiles=1),)
    return pod(name, *asking, annotations=said, gates=gates, labels=labels)
