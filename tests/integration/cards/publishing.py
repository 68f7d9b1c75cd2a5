"""A node whose agent publishes the cards of a file."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from accelet.accelerators.device import UnitId
from accelet.agent.process import Agent
from accelet.assignments.nodecards import NODE_CARDS_ANNOTATION, NodeCard, parse_node_cards
from accelet.fakeapi import FakeApi
from accelet.kube.nodes import Node, parse_node
from tests.fakes.manifests import raw_node
from tests.integration.agent.running import GPU, agent
from tests.integration.identity.world import World
from tests.integration.identity.world import node as bare_node

NODES = "api/v1/nodes"
PATH = "/api/v1/nodes/node"
XE = "gpu.intel.com/xe"
FIRST = UnitId("0000-03-00.0")
AMOUNTS = ("tiles", "millicores", "memory.max")


def write_cards(folder: Path, cards: int, *, sick: Sequence[int] = (), name: str = "cards.yaml") -> Path:
    """Replaces the file of simulated cards: two tiles and 16 GiB each, from PCI slot 3 on."""
    listed = [
        {
            "pci": f"0000:{index + 3:02x}:00.0",
            "card": f"card{index}",
            "tiles": 2,
            "memory_mib": 16384,
            "nodes": [{"path": "/dev/null", "mount_path": f"/dev/dri/card{index}"}],
            **({"unhealthy": "it is sick"} if index in sick else {}),
        }
        for index in range(cards)
    ]
    path = folder / name
    fresh = folder / f"{name}.new"
    fresh.write_text(json.dumps({"cards": listed}))
    fresh.rename(path)
    return path


def resource(file: Path, *, name: str = GPU, options: str = "assignment: annotations") -> str:
    return f"- {{name: {name}, backend: simulated, shares: 10, {options}, file: {file}}}\n"


def write_config(folder: Path, *resources: str, head: str = "publish_cards: true") -> Path:
    path = folder / "config.yaml"
    fresh = folder / "config.new"
    fresh.write_text("version: v1\n" + head + "\nresources:\n" + "".join(resources))
    fresh.rename(path)
    return path


def make_node(api: FakeApi) -> None:
    api.state.create(NODES, "", raw_node())


def node_of(api: FakeApi) -> Node:
    return parse_node(json.dumps(api.state.get(NODES, ("", "node"))).encode())


def cards_of(api: FakeApi) -> tuple[NodeCard, ...] | None:
    """What the Node says, None where it says nothing."""
    text = node_of(api).annotations.get(NODE_CARDS_ANNOTATION)
    return None if text is None else parse_node_cards(text)


def amounts_of(api: FakeApi, domain: str = "gpu.intel.com") -> tuple[object, ...]:
    """Tiles, millicores and bytes on offer; capacity and allocatable are to agree."""
    node = node_of(api)
    found = [
        tuple(of.get(f"{domain}/{name}") for name in AMOUNTS) for of in (node.capacity, node.allocatable)
    ]
    assert found[0] == found[1]
    return found[0]


def writes(api: FakeApi) -> int:
    return api.count(method="PATCH", path=PATH)


@asynccontextmanager
async def publishing(folder: Path, *, cards: int = 2) -> AsyncIterator[tuple[World, Agent]]:
    """A node with its Node and a kubelet; the agent's cards are in cards.yaml."""
    async with bare_node(folder) as world:
        make_node(world.api)
        config = write_config(folder, resource(write_cards(folder, cards)))
        async with agent(folder, config, world.kubeconfig) as running:
            await asyncio.wait_for(running.knows_pods(), 10)
            yield world, running


def unassigned(api: FakeApi, unit: UnitId = FIRST) -> int | None:
    return next((card.unassigned for card in cards_of(api) or () if card.id == unit), None)


def published(api: FakeApi, count: int) -> Callable[[], bool]:
    return lambda: len(cards_of(api) or ()) == count and amounts_of(api)[0] is not None
