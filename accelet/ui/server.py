"""An HTTP server on loopback that other users of the machine cannot exhaust."""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

MOST_CONNECTIONS: Final = 64
HEAD_S: Final = 5.0
"""So long may it take until a request has come whole."""

ANSWER_S: Final = 10.0
"""So long may a browser take to read a part of an answer."""

_MOST_HEAD: Final = 8192
_END_S: Final = 1
"""So long do streams get to end."""


class _Connection(H11Protocol):
    """Of connections beyond the most, the oldest that has asked nothing yet is closed.

    A part of an answer is sent when the one before is gone; a browser that does not read it is let go of.
    """

    opened_s = 0.0
    answer_s = ANSWER_S
    _unread: asyncio.TimerHandle | None = None

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        transport.set_write_buffer_limits(high=0)
        self.opened_s = self.loop.time()
        self.loop.call_later(HEAD_S, self._end_if_silent)
        if len(self.connections) > MOST_CONNECTIONS:
            silent = [one for one in self.connections if isinstance(one, _Connection) and one.cycle is None]
            min(silent, key=lambda one: one.opened_s).transport.abort()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._unread = self.loop.call_later(self.answer_s, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._stop_waiting()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._stop_waiting()

    def _stop_waiting(self) -> None:
        if self._unread is not None:
            self._unread.cancel()
            self._unread = None

    def _end_if_silent(self) -> None:
        if self.cycle is None and not self.transport.is_closing():
            self.transport.abort()


class _Server(uvicorn.Server):
    """Leaves signals to whoever runs it."""

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


def listen(port: int) -> socket.socket:
    """A socket that listens on 127.0.0.1; on a free port where it is 0.

    Raises:
        OSError: the port is taken, or may not be had.
    """
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", port))
        listener.listen(MOST_CONNECTIONS)
        listener.settimeout(0)
    except BaseException:
        listener.close()
        raise
    return listener


async def serve(
    app: ASGIApp,
    listener: socket.socket,
    end_streams: Callable[[], Awaitable[None]],
    answer_s: float = ANSWER_S,
) -> None:
    """Serves until it is cancelled; then streams are ended, for which they have a second."""

    class Patient(_Connection):
        """One that waits so long."""

    Patient.answer_s = answer_s
    server = _Server(
        uvicorn.Config(
            app,
            http=Patient,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            server_header=False,
            date_header=False,
            proxy_headers=False,
            h11_max_incomplete_event_size=_MOST_HEAD,
            timeout_graceful_shutdown=_END_S,
        )
    )
    serving = asyncio.ensure_future(server.serve(sockets=[listener]))
    try:
        await asyncio.shield(serving)
    finally:
        await end_streams()
        server.should_exit = True
        await serving
