"""How long the event loop is held up, by how late a task wakes; and what keeps the collector from it."""

import gc
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from accelet.runtime.clock import SYSTEM_CLOCK, Clock

_EVERY_S = 0.02

_OLDEST = 2
"""The generation that a full collection is of."""

ALL_EVERY_S = 86_400.0
"""How often a full collection looks at everything."""


async def measure_blocking(observe: Callable[[float], None], clock: Clock = SYSTEM_CLOCK) -> None:
    """Tells how late it woke, again and again, until it is cancelled.

    What holds the loop up is seen as up to 0.02 s shorter than it was.
    """
    while True:
        due_s = clock.now_s() + _EVERY_S
        await clock.sleep(_EVERY_S)
        observe(max(0.0, clock.now_s() - due_s))


@contextmanager
def brief_collections(clock: Clock = SYSTEM_CLOCK) -> Iterator[None]:
    """Has each full garbage collection look only at what was made since the last one.

    A full collection looks at everything that lives: 0.4 s for 50,000 pods, and nothing else runs meanwhile.
    Here what one has seen alive is set aside. It is freed all the same once nothing refers to it, but for
    objects that refer to one another in a circle; so that these do not pile up, everything is looked at once
    a day.
    """
    all_seen_s = clock.now_s()

    def set_aside(phase: str, info: Mapping[str, int]) -> None:
        nonlocal all_seen_s
        if phase != "stop" or info["generation"] < _OLDEST:
            return
        gc.freeze()
        if clock.now_s() - all_seen_s >= ALL_EVERY_S:
            all_seen_s = clock.now_s()
            gc.unfreeze()  # the next full collection looks at all of it

    gc.callbacks.append(set_aside)
    try:
        yield
    finally:
        gc.callbacks.remove(set_aside)
        gc.unfreeze()


@contextmanager
def uncollected() -> Iterator[None]:
    """No garbage is collected inside, by any thread: for imports of many modules.

    What modules make stays: collections would find nothing of it, and take a tenth of the time of imports.
    So it is set aside, or the next collection would take that time all the same.
    """
    was_enabled, modules = gc.isenabled(), len(sys.modules)
    gc.disable()
    try:
        yield
    finally:
        if len(sys.modules) > modules:
            gc.freeze()
        if was_enabled:
            gc.enable()
