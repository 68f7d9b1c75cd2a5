"""Wait for a state of the world, with a deadline, and say what was seen when it does not come."""

import time
from collections.abc import Callable, Iterable
from typing import Protocol, TypeVar

T = TypeVar("T")

POLL_INTERVAL_S = 0.1


class Watched(Protocol):
    """Something whose death makes waiting pointless, and which can tell why it died."""

    @property
    def name(self) -> str: ...

    @property
    def is_running(self) -> bool: ...

    def log_tail(self) -> str: ...


class WaitedInVainError(AssertionError):
    """The state did not come within its time, or a process it depends on died."""


def wait_until(
    what: str,
    probe: Callable[[], T | None],
    *,
    timeout_s: float,
    depends_on: Iterable[Watched] = (),
    evidence: Callable[[], str] = lambda: "",
) -> T:
    """Calls `probe` until it returns something true, and returns that.

    Raises WaitedInVainError with the log tails of `depends_on` and the text of `evidence`
    when the time is over, and at once when one of `depends_on` has ended.
    """
    watched = list(depends_on)
    deadline = time.monotonic() + timeout_s
    while True:
        answer = probe()
        if answer:
            return answer
        dead = [process for process in watched if not process.is_running]
        if dead:
            raise WaitedInVainError(
                _report(f"{dead[0].name} ended while waiting for: {what}", dead, evidence)
            )
        if time.monotonic() > deadline:
            raise WaitedInVainError(_report(f"not within {timeout_s:g} s: {what}", watched, evidence))
        time.sleep(POLL_INTERVAL_S)


def _report(headline: str, processes: list[Watched], evidence: Callable[[], str]) -> str:
    logs = [f"--- last lines of {process.name}\n{process.log_tail()}" for process in processes]
    return "\n".join(part for part in (headline, evidence(), *logs) if part)
