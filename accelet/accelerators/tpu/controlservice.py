"""The host's service that libtpu asks before it starts, from v6e on: where it is, and whether it is there."""

import ipaddress
import socket
import stat
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from accelet.accelerators.edits import Mount
from accelet.accelerators.tpu.settings import ControlService

VARIABLE: Final = "VBAR_CONTROL_SERVICE_URL"
PORT: Final = 8353
SOCKET: Final = "/var/run/tpu-plugin/vbar.sock"
"""Where GKE's device plugin and dra-driver-google-tpu expect it (pkg/tpu/util; util.go)."""

MOUNT: Final = Mount(str(Path(SOCKET).parent), str(Path(SOCKET).parent), read_only=False)

_CHECK_S: Final = 60.0
_CONNECT_S: Final = 0.5


def control_service_url(kind: ControlService, node_ip: str | None) -> str | None:
    """What VBAR_CONTROL_SERVICE_URL says; None where it is unset, also since the address is not known."""
    if kind == "unix":
        return f"unix://{SOCKET}"
    if kind == "none" or node_ip is None:
        return None
    try:
        address = ipaddress.ip_address(node_ip)
    except ValueError:
        return None
    return f"[{address}]:{PORT}" if address.version == 6 else f"{address}:{PORT}"


class ControlServiceCheck:
    """Looks whether the service is there, once a minute at most: its answer may be so old."""

    def __init__(self, clock: Callable[[], float] = time.monotonic, port: int = PORT) -> None:
        self._clock = clock
        self._port = port
        self._checked_at: float | None = None
        self._warning: str | None = None

    def __call__(self, root: Path, kind: ControlService, node_ip: str | None) -> str | None:
        """What is wrong, as a sentence. Waits half a second at most."""
        now = self._clock()
        if self._checked_at is None or now - self._checked_at >= _CHECK_S:
            self._checked_at, self._warning = now, self._look(root, kind, node_ip)
        return self._warning

    def _look(self, root: Path, kind: ControlService, node_ip: str | None) -> str | None:
        if kind == "none":
            return None
        url = control_service_url(kind, node_ip)
        if url is None:
            return (
                f"the node's address is not known, so containers are not given {VARIABLE}, without which "
                "libtpu fails: set --node-ip (NODE_IP)"
            )
        fault = _find_socket_fault(root) if kind == "unix" else _find_port_fault(str(node_ip), self._port)
        if fault is None:
            return None
        return (
            f"libtpu asks a service at {url} before it starts, and {fault}: run the TPU VM's control agent "
            "on the host, or say where it is with the setting control_service"
        )


def _find_socket_fault(root: Path) -> str | None:
    try:
        is_socket = stat.S_ISSOCK((root / SOCKET.removeprefix("/")).stat().st_mode)
    except OSError as error:
        return f"there is no such socket ({error.strerror})"
    return None if is_socket else "that is no socket"


def _find_port_fault(address: str, port: int) -> str | None:
    try:
        socket.create_connection((address, port), timeout=_CONNECT_S).close()
    except OSError as error:
        return f"nothing answers there ({error.strerror or 'timed out'})"
    return None
