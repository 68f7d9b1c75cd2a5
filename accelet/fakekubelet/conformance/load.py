"""How much a plugin has to wait for a processor, so that a busy machine is not taken for a slow plugin.

Linux counts for each thread how long it ran and how long it was ready to run and had to wait
(Documentation/scheduler/sched-stats.rst, /proc/<pid>/task/<tid>/schedstat). A process with a session of its
own, as plugins under test have, is counted with everything it has started.
"""

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

_NANO: Final = 1_000_000_000
_T = TypeVar("_T")

_SPIN_S: Final = 0.03
_NEXT_LOOK_S: Final = 0.5
_CALM: Final = 0.1

_AT_WORK: Final = 0.25
"""A plugin that wanted a processor for this part of the time is at work, and nobody waits in vain."""


@dataclass(frozen=True, slots=True)
class Effort:
    """Seconds of processor time, and seconds spent waiting for a processor."""

    ran_s: float = 0.0
    waited_s: float = 0.0

    def __add__(self, other: "Effort") -> "Effort":
        return Effort(self.ran_s + other.ran_s, self.waited_s + other.waited_s)

    def since(self, before: "Effort") -> "Effort":
        """What came on top. Processes that have ended meanwhile take theirs along; that counts as nothing."""
        return Effort(max(0.0, self.ran_s - before.ran_s), max(0.0, self.waited_s - before.waited_s))


def parse_schedstat(text: str) -> Effort:
    """What a schedstat file says; nothing if it is not of that form."""
    words = text.split()
    if len(words) != 3 or not all(word.isdecimal() for word in words):
        return Effort()
    return Effort(int(words[0]) / _NANO, int(words[1]) / _NANO)


def effort_of(pid: int) -> Effort:
    """What all threads of a process have used and waited; nothing for one that is gone."""
    return sum(map(_thread_effort, _threads(pid)), Effort())


def effort_of_session(leader: int) -> Effort:
    """The same of all processes in the session that `leader` began."""
    return sum((effort_of(pid) for pid in _session(leader)), Effort())


def _threads(pid: int) -> Iterable[Path]:
    try:
        return list(Path(f"/proc/{pid}/task").iterdir())
    except OSError:
        return ()


def _thread_effort(thread: Path) -> Effort:
    try:
        return parse_schedstat((thread / "schedstat").read_text())
    except OSError:
        return Effort()


def _session(leader: int) -> Iterator[int]:
    for name in os.listdir("/proc"):  # noqa: PTH208 - names alone
        if name.isdecimal() and _session_of(int(name)) == leader:
            yield int(name)


def _session_of(pid: int) -> int | None:
    try:
        return os.getsid(pid)
    except OSError:
        return None


async def wait_while_at_work(
    wait: Callable[[float], Awaitable[_T]],
    effort: Callable[[], Effort],
    *,
    patience_s: float,
    at_most_s: float,
    gives_up: tuple[type[Exception], ...],
) -> _T:
    """The result of `wait(patience_s)`, asked again while the plugin wants a processor, up to `at_most_s`.

    Raises:
        whatever of `gives_up` the last try raised: the plugin did not want to work, or it is too late.
    """
    deadline = time.monotonic() + at_most_s
    while True:
        before, began = effort(), time.monotonic()
        try:
            return await wait(patience_s)
        except gives_up:
            now = time.monotonic()
            used = effort().since(before)
            if now >= deadline or used.ran_s + used.waited_s < _AT_WORK * (now - began):
                raise


async def wait_until_calm(at_most_s: float) -> None:
    """Returns once this process gets a processor as soon as it wants one, or after `at_most_s`."""
    deadline = time.monotonic() + at_most_s
    while time.monotonic() < deadline:
        before, end = effort_of(os.getpid()), time.monotonic() + _SPIN_S
        while time.monotonic() < end:
            pass
        if effort_of(os.getpid()).since(before).waited_s < _CALM * _SPIN_S:
            return
        await asyncio.sleep(_NEXT_LOOK_S)
