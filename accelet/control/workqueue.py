"""Keys that somebody must look at: each once, however often it was said, and never twice at a time."""

import asyncio
import heapq
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

from accelet.control.errors import ControlError
from accelet.kube.errors import ApiError, KubeError
from accelet.runtime.backoff import Backoff
from accelet.runtime.clock import SYSTEM_CLOCK, Clock
from accelet.runtime.logs import Log
from accelet.runtime.waiting import left_s, wait_for_hint

K = TypeVar("K", bound=Hashable)
_log = Log(__name__)


class Schedule(Generic[K]):
    """Which key is next: plain and synchronous, told the time.

    Invariants: a key is in `take`'s results again only after `done`; a key that was added while it was
    taken comes again; of several delayed adds of a key the earliest counts; a key that is held is taken no
    sooner, whoever adds it.
    """

    def __init__(self, first_s: float, most_s: float) -> None:
        self._backoff = Backoff(first_s, most_s)
        self._ready: dict[K, None] = {}
        self._taken: set[K] = set()
        self._again: set[K] = set()
        self._due_s: dict[K, float] = {}
        self._timers: list[tuple[float, int, K]] = []
        self._number = 0
        self._tries: dict[K, Backoff] = {}
        self._held_s: dict[K, float] = {}

    def __len__(self) -> int:
        """How many keys wait to be taken now; those with a delay do not count."""
        return len(self._ready) + len(self._again)

    def add(self, key: K) -> None:
        if key in self._taken:
            self._again.add(key)
        else:
            self._ready.setdefault(key)

    def add_at(self, key: K, due_s: float) -> None:
        if due_s < self._due_s.get(key, float("inf")):
            self._due_s[key] = due_s
            self._number += 1
            heapq.heappush(self._timers, (due_s, self._number, key))

    def take(self, now_s: float) -> K | None:
        """The key that has waited longest, or None if there is none to be taken now."""
        while self._timers and self._timers[0][0] <= now_s:
            due_s, _, key = heapq.heappop(self._timers)
            if self._due_s.get(key) == due_s:
                del self._due_s[key]
                self.add(key)
        while self._ready:
            key = next(iter(self._ready))
            del self._ready[key]
            if self._held_s.get(key, now_s) <= now_s:
                self._held_s.pop(key, None)
                self._taken.add(key)
                return key
            self.add_at(key, self._held_s[key])
        return None

    def done(self, key: K) -> None:
        """The key was looked at, well or not."""
        self._taken.remove(key)
        if key in self._again:
            self._again.remove(key)
            self._ready.setdefault(key)

    def retry(self, key: K, now_s: float, asked_s: float = 0.0) -> float:
        """Adds the key after a wait that doubles each time, and returns the wait.

        An API server that was asked may say to be left alone for `asked_s`: the wait is no shorter then, up
        to the longest there is, and nobody has the key looked at meanwhile.
        """
        backoff = self._tries.get(key, self._backoff)
        self._tries[key] = backoff.failed()
        wait_s = max(backoff.wait_s, min(asked_s, backoff.most_s))
        if asked_s > 0:
            self._held_s[key] = now_s + wait_s
        self.add_at(key, now_s + wait_s)
        return wait_s

    def forget(self, key: K) -> None:
        """The key's next failure is its first."""
        self._tries.pop(key, None)

    @property
    def next_due_s(self) -> float | None:
        return self._timers[0][0] if self._timers else None


class WorkQueue(Generic[K]):
    """A schedule with tasks that work on it, on one event loop."""

    def __init__(self, clock: Clock = SYSTEM_CLOCK, *, first_s: float = 0.05, most_s: float = 60.0) -> None:
        self._clock = clock
        self._schedule: Schedule[K] = Schedule(first_s, most_s)
        self._changed = asyncio.Event()
        self._working = 0

    def __len__(self) -> int:
        """How many keys wait for their turn."""
        return len(self._schedule)

    def add(self, key: K) -> None:
        self._schedule.add(key)
        self._changed.set()

    def add_after(self, key: K, delay_s: float) -> None:
        self._schedule.add_at(key, self._clock.now_s() + delay_s)
        self._changed.set()

    async def work(self, look: Callable[[K], Awaitable[float | None]], *, parallel: int = 1) -> None:
        """Calls `look` for each key, up to `parallel` at a time, until it is cancelled.

        `look` returns after how many seconds it wants to see the key again, or None. When it raises, the
        key comes again after a wait, no sooner than the API server has asked; other keys are unaffected.
        """
        async with asyncio.TaskGroup() as group:
            while True:
                self._changed.clear()
                key = self._schedule.take(self._clock.now_s()) if self._working < parallel else None
                if key is None:
                    due_s = self._schedule.next_due_s if self._working < parallel else None
                    wait_s = left_s(due_s, self._clock.now_s())
                    await wait_for_hint(self._changed, wait_s, self._clock)
                else:
                    self._working += 1
                    group.create_task(self._look(look, key))

    async def _look(self, look: Callable[[K], Awaitable[float | None]], key: K) -> None:
        try:
            again_s = await look(key)
        except (KubeError, ControlError) as error:
            asked_s = error.retry_after_s if isinstance(error, ApiError) else None
            wait_s = self._schedule.retry(key, self._clock.now_s(), asked_s or 0.0)
            _log.warning("failed; trying again", key=key, error=str(error), wait_s=wait_s)
        except Exception:  # whatever it is, it is a fault of ours with this one key
            wait_s = self._schedule.retry(key, self._clock.now_s())
            _log.exception("fault; trying again", key=key, wait_s=wait_s)
        else:
            self._schedule.forget(key)
            if again_s is not None:
                self._schedule.add_at(key, self._clock.now_s() + again_s)
        finally:
            self._schedule.done(key)
            self._working -= 1
            self._changed.set()
