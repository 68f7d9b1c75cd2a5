"""What happened, one event after the other, and a way to wait for the next."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from accelet.fakekubelet.clock import Clock


class StillWaitingError(AssertionError):
    """What a test waited for did not come. The text says what was seen instead, and the seed."""


@dataclass(frozen=True, slots=True)
class Event:
    """One thing that the kubelet did or saw. `t` is seconds since the fake was made, on its clock."""

    t: float
    event: str
    resource: str | None = None
    pod: str | None = None
    container: str | None = None
    devices: tuple[str, ...] = ()
    detail: str = ""

    def __str__(self) -> str:
        where = "/".join(part for part in (self.pod, self.container) if part)
        what = [self.resource or "", where, _shortened(self.devices), self.detail]
        return f"{self.t:9.3f}  {self.event:<20} " + "  ".join(part for part in what if part)


def _shortened(devices: Sequence[str], most: int = 8) -> str:
    more = f" and {len(devices) - most} more" if len(devices) > most else ""
    return f"[{', '.join(devices[:most])}{more}]" if devices else ""


class Trace:
    """Every event so far. Whoever waits is woken by each new one."""

    def __init__(self, clock: Clock, seed: int) -> None:
        self._clock = clock
        self._start = clock.now()
        self._listeners: list[Callable[[Event], None]] = []
        self._changed = asyncio.Event()
        self._failure: BaseException | None = None
        self.seed = seed
        self.events: list[Event] = []

    def __iter__(self) -> Iterator[Event]:
        return iter(self.events)

    def record(
        self,
        event: str,
        *,
        resource: str | None = None,
        pod: str | None = None,
        container: str | None = None,
        devices: Sequence[str] = (),
        detail: str = "",
    ) -> None:
        now = self._clock.now() - self._start
        recorded = Event(now, event, resource, pod, container, tuple(devices), detail)
        self.events.append(recorded)
        for listener in self._listeners:
            listener(recorded)
        self._wake()

    def listen(self, listener: Callable[[Event], None]) -> None:
        """Has `listener` called with each event from now on."""
        self._listeners.append(listener)

    def fail(self, failure: BaseException) -> None:
        """The fake itself cannot go on: whoever waits gets `failure`, now and from now on."""
        self._failure = self._failure or failure
        self._wake()

    def recover(self) -> None:
        """Another kubelet has been started: what felled the last one is history."""
        self._failure = None

    @property
    def failure(self) -> BaseException | None:
        """What nobody has recovered from."""
        return self._failure

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    async def until(
        self,
        wanted: Callable[[], bool],
        what: str,
        *,
        timeout_s: float = 10.0,
        seen: Callable[[], str] = lambda: "",
    ) -> None:
        """Returns once `wanted()` holds; it is asked again after each event.

        `timeout_s` is real time, whatever the kubelet's clock. `what` completes "waited for ...".

        Raises:
            StillWaitingError: it did not come to hold in time.
        """
        try:
            async with asyncio.timeout(timeout_s):
                while True:
                    if self._failure is not None:
                        raise self._failure
                    if wanted():
                        return
                    await self._changed.wait()
        except TimeoutError:
            last = "\n".join(f"  {event}" for event in self.events[-15:])
            raise StillWaitingError(
                f"waited {timeout_s:g} s for {what}; {seen() or 'it did not come'}. "
                f"Seed {self.seed}. The last events:\n{last}"
            ) from None
