"""The tests while threads and timers are late now and then: `make test-delays`.

So it is where there is more to do than there are processors. Whoever judges what another has not done yet
fails for it, and would fail on a busy machine one day.

A plugin of pytest: `pytest -p tests.delays --delays-seed 1`.
"""

import asyncio
import os
import time
from asyncio import AbstractEventLoop, Future, TimerHandle
from collections.abc import Callable
from concurrent.futures import Executor
from contextvars import Context
from random import Random
from typing import Final, TypeVar, TypeVarTuple

import pytest

_Result = TypeVar("_Result")
_Arguments = TypeVarTuple("_Arguments")

_SHARE: Final = 0.2
_MOST_S: Final = 0.3


class Delays:
    """How late what is next is, in seconds: mostly not at all. The same series for the same `seed`."""

    def __init__(self, seed: str, *, share: float = _SHARE, most_s: float = _MOST_S) -> None:
        self._random, self._share, self._most_s = Random(seed), share, most_s

    def draw_s(self) -> float:
        return self._random.uniform(0.0, self._most_s) if self._random.random() < self._share else 0.0


class LateLoop(asyncio.SelectorEventLoop):
    """One whose threads begin late and are heard of late, and whose timers are late."""

    def __init__(self, delays: Delays) -> None:
        super().__init__()
        self._delays = delays

    def run_in_executor(
        self, executor: Executor | None, func: Callable[[*_Arguments], _Result], *args: *_Arguments
    ) -> Future[_Result]:
        def work() -> _Result:
            time.sleep(self._delays.draw_s())  # it is what is to be late, and waits for nothing
            try:
                return func(*args)
            finally:
                time.sleep(self._delays.draw_s())  # as before it

        return super().run_in_executor(executor, work)

    def call_later(
        self,
        delay: float,
        callback: Callable[[*_Arguments], object],
        *args: *_Arguments,
        context: Context | None = None,
    ) -> TimerHandle:
        late_s = self._delays.draw_s() if delay > 0 else 0.0
        return super().call_later(delay + late_s, callback, *args, context=context)


class LatePolicy(asyncio.DefaultEventLoopPolicy):
    """Makes loops that are late."""

    def __init__(self, delays: Delays) -> None:
        super().__init__()
        self._delays = delays

    def new_event_loop(self) -> AbstractEventLoop:
        return LateLoop(self._delays)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--delays-seed", default="0", help="draws what is late, and by how much (0)")


def pytest_configure(config: pytest.Config) -> None:
    seed = f"{config.getoption('--delays-seed')} {os.environ.get('PYTEST_XDIST_WORKER', '')}"
    asyncio.set_event_loop_policy(LatePolicy(Delays(seed)))
