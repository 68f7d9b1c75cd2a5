"""How long the event loop is held up, by how late a task wakes; and what keeps the collector from it."""

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from accelet.runtime.clock import SYSTEM_CLOCK, Clock

_EVERY_S = 0.02

_USUAL = 10
"""CPython's own threshold of full collections."""

_NEVER = 2**30


async def measure_blocking(observe: Callable[[float], None], clock: Clock = SYSTEM_CLOCK) -> None:
    """Tells how late it woke, again and again, until it is cancelled.

    What holds the loop up is seen as up to 0.02 s shorter than it was.
    """
    while True:
        due_s = clock.now_s() + _EVERY_S
        await clock.sleep(_EVERY_S)
        observe(max(0.0, clock.now_s() - due_s))


@contextmanager
def without_full_collections() -> Iterator[None]:
    """Has the collector look only at young objects.

    A full collection looks at everything that lives: 0.4 s for 50,000 pods, and nothing else runs meanwhile.
    What is let go of is freed all the same, but for old objects that refer to one another: these wait for
    the end.
    """
    young, middle, _ = gc.get_threshold()
    gc.set_threshold(young, middle, _NEVER)
    try:
        yield
    finally:
        gc.set_threshold(young, middle, _USUAL)
