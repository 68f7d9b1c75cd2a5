"""The one HTTP port: /healthz, /readyz and /metrics, and pages for the own pod."""

import asyncio
import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from http import HTTPStatus
from types import MappingProxyType
from typing import Protocol, TypeVar
from urllib.parse import parse_qs

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.exposition import make_wsgi_app

from accelet.runtime.webserver import Bounds, HttpAnswer, HttpRequest, WebServer

T = TypeVar("T")

LOOP_ANSWERS_S = 5.0
DEFAULT_BOUNDS = Bounds()
Page = Callable[[], bytes]
"""Makes JSON, on the event loop that is watched."""

_NO_PAGES: Mapping[str, Page] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Check:
    """One line of /readyz?verbose."""

    name: str
    is_ok: bool
    detail: str


class Refusal(Enum):
    """Why somebody may not read /metrics."""

    NO_TOKEN = HTTPStatus.UNAUTHORIZED, "a token is needed: Authorization: Bearer TOKEN"
    NOBODY = HTTPStatus.UNAUTHORIZED, "the API server does not know this token"
    NOT_ALLOWED = HTTPStatus.FORBIDDEN, "its owner needs the verb get on the path /metrics"
    NOT_ANSWERED = HTTPStatus.SERVICE_UNAVAILABLE, "the API server did not say whether this token may read"

    @property
    def answer(self) -> HttpAnswer:
        status, sentence = self.value
        plain = _text(status, sentence)
        is_challenge = status is HTTPStatus.UNAUTHORIZED
        more = (("WWW-Authenticate", "Bearer"),) if is_challenge else ()
        return HttpAnswer(status, plain.body, (*plain.headers, *more))


class MetricsGuard(Protocol):
    """Decides who may read /metrics, on the event loop that is watched."""

    async def admit(self, token: str | None) -> Refusal | None:
        """None where the owner of this token may; `token` is None where there was none."""
        ...


def _anybody() -> MetricsGuard | None:
    return None


def make_registry() -> CollectorRegistry:
    """A registry that has the process itself: its memory, processor time, open files, and when it began."""
    registry = CollectorRegistry()
    ProcessCollector(registry=registry)
    return registry


class AddressError(Exception):
    """The address is not one, or nothing can listen there; the text says why."""


def parse_address(text: str) -> tuple[str, int]:
    """Host and port of `HOST:PORT`, `[V6]:PORT` or `:PORT` (all addresses).

    Raises:
        AddressError: it is none of these.
    """
    host, colon, port = text.rpartition(":")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
    elif ":" in host:
        colon = ""
    if not colon or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise AddressError(f"{text!r} is not an address; write HOST:PORT, [IPV6]:PORT or :PORT")
    return host, int(port)


class ProbeServer:
    """Answers probes on a thread of its own, so that a stuck event loop is seen and not waited for."""

    def __init__(
        self,
        address: tuple[str, int],
        registry: CollectorRegistry,
        ready: Callable[[], Sequence[Check]],
        *,
        pages: Mapping[str, Page] = _NO_PAGES,
        guard: Callable[[], MetricsGuard | None] = _anybody,
        loop_answers_s: float = LOOP_ANSWERS_S,
        bounds: Bounds = DEFAULT_BOUNDS,
    ) -> None:
        """Listens at once; an event loop that says nothing for `loop_answers_s` is stuck.

        `pages` are for who asks from this host's or pod's own address alone. `guard` says who guards /metrics
        at the moment, None for nobody; it is called on the server's thread.

        Raises:
            AddressError: the address cannot be listened on.
        """
        self._loop = asyncio.get_running_loop()
        self._ready = ready
        self._loop_answers_s, self._pages, self._guard = loop_answers_s, pages, guard
        self._metrics = make_wsgi_app(registry)
        try:
            listener = _listen(address)
        except OSError as error:
            raise AddressError(f"cannot listen on {address[0]}:{address[1]}: {error.strerror}") from error
        self.port: int = listener.getsockname()[1]
        self._server = WebServer(listener, self._answer, bounds)
        self._server.start("probes")

    def close(self) -> None:
        """Tells the server to end, for which nobody needs to wait."""
        self._server.close()

    async def _answer(self, request: HttpRequest) -> HttpAnswer:
        if request.method not in ("GET", "HEAD"):
            return _text(HTTPStatus.METHOD_NOT_ALLOWED, "only GET")
        if request.path == "/metrics":
            return await self._refuse(request) or self._answer_metrics(request)
        if request.path == "/healthz":
            return _text(HTTPStatus.OK, "ok") if await self._on_loop(lambda: True) else _STUCK
        if request.path == "/readyz":
            is_verbose = "verbose" in parse_qs(request.query, keep_blank_values=True)
            return await self._answer_ready(is_verbose=is_verbose)
        if request.is_local and request.path in self._pages:
            return await self._answer_page(self._pages[request.path])
        return _text(HTTPStatus.NOT_FOUND, "there are /healthz, /readyz and /metrics")

    async def _refuse(self, request: HttpRequest) -> HttpAnswer | None:
        """The answer to whoever may not read /metrics."""
        guard = self._guard()
        if guard is None:
            return None
        scheme, _, token = request.headers.get("authorization", "").partition(" ")
        given = token.strip() if scheme.lower() == "bearer" else None
        try:
            async with asyncio.timeout(self._loop_answers_s):
                refusal = await asyncio.wrap_future(
                    asyncio.run_coroutine_threadsafe(guard.admit(given), self._loop)
                )
        except TimeoutError:
            return _STUCK
        return None if refusal is None else refusal.answer

    def _answer_metrics(self, request: HttpRequest) -> HttpAnswer:
        """What the library's own server would say, which speaks WSGI."""
        headers = {f"HTTP_{name.upper().replace('-', '_')}": value for name, value in request.headers.items()}
        environ = {
            **headers,
            "REQUEST_METHOD": request.method,
            "PATH_INFO": request.path,
            "QUERY_STRING": request.query,
        }
        began: list[tuple[str, list[tuple[str, str]]]] = []
        body = b"".join(self._metrics(environ, lambda status, more: began.append((status, more))))
        ((status, more),) = began
        return HttpAnswer(HTTPStatus(int(status[:3])), body, tuple(more))

    async def _answer_ready(self, *, is_verbose: bool) -> HttpAnswer:
        checks = await self._on_loop(self._ready)
        if checks is None:
            return _STUCK
        is_ready = all(check.is_ok for check in checks)
        lines = [f"[{'+' if check.is_ok else '-'}] {check.name}: {check.detail}" for check in checks]
        shown = lines if is_verbose or not is_ready else []
        status = HTTPStatus.OK if is_ready else HTTPStatus.SERVICE_UNAVAILABLE
        return _text(status, "\n".join([*shown, "ok" if is_ready else "not ready"]))

    async def _answer_page(self, page: Page) -> HttpAnswer:
        body = await self._on_loop(page)
        headers = (("Content-Type", "application/json"),)
        return _STUCK if body is None else HttpAnswer(HTTPStatus.OK, body, headers)

    async def _on_loop(self, call: Callable[[], T]) -> T | None:
        """What `call` returns on the event loop that is watched; None when that does not come to it."""

        async def on_loop() -> T:
            return call()

        try:
            async with asyncio.timeout(self._loop_answers_s):
                return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(on_loop(), self._loop))
        except TimeoutError:
            return None


def _listen(address: tuple[str, int]) -> socket.socket:
    host, port = address
    if not host and socket.has_dualstack_ipv6():
        return socket.create_server(("::", port), family=socket.AF_INET6, dualstack_ipv6=True)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, port), family=family)


def _text(status: HTTPStatus, text: str) -> HttpAnswer:
    return HttpAnswer(status, f"{text}\n".encode())


_STUCK = _text(HTTPStatus.SERVICE_UNAVAILABLE, "the event loop is stuck")
