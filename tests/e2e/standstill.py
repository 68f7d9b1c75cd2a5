"""How long the machine stood still while something was judged that has time limits of its own."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from threading import Event, Thread

_LOOK_S = 0.02


@dataclass
class Standstill:
    """`most_s` is by how much a look at the clock came too late at most, in seconds."""

    most_s: float = 0.0


@contextmanager
def seen_standstill() -> Iterator[Standstill]:
    """Looks at the clock again and again, until the end."""
    seen, ended = Standstill(), Event()

    def look() -> None:
        due_s = time.monotonic() + _LOOK_S
        while not ended.wait(_LOOK_S):
            now_s = time.monotonic()
            seen.most_s = max(seen.most_s, now_s - due_s)
            due_s = now_s + _LOOK_S

    thread = Thread(target=look)
    thread.start()
    try:
        yield seen
    finally:
        ended.set()
        thread.join()
