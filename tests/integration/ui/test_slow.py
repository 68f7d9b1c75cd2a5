"""Browsers that do not read: they are let go of, and nobody is told of it in a stack trace."""

import asyncio
import logging
import socket
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager, suppress

import pytest

from accelet.kube.objects import ObjectKey
from accelet.overview.picture import CardBox, NodeBox, Picture
from accelet.overview.podevents import EventsBox
from accelet.ui.access import Opened, Sessions
from accelet.ui.app import make_app
from accelet.ui.server import listen, serve
from accelet.ui.subscribers import MOST_SUBSCRIBERS, Subscribers


async def tell_nothing(_key: ObjectKey) -> EventsBox:
    return EventsBox()


LARGE = Picture(
    nodes={
        f"n{node}": NodeBox(
            cards=tuple(CardBox(id=f"{node}-{n}", resource="x", tiles=("free",) * 500) for n in range(8))
        )
        for node in range(500)
    }
)


class Page:
    """The page of a large cluster, served; a browser that was let in may ask it."""

    def __init__(self, port: int, opened: Opened, subscribers: Subscribers) -> None:
        self._port, self._opened, self.subscribers = port, opened, subscribers

    async def ask(self, name: str) -> socket.socket:
        """A connection that has asked, and reads nothing by itself."""
        asking = socket.socket()
        asking.setblocking(False)
        loop = asyncio.get_running_loop()
        await loop.sock_connect(asking, ("127.0.0.1", self._port))
        head = f"GET {self._opened.folder}{name} HTTP/1.1\r\nHost: 127.0.0.1:{self._port}\r\n"
        await loop.sock_sendall(
            asking, f"{head}Cookie: {self._opened.header.partition(';')[0]}\r\n\r\n".encode()
        )
        return asking

    async def until_count(self, count: int) -> None:
        async with asyncio.timeout(30):
            while self.subscribers.count != count:  # noqa: ASYNC110 - a count is asked for
                await asyncio.sleep(0.01)


@asynccontextmanager
async def page_of(picture: Picture, answer_s: float) -> AsyncIterator[Page]:
    listener, sessions, subscribers = listen(0), Sessions(), Subscribers()
    opened = sessions.open(sessions.link.partition("=")[2])
    assert isinstance(opened, Opened)
    await subscribers.show(picture)
    port = listener.getsockname()[1]
    app = make_app(sessions, subscribers, port, lambda: None, tell_nothing)
    serving = asyncio.create_task(serve(app, listener, subscribers.end, answer_s))
    try:
        yield Page(port, opened, subscribers)
    finally:
        serving.cancel()
        with suppress(asyncio.CancelledError):
            await serving


async def test_who_does_not_read_is_let_go_of_without_a_stack_trace(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        async with page_of(LARGE, answer_s=0.5) as page:
            with await page.ask("events"):
                await page.until_count(1)
                await page.until_count(0)
    assert caplog.records == []


async def test_who_reads_gets_all_however_large() -> None:
    async with page_of(LARGE, answer_s=60.0) as page:
        with await page.ask("events") as asking:
            got = bytearray()
            while not got.endswith(b"\n\n\r\n"):
                got += await asyncio.get_running_loop().sock_recv(asking, 1 << 16)
        assert len(got) > 13_000_000


async def test_no_part_of_a_stream_is_large() -> None:
    subscribers = Subscribers()
    await subscribers.show(LARGE)
    text = bytearray()
    async for part in subscribers.follow():
        assert len(part) <= 1 << 16
        text += part
        if text.endswith(b"\n\n"):
            break
    assert len(text) > 13_000_000


async def test_pages_are_counted_when_they_are_let_in() -> None:
    """Not later, when more have been asked for."""
    async with page_of(Picture(), answer_s=60.0) as page:
        with ExitStack() as stack:
            asked = [stack.enter_context(await page.ask("events")) for _ in range(2 * MOST_SUBSCRIBERS)]
            loop = asyncio.get_running_loop()
            heads = await asyncio.gather(*(loop.sock_recv(one, 15) for one in asked))
            admitted, refused = [b"HTTP/1.1 200 OK"], [b"HTTP/1.1 503 Se"]
            assert sorted(heads) == admitted * MOST_SUBSCRIBERS + refused * MOST_SUBSCRIBERS
        await page.until_count(0)
