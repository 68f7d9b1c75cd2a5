"""One gRPC server on one socket file, for any of the kubelet's services."""

import asyncio
import os
import socket
import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import grpc

from accelet.kubelet.paths import MAX_SOCKET_PATH
from accelet.node.callsunderway import FINISH_S, CallsUnderWay, CountCalls

_GRACE_S = 0.5


class ServeError(Exception):
    """The socket cannot be served; the text says why."""


class SocketService(Protocol):
    """One service, or several, of a server."""

    def add_to(self, server: grpc.aio.Server) -> None:
        """Has the server answer this service's calls."""
        ...

    async def close(self) -> None:
        """Ends the streams that are open, and any that is opened later."""
        ...


class SocketServer:
    """Serves at a socket file, which nobody else may have or ever had, until stopped.

    gRPC's C core takes over a path in use without a word and later unlinks it by name.
    """

    def __init__(
        self, path: Path, services: Sequence[SocketService], calls: CallsUnderWay | None = None
    ) -> None:
        """`calls` counts the calls of several servers together."""
        self.path = path
        self._calls = CallsUnderWay(calls)
        self._services = tuple(services)
        self._starting: asyncio.Task[None] | None = None
        self._made: tuple[int, int] | None = None
        self._server = grpc.aio.server(
            interceptors=[CountCalls(self._calls)],
            options=[
                # A GetPreferredAllocation for tens of thousands of ids is larger than the default 4 MiB.
                ("grpc.max_receive_message_length", -1),
                ("grpc.http2.max_ping_strikes", 0),
            ],
        )
        for service in self._services:
            service.add_to(self._server)

    async def start(self) -> None:
        """Binds the socket and serves.

        Raises:
            ServeError: the directory does not take the socket.
        """
        if len(os.fsencode(self.path)) > MAX_SOCKET_PATH:
            raise ServeError(
                f"{self.path.parent} is too long a path for sockets: Linux allows {MAX_SOCKET_PATH} bytes"
            )
        try:
            self._server.add_insecure_port(f"unix:{self.path}")
        except RuntimeError as error:
            reason = _explain_no_socket(self.path)
            raise ServeError(f"no socket can be made in {self.path.parent}: {reason}") from error
        self._made = _identify(self.path)
        # Not to be cancelled half-way: gRPC's own task would fail over it, and the server never stop.
        self._starting = asyncio.create_task(self._server.start())
        await asyncio.shield(self._starting)

    @property
    def is_in_place(self) -> bool:
        """Whether the path leads to the socket that was made there, and to nothing else since."""
        return self._made is not None and _identify(self.path) == self._made

    async def stop(self, *, finish_s: float = FINISH_S) -> None:
        """Lets calls under way finish for up to `finish_s`, ends the streams, removes the socket file.

        The streams end last: a kubelet that sees its stream end drops the calls beside it. To be called also
        when `start` was cut short. Whoever is cancelled while waiting for it, even twice, leaves an end that
        takes its course.
        """
        # In a task of its own: on Python 3.11 gRPC's stop can swallow the cancellation of whoever awaits it.
        stopping = asyncio.create_task(self._end(finish_s))
        try:
            await asyncio.wait([stopping])
        except asyncio.CancelledError:
            await asyncio.wait([stopping])
            raise

    async def _end(self, finish_s: float) -> None:
        try:
            if self._calls.count:
                await self._calls.finished(finish_s)
            await asyncio.gather(*(service.close() for service in self._services))
        finally:
            if self._starting is not None:
                await asyncio.wait([self._starting])
            await self._server.stop(_GRACE_S)


def _identify(path: Path) -> tuple[int, int] | None:
    """Device and inode of the socket at a path; None where there is none.

    Not its times: whoever labels or chowns a socket leaves it in its place.
    """
    try:
        status = path.stat()
    except OSError:
        return None
    return (status.st_dev, status.st_ino) if stat.S_ISSOCK(status.st_mode) else None


def _explain_no_socket(path: Path) -> str:
    """What the system says to a socket there; gRPC keeps it to itself."""
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.bind(os.fspath(path))
        except OSError as error:
            return error.strerror or str(error)
    path.unlink(missing_ok=True)
    return "it failed once, and would work now"
