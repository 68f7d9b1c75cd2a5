"""Nodes of 8 GPUs that nothing runs on, in blocks of a hundred, and a cloud that takes some away."""

import asyncio
from collections.abc import Awaitable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from random import Random
from typing import Final

from accelet.kube.apiresources import NODES
from accelet.kube.client import Client
from accelet.kube.nodes import parse_node
from accelet.kube.selection import HOSTNAME
from accelet.scheduler.cluster.topology import Scheme
from tests.e2e.test_scheduler import GPU

GPUS: Final = 8
SUBBLOCKS, HOSTS = 10, 10
HOT_BLOCKS: Final = 2
"""In these is pool `hot`, where there is less room than gangs that want to be there."""

POOL: Final = "pool"
_LABELS = Scheme().label_sets[0]
_AT_ONCE = 8


@dataclass
class Fleet:
    """`places` has block, sub-block and host of each node; `gone` those that are away now."""

    client: Client
    blocks: int
    places: dict[str, tuple[str, str, str]] = field(default_factory=dict)
    gone: set[str] = field(default_factory=set)
    died: int = 0

    def __post_init__(self) -> None:
        for number in range(self.blocks * SUBBLOCKS * HOSTS):
            block, subblock, host = number // (SUBBLOCKS * HOSTS), number // HOSTS, number
            self.places[f"n{number:04}"] = (f"b{block}", f"s{subblock}", f"h{host}")

    def is_hot(self, node: str) -> bool:
        return int(self.places[node][0][1:]) < HOT_BLOCKS

    async def make(self) -> None:
        await at_once(self._make(name) for name in self.places)

    async def are_open(self) -> bool:
        """Whether the taint that the API server gives each new Node is gone from all."""
        seen: set[str] = set()
        async for page in self.client.list_pages(NODES, None, None, 500):
            seen |= {node.name for raw in page.items if not (node := parse_node(raw)).taints}
        return seen >= self.places.keys()

    async def take(self, node: str) -> None:
        """The machine is gone, as a cloud takes one back: its Node goes, and its pods with it."""
        self.gone.add(node)
        self.died += 1
        await self.client.delete(NODES, None, node)

    async def give_back(self, node: str) -> None:
        await self._make(node)
        self.gone.discard(node)

    def draw(self, chance: Random, used: Iterable[str]) -> str:
        """A node to be taken, mostly one with pods."""
        of_use = sorted(set(used) - self.gone)
        if of_use and chance.random() < 0.7:
            return chance.choice(of_use)
        return chance.choice(sorted(self.places.keys() - self.gone))

    async def _make(self, name: str) -> None:
        labels = {HOSTNAME: name, POOL: "hot" if self.is_hot(name) else "cold"}
        labels |= dict(zip(_LABELS, self.places[name], strict=True))
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        amounts = {"cpu": "64", "memory": "256Gi", "pods": "110", GPU: str(GPUS)}
        ready = {"type": "Ready", "status": "True", "reason": "Simulated", "lastHeartbeatTime": now}
        status = {"capacity": amounts, "allocatable": amounts, "conditions": [ready]}
        await self.client.create(
            NODES, None, {"metadata": {"name": name, "labels": labels}, "status": status}
        )


async def at_once(doing: Iterable[Awaitable[object]]) -> None:
    """All of it, a few at a time."""
    permits = asyncio.Semaphore(_AT_ONCE)

    async def do(one: Awaitable[object]) -> None:
        async with permits:
            await one

    await asyncio.gather(*(do(one) for one in doing))
