"""A small HTTP server that strangers cannot exhaust: one thread, and everything about a connection bounded.

For probes and metrics, which every pod of a cluster may be able to reach. A connection is for one request.
"""

import asyncio
import ipaddress
import socket
import threading
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from http import HTTPStatus

_READ_LIMIT_ERRORS = (asyncio.LimitOverrunError, UnicodeDecodeError, ValueError)


@dataclass(frozen=True, slots=True)
class Bounds:
    """What one server takes: how many connections at a time, and of each how much and how long.

    Above `connections` the oldest is closed of the address that has most, so that those who only hold theirs,
    or open ever more, keep nobody else out. A request's line and headers, of at most `head_bytes`, are to
    come in `head_s`; what it is answered is to be read in `answer_s`. Bodies are not read.
    """

    connections: int = 32
    head_bytes: int = 8192
    head_s: float = 2.0
    answer_s: float = 10.0


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """`headers` by lower-case name. `is_local`: it came from a loopback address."""

    method: str
    path: str
    query: str
    headers: Mapping[str, str]
    is_local: bool = False


@dataclass(frozen=True, slots=True)
class HttpAnswer:
    status: HTTPStatus
    body: bytes
    headers: tuple[tuple[str, str], ...] = (("Content-Type", "text/plain; charset=utf-8"),)


Answer = Callable[[HttpRequest], Awaitable[HttpAnswer]]


@dataclass(eq=False)
class WebServer:
    """Serves on a socket that listens already, on a thread and an event loop of its own, until `close`."""

    listener: socket.socket
    answer: Answer
    bounds: Bounds = Bounds()
    _loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.new_event_loop)
    _open: dict[asyncio.StreamWriter, str] = field(default_factory=dict)
    _answering: dict[asyncio.StreamWriter, asyncio.Task[HttpAnswer]] = field(default_factory=dict)
    _is_over: asyncio.Event = field(default_factory=asyncio.Event)

    def start(self, name: str) -> None:
        threading.Thread(target=self._run, name=name, daemon=True).start()

    def close(self) -> None:
        """Tells the server to end, for which nobody needs to wait."""
        with suppress(RuntimeError):  # it has ended already
            self._loop.call_soon_threadsafe(self._is_over.set)

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._serve())

    async def _serve(self) -> None:
        server = await asyncio.start_server(self._meet, sock=self.listener, limit=self.bounds.head_bytes)
        await self._is_over.wait()
        server.close()
        for writer in list(self._open):
            writer.transport.abort()

    async def _meet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open[writer] = writer.get_extra_info("peername")[0]
        if len(self._open) > self.bounds.connections:
            self._close_one()
        try:
            with suppress(OSError, TimeoutError, asyncio.IncompleteReadError):
                await self._talk(reader, writer)
        finally:
            self._open.pop(writer, None)
            writer.transport.abort()

    async def _ask(self, request: HttpRequest, writer: asyncio.StreamWriter) -> HttpAnswer | None:
        """None where the connection was closed meanwhile: nobody waits for an answer any more."""
        answering = self._answering[writer] = asyncio.ensure_future(self.answer(request))
        try:
            await asyncio.wait([answering])
        finally:
            del self._answering[writer]
            answering.cancel()
        return None if answering.cancelled() else answering.result()

    def _close_one(self) -> None:
        counts = Counter(self._open.values())
        greediest = max(counts, key=counts.__getitem__)
        oldest = next(writer for writer, address in self._open.items() if address == greediest)
        del self._open[oldest]
        oldest.transport.abort()
        if (answering := self._answering.get(oldest)) is not None:
            answering.cancel()

    async def _talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        is_head, is_local = False, is_loopback(self._open[writer])
        async with asyncio.timeout(self.bounds.head_s):
            try:
                request = _parse_head(await reader.readuntil(b"\r\n\r\n"), is_local=is_local)
            except _READ_LIMIT_ERRORS as error:
                is_too_large = isinstance(error, asyncio.LimitOverrunError)
                status = (
                    HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE if is_too_large else HTTPStatus.BAD_REQUEST
                )
                answer = HttpAnswer(status, b"")
                request = None
        async with asyncio.timeout(self.bounds.answer_s):
            if request is not None:
                if (given := await self._ask(request, writer)) is None:
                    return
                answer = given
                is_head = request.method == "HEAD"
            writer.write(_render(answer, is_head=is_head))
            writer.close()
            await writer.wait_closed()


def is_loopback(text: str) -> bool:
    """Whether an address is one's own, as the peer of a socket of either family is told."""
    address = ipaddress.ip_address(text)
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return (mapped or address).is_loopback


def _parse_head(head: bytes, *, is_local: bool) -> HttpRequest:
    """
    Raises:
        ValueError: it is no HTTP request.
    """
    first, *lines = head.decode("latin-1").split("\r\n")[:-2]
    method, target, version = first.split(" ")
    if not version.startswith("HTTP/1.") or not target.startswith("/"):
        raise ValueError("no HTTP request")
    path, _, query = target.partition("?")
    pairs = (line.partition(":") for line in lines)
    headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
    return HttpRequest(method, path, query, headers, is_local)


def _render(answer: HttpAnswer, *, is_head: bool) -> bytes:
    status = answer.status
    headers = (*answer.headers, ("Content-Length", str(len(answer.body))), ("Connection", "close"))
    lines = [f"HTTP/1.1 {status.value} {status.phrase}", *(f"{name}: {value}" for name, value in headers)]
    return "\r\n".join((*lines, "", "")).encode("latin-1") + (b"" if is_head else answer.body)
