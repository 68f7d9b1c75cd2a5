"""The publisher alone, against an API server: what others do to the Node, and failures."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from accelet.accelerators.device import UnitId
from accelet.assignments.nodecards import NODE_CARDS_ANNOTATION, NodeCard
from accelet.fakeapi import Answer, Drop, FakeApi, Fault, HoldBack, Json
from accelet.kube.client import Client
from accelet.node.publishing.cardpublisher import CardPublisher
from tests.integration.agent.running import GPU, until
from tests.integration.cards.publishing import (
    NODES,
    PATH,
    amounts_of,
    cards_of,
    make_node,
    node_of,
    writes,
)

CARD = NodeCard(UnitId("0000-03-00.0"), GPU, tiles=2, memory_bytes=2**34)
OTHER = NodeCard(UnitId("0000-04-00.0"), GPU, tiles=1, memory_bytes=2**34)
LOOK_S = 0.2


class Published:
    """A publisher of one card, and what it tells."""

    def __init__(self, api: FakeApi, look_s: float, rest_s: float) -> None:
        self.api = api
        self.cards: Sequence[NodeCard] | None = (CARD,)
        self.asked_in_vain = 0
        self.wrote: list[str] = []
        self.failures: list[None] = []
        self.publisher = CardPublisher(
            "node",
            self._list_cards,
            wrote=self.wrote.append,
            failed=lambda: self.failures.append(None),
            look_s=look_s,
            rest_s=rest_s,
        )

    def _list_cards(self) -> Sequence[NodeCard] | None:
        self.asked_in_vain += self.cards is None
        return self.cards

    def set(self, *cards: NodeCard) -> None:
        self.cards = cards
        self.publisher.refresh()

    def said(self, *cards: NodeCard) -> Callable[[], bool]:
        """Whether the Node says these cards, and offers their parts."""
        tiles = sum(card.tiles for card in cards) if cards else None
        return lambda: (cards_of(self.api) or ()) == cards and _tiles(self.api) == tiles

    def change(self, change: Json) -> None:
        self.api.state.patch(NODES, ("", "node"), "merge-patch", change)


def _tiles(api: FakeApi) -> object:
    node = node_of(api)
    both = {part.get("gpu.intel.com/tiles") for part in (node.capacity, node.allocatable)}
    return both.pop() if len(both) == 1 else both


@pytest.fixture
def api() -> Iterator[FakeApi]:
    with FakeApi() as server:
        make_node(server)
        yield server


@asynccontextmanager
async def running(
    api: FakeApi, folder: Path, *, look_s: float = LOOK_S, rest_s: float = 0.01
) -> AsyncIterator[Published]:
    client = await Client.connect(api.write_kubeconfig(folder / "kubeconfig"))
    published = Published(api, look_s, rest_s)
    task = asyncio.create_task(published.publisher.run(client))
    try:
        yield published
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
        client.close()


ZEROS = {f"gpu.intel.com/{name}": "0" for name in ("tiles", "millicores", "memory.max")}


@pytest.mark.parametrize(
    "change",
    [
        {"metadata": {"annotations": {NODE_CARDS_ANNOTATION: None}}},
        {"metadata": {"annotations": {NODE_CARDS_ANNOTATION: "{"}}},
        {"status": {"capacity": ZEROS, "allocatable": ZEROS}},
        {"status": {"allocatable": {"gpu.intel.com/tiles": "1"}}},
        {"status": {"capacity": None}},
    ],
    ids=str,
)
async def test_what_others_did_to_the_node_is_mended(api: FakeApi, folder: Path, change: Json) -> None:
    async with running(api, folder) as published:
        published.publisher.switch(is_on=True)
        await until(published.said(CARD))
        amounts = amounts_of(api)
        published.change(change)
        await until(lambda: _is_mended(published, amounts) and len(published.wrote) > 2)
        assert len(published.wrote) == 3


def _is_mended(published: Published, amounts: object) -> bool:
    node = node_of(published.api)
    text = node.annotations.get(NODE_CARDS_ANNOTATION, "")
    return text.startswith('{"v') and published.said(CARD)() and amounts_of(published.api) == amounts


async def test_looking_again_writes_nothing(api: FakeApi, folder: Path) -> None:
    async with running(api, folder, look_s=0.02) as published:
        published.publisher.switch(is_on=True)
        await until(lambda: api.count(method="GET", path=PATH) > 10)
        assert published.wrote == ["annotation", "capacity"]


async def test_change_is_published_at_once_and_not_by_the_timer(api: FakeApi, folder: Path) -> None:
    async with running(api, folder, look_s=3600) as published:
        published.publisher.switch(is_on=True)
        await until(published.said(CARD))
        published.set(CARD, OTHER)
        await until(published.said(CARD, OTHER))
        published.publisher.refresh()
        published.set()
        await until(published.said())


async def test_cards_that_are_not_known_leave_what_is_said_and_are_waited_for_in_peace(
    api: FakeApi, folder: Path
) -> None:
    async with running(api, folder, look_s=0.02) as published:
        published.publisher.switch(is_on=True)
        await until(published.said(CARD))
        published.cards = None
        published.publisher.refresh()
        await until(lambda: published.asked_in_vain == 1)
        asked = api.count(path=PATH)
        await asyncio.sleep(0.1)  # what does not happen can only be waited for
        assert (api.count(path=PATH), published.asked_in_vain) == (asked, 1)
        published.set(CARD, OTHER)
        await until(published.said(CARD, OTHER))


@pytest.mark.parametrize(
    "action",
    [Answer(403, "Forbidden"), Answer(503), Answer(429, retry_after_s=0), Drop(), Drop(after=True)],
    ids=["forbidden", "overloaded", "patience", "dropped", "dropped after"],
)
@pytest.mark.parametrize("method", ["GET", "PATCH"])
async def test_failure_is_counted_and_tried_again_later(
    api: FakeApi, folder: Path, action: Answer | Drop, method: str
) -> None:
    fault = Fault(action, method=method, path=PATH, times=3)
    api.faults.append(fault)
    async with running(api, folder) as published:
        published.publisher.switch(is_on=True)
        await until(published.said(CARD))
        await until(lambda: len(published.failures) == fault.hits >= 2)


async def test_failure_is_not_tried_again_sooner_for_changes(api: FakeApi, folder: Path) -> None:
    api.faults.append(Fault(Answer(403, "Forbidden"), path=PATH, times=10_000))
    async with running(api, folder, look_s=60, rest_s=60) as published:
        published.publisher.switch(is_on=True)
        await until(lambda: len(published.failures) == 1)
        for _ in range(100):
            published.set(OTHER)
            published.set(CARD)
            await asyncio.sleep(0)
        assert api.count(path=PATH) == 1


async def test_node_that_is_not_there_yet_is_waited_for(folder: Path) -> None:
    with FakeApi() as api:
        async with running(api, folder) as published:
            published.publisher.switch(is_on=True)
            await until(lambda: bool(published.failures))
            make_node(api)
            await until(published.said(CARD))


async def test_switched_off_during_a_failure_it_still_removes_what_it_said(
    api: FakeApi, folder: Path
) -> None:
    async with running(api, folder) as published:
        published.publisher.switch(is_on=True)
        await until(published.said(CARD))
        fault = Fault(Answer(503), method="PATCH", path=PATH, times=10_000)
        api.faults.append(fault)
        published.publisher.switch(is_on=False)
        await until(lambda: len(published.failures) >= 2)
        api.faults.remove(fault)
        await until(published.said())
        asked = api.count(path=PATH)
        published.set(OTHER)
        await asyncio.sleep(3 * LOOK_S)  # what does not happen can only be waited for
        assert api.count(path=PATH) == asked


async def test_never_switched_on_it_asks_nobody(api: FakeApi, folder: Path) -> None:
    async with running(api, folder, look_s=0.01) as published:
        published.set(OTHER)
        published.publisher.switch(is_on=False)
        await asyncio.sleep(0.1)  # as above
        assert api.seen == []


async def test_kubelet_that_starts_while_the_node_is_written_has_it_looked_at_again(
    api: FakeApi, folder: Path
) -> None:
    async with running(api, folder, look_s=3600) as published:
        held = HoldBack()
        api.faults.append(Fault(held, method="PATCH", path=f"{PATH}/status"))
        published.publisher.switch(is_on=True)
        await until(held.is_made.is_set)
        published.publisher.refresh_after_kubelet()
        held.released.set()
        await until(lambda: len(published.wrote) == 2)
        published.change({"status": {"capacity": ZEROS, "allocatable": ZEROS}})
        await until(published.said(CARD), timeout_s=20)


async def test_kubelet_that_starts_has_the_node_looked_at_soon(api: FakeApi, folder: Path) -> None:
    async with running(api, folder, look_s=3600) as published:
        published.publisher.switch(is_on=True)
        await until(published.said(CARD))
        published.change({"status": {"capacity": ZEROS, "allocatable": ZEROS}})
        published.publisher.refresh_after_kubelet()
        await until(published.said(CARD), timeout_s=10)
        assert writes(api) == 3
