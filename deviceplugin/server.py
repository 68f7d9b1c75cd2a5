"""One gRPC server on one socket file of its own."""

import asyncio
import os
import re
import secrets
import socket
from pathlib import Path

import grpc

from accelet.kubelet.api import deviceplugin_pb2_grpc as api_grpc
from accelet.kubelet.paths import MAX_SOCKET_PATH
from deviceplugin.service import DevicePluginService

PREFIX = "accelet-"
_MAX_SLUG = 40
_GRACE_S = 0.5


class ServeError(Exception):
    """The socket cannot be served; the text says why."""


def make_socket_name(directory: Path, resource: str) -> str:
    """A file name for one registration in `directory`, never used again; as telling as its path may be long.

    gRPC's C core takes over a path in use and later unlinks it by name, and kubelets tell registrations
    apart by their path (from 1.37), so no two of ours may share one; a process id is no help, since in a
    container it is always 1.
    """
    unique = f"{secrets.token_hex(6)}.sock"
    room = MAX_SOCKET_PATH - len(os.fsencode(directory / f"{PREFIX}-{unique}"))
    slug = re.sub(r"[^a-z0-9]+", "-", resource.lower())[: max(0, min(room, _MAX_SLUG))].strip("-")
    return f"{PREFIX}{slug}-{unique}"


class SocketServer:
    """Serves one DevicePlugin service at a socket file until stopped."""

    def __init__(self, directory: Path, resource: str, service: DevicePluginService) -> None:
        self.path = directory / make_socket_name(directory, resource)
        self._service = service
        self._starting: asyncio.Task[None] | None = None
        self._server = grpc.aio.server(
            options=[
                # A GetPreferredAllocation for tens of thousands of ids is larger than the default 4 MiB.
                ("grpc.max_receive_message_length", -1),
                ("grpc.http2.max_ping_strikes", 0),
            ]
        )
        api_grpc.add_DevicePluginServicer_to_server(service, self._server)

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
        # Not to be cancelled half-way: gRPC's own task would fail over it, and the server never stop.
        self._starting = asyncio.create_task(self._server.start())
        await asyncio.shield(self._starting)

    async def stop(self) -> None:
        """Ends the stream, lets calls under way finish for a moment, removes the socket file.

        To be called also when `start` was cut short. Whoever is cancelled while waiting for it, even twice,
        leaves an end that takes its course.
        """
        # In a task of its own: on Python 3.11 gRPC's stop can swallow the cancellation of whoever awaits it.
        stopping = asyncio.create_task(self._end())
        try:
            await asyncio.wait([stopping])
        except asyncio.CancelledError:
            await asyncio.wait([stopping])
            raise

    async def _end(self) -> None:
        try:
            await self._service.close()
        finally:
            if self._starting is not None:
                await asyncio.wait([self._starting])
            await self._server.stop(_GRACE_S)


def _explain_no_socket(path: Path) -> str:
    """What the system says to a socket there; gRPC keeps it to itself."""
    with socket.socket(socket.AF_UNIX) as probe:
        try:
            probe.bind(os.fspath(path))
        except OSError as error:
            return error.strerror or str(error)
    path.unlink(missing_ok=True)
    return "it failed once, and would work now"


def remove_stale_sockets(directory: Path) -> list[str]:
    """Removes what an earlier process of ours left; only to be called by the one that owns the directory."""
    stale = [path for path in directory.glob(f"{PREFIX}*.sock") if path.is_socket()]
    for path in stale:
        path.unlink(missing_ok=True)
    return sorted(path.name for path in stale)
