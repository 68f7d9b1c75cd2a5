"""Ports of 127.0.0.1 for processes that are told theirs, and that come back on it after a restart."""

import socket
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import islice
from random import SystemRandom

LOOPBACK = "127.0.0.1"
CHOICES = range(20_000, 30_000)
"""Below what Linux gives outgoing connections (from 32768 on), any of which could take the port of a process
that is away for a moment, and below the ports of Services of type NodePort (from 30000 on)."""


def free_ports(count: int) -> list[int]:
    """Ports nobody listens on now. All are taken at once, so that no number comes twice.

    They are drawn at random, so that two runs on one machine seldom draw the same.

    Raises OSError when there are not as many.
    """
    with ExitStack() as taken:
        listeners = [taken.enter_context(listener) for listener in islice(_listeners(), count)]
        found: list[int] = [listener.getsockname()[1] for listener in listeners]
    if len(found) < count:
        raise OSError(f"fewer than {count} of the ports {CHOICES.start} to {CHOICES.stop - 1} are free")
    return found


def free_port() -> int:
    """A port nobody listens on now; raises OSError when there is none."""
    (port,) = free_ports(1)
    return port


def _listeners() -> Iterator[socket.socket]:
    for port in SystemRandom().sample(CHOICES, len(CHOICES)):
        try:
            listener = socket.create_server((LOOPBACK, port))
        except OSError:
            continue
        yield listener
