"""How long the event loop is held up: a task that should wake all the time, and by how much it is late."""

from collections.abc import Callable

from accelet.runtime.clock import SYSTEM_CLOCK, Clock

_EVERY_S = 0.02


async def measure_blocking(observe: Callable[[float], None], clock: Clock = SYSTEM_CLOCK) -> None:
    """Tells how late it woke, again and again, until it is cancelled.

    What holds the loop up is seen as up to 0.02 s shorter than it was.
    """
    while True:
        due_s = clock.now_s() + _EVERY_S
        await clock.sleep(_EVERY_S)
        observe(max(0.0, clock.now_s() - due_s))
