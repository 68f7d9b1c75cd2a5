"""The provider at work: one list of pools for everybody, and requests that hold up nobody."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Hashable
from dataclasses import replace
from typing import Any, Final

from accelet.control.errors import ControlError
from accelet.kube.errors import KubeError
from accelet.provisioner.metrics import ProvisionerMetrics
from accelet.provisioner.pools.pool import Failure, NodePool, PoolList, Trouble
from accelet.provisioner.providers.protocol import Provider, ProviderError
from accelet.runtime.clock import SYSTEM_CLOCK, Clock, within
from accelet.runtime.logs import Log
from accelet.runtime.waiting import wait_for_hint

_log = Log(__name__)

_IDLE_S: Final = 300.0
_MOST_SENTENCE: Final = 900
_LIST_WITHIN_S: Final = 60.0
_CALL_WITHIN_S: Final = 120.0
"""Providers have time limits of their own; one that has none for something must not hold up the rest."""

_SOON: Final = 0.1
"""A list that was asked for by an event comes after this part of the usual time."""


class Operations:
    """Lists pools while some come or go often, else seldom; runs requests, a few at a time.

    `changed` is told the pools that are new, changed or gone since the list before. `is_busy` says whether
    some come or go.
    """

    def __init__(
        self,
        provider: Provider,
        metrics: ProvisionerMetrics,
        changed: Callable[[set[NodePool]], None],
        is_busy: Callable[[], bool],
        *,
        poll_s: float,
        most: int,
        clock: Clock = SYSTEM_CLOCK,
        wall_s: Callable[[], float] = time.time,
    ) -> None:
        self._provider, self._metrics, self._changed = provider, metrics, changed
        self._is_busy = is_busy
        self._poll_s, self._most, self._clock, self._wall_s = poll_s, most, clock, wall_s
        self._wanted = asyncio.Event()
        self._under_way: dict[str, asyncio.Task[None]] = {}
        self._waiting: dict[Hashable, Callable[[], None]] = {}
        self._told: set[Hashable] = set()
        self.listed: PoolList | None = None
        self.problem = ""
        self._since_s = 0.0

    def has_place(self, key: Hashable) -> bool:
        """Whether one more request may be under way, beside those that were told that they may be."""
        return len(self._under_way) + len(self._told - {key}) < self._most

    def keep_place(self, key: Hashable) -> None:
        """Keeps the place that `key` has until `pass_on`."""
        self._told.add(key)

    def tell_when_free(self, key: Hashable, tell: Callable[[], None]) -> None:
        """Calls `tell` once there is a place for `key`, in the order of these calls.

        The place is kept until `pass_on`.
        """
        self._waiting.setdefault(key, tell)

    def pass_on(self, key: Hashable) -> None:
        """Whoever was told by `key` has started a request or wants none: the next one may."""
        self._told.discard(key)
        while self._waiting and len(self._under_way) + len(self._told) < self._most:
            first = next(iter(self._waiting))
            self._told.add(first)
            self._waiting.pop(first)()

    def silence(self, patience_s: float) -> str:
        """Why there is no list, or none since so many seconds; empty otherwise."""
        if not self.problem or (self.listed is not None and self._clock.now_s() - self._since_s < patience_s):
            return ""
        return f"the provider does not answer: {self.problem}"[:_MOST_SENTENCE]

    def is_under_way(self, key: str) -> bool:
        return key in self._under_way

    def list_soon(self) -> None:
        """Something happened that the next list will tell of."""
        self._wanted.set()

    async def run(self) -> None:
        """Lists until it is cancelled, and then cancels what is under way."""
        try:
            while True:
                self._wanted.clear()
                await self._list()
                await self._clock.sleep(self._poll_s * _SOON)
                is_quick = self.listed is None or self._under_way or self._is_busy()
                await wait_for_hint(self._wanted, self._poll_s if is_quick else _IDLE_S, self._clock)
        finally:
            tasks = list(self._under_way.values())
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def start(
        self,
        key: str,
        call: Callable[[], Coroutine[Any, Any, Failure | None]],
        done: Callable[[Failure | None], Awaitable[None]],
        finished: Callable[[float], None],
    ) -> None:
        """Runs a request to the provider by itself, then `done` with what came of it, then `finished`.

        `finished` is told for how many seconds not to try again: 0 unless one of the two raised.
        """

        async def work() -> None:
            wait_s = self._poll_s
            try:
                await done(await self._call(call))
                wait_s = 0.0
            except (KubeError, ControlError) as error:
                _log.warning("not done; trying again", key=key, error=str(error), wait_s=wait_s)
            except Exception:  # whatever it is, it is a fault of ours with this one key
                _log.exception("fault; trying again", key=key, wait_s=wait_s)
            finally:
                self._under_way.pop(key, None)
                self._metrics.in_flight.set(len(self._under_way))
                self._wanted.set()
                self.pass_on(key)
                finished(wait_s)

        self._under_way[key] = asyncio.create_task(work(), name=f"provider-{key}")
        self._metrics.in_flight.set(len(self._under_way))

    async def _call(self, call: Callable[[], Coroutine[Any, Any, Failure | None]]) -> Failure | None:
        try:
            return await within(self._clock, _CALL_WITHIN_S, call())
        except TimeoutError:
            return Failure(Trouble.UNKNOWN, f"the provider gave no answer within {_CALL_WITHIN_S:.0f} s")

    def count(self, call: str, failure: Failure | None) -> None:
        outcome = "accepted" if failure is None else failure.trouble.name.lower()
        self._metrics.calls.labels(call, outcome).inc()

    async def _list(self) -> None:
        asked_s = self._wall_s()
        try:
            listed = await within(self._clock, _LIST_WITHIN_S, self._provider.list_pools())
        except ProviderError as error:
            self._note_problem(str(error))
            return
        except TimeoutError:
            self._note_problem(f"it gave no list within {_LIST_WITHIN_S:.0f} s")
            return
        if self.problem:
            _log.info("pools can be listed again")
        self.problem = ""
        self._metrics.calls.labels("list", "accepted").inc()
        self._metrics.foreign.set(len(listed.foreign))
        before = _all_of(self.listed) if self.listed is not None else set()
        self.listed = replace(listed, asked_s=asked_s)
        self._changed(before ^ _all_of(listed))

    def _note_problem(self, problem: str) -> None:
        self._metrics.calls.labels("list", Trouble.UNKNOWN.name.lower()).inc()
        if not self.problem:
            self._since_s = self._clock.now_s()
            _log.warning("pools cannot be listed", error=problem)
        self.problem = problem


def _all_of(listed: PoolList) -> set[NodePool]:
    return {*listed.pools, *listed.originals}
