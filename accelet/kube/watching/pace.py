"""What a reflector does next, and when: decisions without clock, chance or I/O of their own."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from accelet.kube.errors import (
    ApiError,
    GoneError,
    KubeError,
    MalformedObjectError,
    is_refusal,
)
from accelet.kube.watching.store import precedes

Uniform = Callable[[float, float], float]
"""A source of chance, as `random.uniform`."""


@dataclass(frozen=True, slots=True)
class Pace:
    """How patient to be, in seconds.

    Waits grow at random from `first_s` to `most_s` (decorrelated jitter). A watch that lived for
    `healthy_s` starts them again. What the API server refuses will be refused again: `refused_s`, then
    from `refused_again_s` on, which makes two requests in the first ten seconds. The server ends watches
    after a time of `watch_s`, so that those of many nodes spread.
    """

    first_s: float = 0.8
    most_s: float = 30.0
    healthy_s: float = 10.0
    refused_s: tuple[float, float] = (2.0, 4.0)
    refused_again_s: float = 10.0
    longest_s: float = 120.0
    watch_s: tuple[float, float] = (240.0, 480.0)


@dataclass(frozen=True, slots=True)
class List:
    """List after `wait_s`: in pages or at once; from the server's cache or up to date."""

    wait_s: float
    is_paged: bool = True
    from_cache: bool = False


@dataclass(frozen=True, slots=True)
class Watch:
    """Watch from `resource_version` on after `wait_s`, for at most `timeout_s`."""

    wait_s: float
    resource_version: str
    timeout_s: int


@dataclass(frozen=True, slots=True)
class ListDone:
    """A list came whole."""

    resource_version: str


@dataclass(frozen=True, slots=True)
class ListFailed:
    error: KubeError


@dataclass(frozen=True, slots=True)
class Watched:
    """A watch is over after `lasted_s`: ended by the server, or with an error. It came to the version."""

    resource_version: str
    lasted_s: float
    error: KubeError | None = None


Step = List | Watch
StepOutcome = ListDone | ListFailed | Watched


@dataclass(frozen=True, slots=True)
class WatchProgress:
    """Where a reflector is: `step` is to be done now.

    `earlier` are versions to watch from instead of the first list's, the first that the server still has:
    before the list those that were asked for, after it those that are left.
    """

    step: Step
    backoff_s: float = 0.0
    refusals: int = 0
    earlier: tuple[str, ...] = ()


def begin(*, from_cache: bool, earlier: Sequence[str] = ()) -> WatchProgress:
    return WatchProgress(List(0.0, from_cache=from_cache), earlier=tuple(earlier))


def proceed(progress: WatchProgress, outcome: StepOutcome, pace: Pace, uniform: Uniform) -> WatchProgress:
    """The progress after a step's outcome.

    Invariants: a step that failed at once, by whatever fault, is never repeated without a wait; a version
    that the server called too old is never watched from again; a server's Retry-After is respected.
    """
    match outcome:
        case ListDone(resource_version):
            # One that is later is of another database, or of one that was restored from a backup.
            before = [one for one in progress.earlier if precedes(one, resource_version)]
            first, *rest = (*before, resource_version)
            watch = Watch(0.0, first, _watch_timeout_s(pace, uniform))
            return replace(progress, step=watch, refusals=0, earlier=tuple(rest))
        case ListFailed(error):
            wait_s, progress = _back_off(progress, error, pace, uniform)
            asked = progress.step if isinstance(progress.step, List) else List(0.0)
            # The pages ran out of time on the server: the next list comes in one piece.
            is_paged = asked.is_paged and not isinstance(error, GoneError)
            return replace(progress, step=replace(asked, wait_s=wait_s, is_paged=is_paged))
        case Watched(at, error=GoneError()) if progress.earlier and _has_shown_nothing(progress.step, at):
            first, *rest = progress.earlier
            watch = Watch(0.0, first, _watch_timeout_s(pace, uniform))
            return replace(progress, step=watch, earlier=tuple(rest))
        case Watched(resource_version, lasted_s, error):
            wait_s, progress = 0.0, replace(progress, earlier=())
            if lasted_s >= pace.healthy_s:
                progress = replace(progress, backoff_s=0.0, refusals=0)
            if error is not None or lasted_s < pace.healthy_s:
                wait_s, progress = _back_off(progress, error, pace, uniform)
            # After an event that cannot be read only a list gets past it.
            if isinstance(error, GoneError | MalformedObjectError):
                return replace(progress, step=List(wait_s))
            return replace(progress, step=Watch(wait_s, resource_version, _watch_timeout_s(pace, uniform)))


def _has_shown_nothing(step: Step, resource_version: str) -> bool:
    """Whether a watch that ended there is where it began. From an earlier version nothing is told twice."""
    return isinstance(step, Watch) and step.resource_version == resource_version


def _back_off(
    progress: WatchProgress, error: KubeError | None, pace: Pace, uniform: Uniform
) -> tuple[float, WatchProgress]:
    """How long to wait, and the progress that remembers it."""
    if is_refusal(error):
        again = (pace.refused_again_s, max(pace.refused_again_s, pace.most_s))
        wait_s = uniform(*(again if progress.refusals else pace.refused_s))
        return wait_s, replace(progress, refusals=progress.refusals + 1)
    highest_s = min(pace.most_s, max(pace.first_s, progress.backoff_s) * 3)
    backoff_s = wait_s = uniform(pace.first_s, highest_s)
    if isinstance(error, ApiError) and error.retry_after_s is not None:
        # A little later than asked, since everybody else was asked the same.
        wait_s = max(wait_s, min(error.retry_after_s, pace.longest_s) + uniform(0.0, pace.first_s))
    return wait_s, replace(progress, backoff_s=backoff_s)


def _watch_timeout_s(pace: Pace, uniform: Uniform) -> int:
    return max(1, round(uniform(*pace.watch_s)))
