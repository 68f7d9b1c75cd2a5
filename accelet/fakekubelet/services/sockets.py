"""The sockets a kubelet opens, appearing and staying behind as the real ones do."""

import asyncio
import stat
import uuid
from pathlib import Path
from typing import Final

import grpc.aio

_MAX_RECEIVE_BYTES: Final = 4 * 1024 * 1024


def wipe_sockets(folder: Path) -> list[str]:
    """Removes the sockets in `folder` itself, also behind symbolic links, and says which.

    Files, the checkpoint and folders with all that is in them stay (Kubernetes 1.36,
    pkg/kubelet/cm/devicemanager/manager.go, CleanupPluginDirectory).
    """
    removed = []
    for path in sorted(folder.iterdir()):
        try:
            mode = path.stat().st_mode
        except OSError:
            continue  # a dangling link: the kubelet logs it and goes on
        if stat.S_ISSOCK(mode):
            path.unlink(missing_ok=True)  # its owner may be faster
            removed.append(path.name)
    return removed


def new_server() -> grpc.aio.Server:
    """A gRPC server with the limits of the kubelet's own."""
    return grpc.aio.server(
        options=[
            ("grpc.max_receive_message_length", _MAX_RECEIVE_BYTES),
            ("grpc.max_send_message_length", -1),
            ("grpc.so_reuseport", 0),
        ]
    )


async def serve_at(server: grpc.aio.Server, path: Path, *, by_rename: bool) -> None:
    """Starts `server` so that `path` appears once it can be connected to, and stays when it stops.

    gRPC removes the path it has bound when it stops; a killed kubelet leaves its socket file behind. So
    the server binds another name, of which `path` becomes a hard link (one CREATE event) or, `by_rename`,
    the new name (one MOVED_TO event). An existing `path` is replaced only by a rename.

    Raises:
        FileExistsError: `path` exists, and `by_rename` is False.
        OSError: the path is longer than a socket's may be, or the folder cannot be written.
    """
    hidden = path.parent.parent / f".s-{uuid.uuid4().hex[:8]}"
    try:
        server.add_insecure_port(f"unix:{hidden}")
    except RuntimeError as error:
        raise OSError(f"cannot bind a socket beside {path.parent}: {error}") from error
    await server.start()
    _publish(hidden, path, by_rename=by_rename)


def _publish(hidden: Path, path: Path, *, by_rename: bool) -> None:
    if by_rename:
        hidden.rename(path)
    else:
        path.hardlink_to(hidden)
        hidden.unlink()


async def stop_now(server: grpc.aio.Server) -> None:
    """Ends `server` and every call on it at once."""
    await server.stop(None)
    # The handlers that were cancelled get their turn before the sockets are gone for good.
    await asyncio.sleep(0)
