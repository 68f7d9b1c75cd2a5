"""The one HTTP port: /healthz, /readyz and /metrics."""

import asyncio
import functools
import socket
import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from socketserver import TCPServer, ThreadingMixIn
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import parse_qs
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import make_wsgi_app

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIEnvironment

T = TypeVar("T")

LOOP_ANSWERS_S = 5.0
_CLIENT_S = 10.0

_END_S = 5.0
"""How often the server looks whether it shall end: each look wakes a process that has nothing to do."""


@dataclass(frozen=True, slots=True)
class Check:
    """One line of /readyz?verbose."""

    name: str
    is_ok: bool
    detail: str


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
    """Answers probes on threads of its own, so that a stuck event loop is seen and not waited for."""

    def __init__(
        self,
        address: tuple[str, int],
        registry: CollectorRegistry,
        ready: Callable[[], Sequence[Check]],
        *,
        loop_answers_s: float = LOOP_ANSWERS_S,
    ) -> None:
        """Listens at once; an event loop that says nothing for `loop_answers_s` is stuck.

        Raises:
            AddressError: the address cannot be listened on.
        """
        self._loop = asyncio.get_running_loop()
        self._ready = ready
        self._loop_answers_s = loop_answers_s
        self._metrics = make_wsgi_app(registry)
        try:
            self._server = _listen(address)
        except OSError as error:
            raise AddressError(f"cannot listen on {address[0]}:{address[1]}: {error.strerror}") from error
        self._server.set_app(self._answer)
        serve = functools.partial(self._server.serve_forever, poll_interval=_END_S)
        threading.Thread(target=serve, name="probes", daemon=True).start()

    @property
    def port(self) -> int:
        return self._server.server_port

    def close(self) -> None:
        """Tells the server to end, which takes up to _END_S, for which nobody needs to wait."""
        threading.Thread(target=self._end, name="probes end", daemon=True).start()

    def _end(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _answer(self, environ: "WSGIEnvironment", start_response: "StartResponse") -> Iterable[bytes]:
        path = environ["PATH_INFO"]
        if environ["REQUEST_METHOD"] not in ("GET", "HEAD"):
            return _text(start_response, "405 Method Not Allowed", "only GET")
        if path == "/metrics":
            answer: Iterable[bytes] = self._metrics(environ, start_response)
            return answer
        if path == "/healthz":
            if self._on_loop(lambda: True) is None:
                return _text(start_response, "503 Service Unavailable", "the event loop is stuck")
            return _text(start_response, "200 OK", "ok")
        if path == "/readyz":
            is_verbose = "verbose" in parse_qs(environ.get("QUERY_STRING", ""), keep_blank_values=True)
            return self._answer_ready(start_response, is_verbose=is_verbose)
        return _text(start_response, "404 Not Found", "there are /healthz, /readyz and /metrics")

    def _answer_ready(self, start_response: "StartResponse", *, is_verbose: bool) -> Iterable[bytes]:
        checks = self._on_loop(self._ready)
        if checks is None:
            return _text(start_response, "503 Service Unavailable", "the event loop is stuck")
        is_ready = all(check.is_ok for check in checks)
        lines = [f"[{'+' if check.is_ok else '-'}] {check.name}: {check.detail}" for check in checks]
        shown = lines if is_verbose or not is_ready else []
        status = "200 OK" if is_ready else "503 Service Unavailable"
        return _text(start_response, status, "\n".join([*shown, "ok" if is_ready else "not ready"]))

    def _on_loop(self, call: Callable[[], T]) -> T | None:
        """What `call` returns on the event loop; None when the loop does not come to it."""

        async def on_loop() -> T:
            return call()

        try:
            return asyncio.run_coroutine_threadsafe(on_loop(), self._loop).result(self._loop_answers_s)
        except TimeoutError:
            return None


class _Handler(WSGIRequestHandler):
    timeout = _CLIENT_S  # a client that says nothing must not hold a thread for ever

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name in the base class
        """Probes come every few seconds and are not news."""


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True

    def server_bind(self) -> None:
        if self.address_family == socket.AF_INET6:
            self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        # Not the HTTP server's own, which asks the DNS for the host's name before it listens.
        TCPServer.server_bind(self)
        self.server_name, self.server_port = str(self.server_address[0]), self.server_address[1]
        self.setup_environ()


class _Server6(_Server):
    address_family = socket.AF_INET6


def _listen(address: tuple[str, int]) -> _Server:
    host, port = address
    if not host:
        if socket.has_dualstack_ipv6():
            return _Server6(("::", port), _Handler)
        return _Server(("0.0.0.0", port), _Handler)  # noqa: S104 - asked for all addresses, on a node without IPv6
    return (_Server6 if ":" in host else _Server)((host, port), _Handler)


def _text(start_response: "StartResponse", status: str, text: str) -> Iterable[bytes]:
    body = f"{text}\n".encode()
    start_response(
        status, [("Content-Type", "text/plain; charset=utf-8"), ("Content-Length", str(len(body)))]
    )
    return [body]
