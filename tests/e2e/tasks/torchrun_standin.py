"""Stands in for torchrun where PyTorch is not: its rules of options and rendezvous, without what it starts.

`torchrun.py` compares its options with those of the real one. Run as a program it prints a JSON line for each
world that it is part of, until it is told to end. It takes a second where torchrun waits 30 s for more nodes.
"""

import ipaddress
import json
import os
import socket
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass

_LAST_CALL_S = 1.0
_AGAIN_S = 0.2


@dataclass(frozen=True, slots=True)
class Options:
    """What torchrun takes from PET_*, by the names of its LaunchConfig."""

    min_nodes: int
    max_nodes: int
    nproc_per_node: int
    rdzv_backend: str
    rdzv_endpoint: str
    run_id: str
    node_rank: int


def read_options(environment: Mapping[str, str]) -> Options:
    """As torch/distributed/run.py reads them, where there are no options on its command line."""
    least, _, most = environment.get("PET_NNODES", "1:1").partition(":")
    backend = environment.get("PET_RDZV_BACKEND", "static")
    endpoint = environment.get("PET_RDZV_ENDPOINT", "")
    if backend == "static" and not endpoint:
        address = environment.get("PET_MASTER_ADDR", "127.0.0.1")
        endpoint = f"{address}:{environment.get('PET_MASTER_PORT', '29500')}"
    return Options(
        int(least),
        int(most or least),
        int(environment.get("PET_NPROC_PER_NODE", "1")),
        backend,
        endpoint,
        environment.get("PET_RDZV_ID", "none"),
        int(environment.get("PET_NODE_RANK", "0")),
    )


def is_own_name(host: str) -> bool:
    """Whether this machine serves the rendezvous, as PyTorch 1.13 decides it: by its name or full name."""
    own = socket.gethostname()
    if host in ("localhost", own):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        found = socket.getaddrinfo(own, None, proto=socket.IPPROTO_TCP, flags=socket.AI_CANONNAME)
        return any(one[3] == host for one in found)


class Host:
    """Serves one rendezvous: a world begins with the most nodes, or a while after the least have come."""

    def __init__(self, least: int, most: int, address: tuple[str, int]) -> None:
        self._least, self._most = least, most
        self._server = socket.create_server(address)
        self._nodes: list[socket.socket] = []
        self._changed_s = 0.0
        self._told: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()
        threading.Thread(target=self._tell, daemon=True).start()

    def _accept(self) -> None:
        while True:
            node, _ = self._server.accept()
            self._nodes, self._changed_s = [*self._nodes, node], time.monotonic()

    def _tell(self) -> None:
        while True:
            time.sleep(_AGAIN_S)
            nodes, is_quiet = self._nodes[: self._most], time.monotonic() - self._changed_s >= _LAST_CALL_S
            is_enough = len(nodes) == self._most or (len(nodes) >= self._least and is_quiet)
            if is_enough and nodes != self._told:
                self._told = nodes
                for node in nodes:
                    node.sendall(f"{len(nodes)}\n".encode())


def _say(**told: object) -> None:
    sys.stdout.write(json.dumps(told) + "\n")
    sys.stdout.flush()


def _connect(address: tuple[str, int]) -> socket.socket:
    """Tries until somebody listens: its caller is ended by who has started it."""
    while True:
        try:
            return socket.create_connection(address)
        except OSError:
            time.sleep(_AGAIN_S)


def main() -> None:
    options = read_options(os.environ)
    _say(**asdict(options))
    host, _, port = options.rdzv_endpoint.rpartition(":")
    address = host, int(port)
    is_static = options.rdzv_backend == "static"
    is_host = options.node_rank == 0 if is_static else is_own_name(host)
    if is_host:
        # The static rendezvous has one size, the largest.
        Host(options.max_nodes if is_static else options.min_nodes, options.max_nodes, address)
    with _connect(address) as connection, connection.makefile() as lines:
        for line in lines:
            _say(nodes=int(line), processes=int(line) * options.nproc_per_node)


if __name__ == "__main__":
    main()
