"""Runs checks, each with a kubelet and a plugin of its own.

What came too late while others ran, or on a busy machine, is tried again alone: it may not be the plugin's
fault.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final

from accelet.fakekubelet.claims.cache import ClaimError
from accelet.fakekubelet.conformance.bench import B, Bench, Check, FailedError, LateError, SkippedError
from accelet.fakekubelet.conformance.launch import Hardware, HardwareError, Launcher
from accelet.fakekubelet.conformance.load import wait_until_calm
from accelet.fakekubelet.devices.devicemanager import KubeletCrash
from accelet.fakekubelet.life import KubeletDownError
from accelet.fakekubelet.node import PodRejectedError
from accelet.fakekubelet.trace import StillWaitingError

_TRIES: Final = 4
_CALM_WITHIN_S: Final = 30.0


class Status(Enum):
    """What became of a check."""

    PASS = "pass"  # noqa: S105 - no password
    FAIL = "fail"
    SKIP = "skip"


@dataclass(frozen=True, slots=True)
class Result:
    """One line of the table. `detail` says what was found, or what is wrong, or why it cannot be told."""

    id: str
    title: str
    status: Status
    detail: str


async def run_checks(
    checks: Sequence[Check[Bench]],
    launcher: Launcher,
    *,
    version: str = "1.36",
    resource: str | None = None,
    hardware: Hardware | None = None,
    host_root: str = "/",
    jobs: int = 1,
    done: Callable[[Result], None] = lambda _result: None,
) -> list[Result]:
    """Runs `checks`, `jobs` at a time; the results are in their order. `done` hears each as it comes.

    The first goes alone; if that is R1 and it fails there is nothing to see in the others.

    Plugins that share something besides the kubelet's folders (a port, say) need `jobs` 1.
    """

    def bench() -> Bench:
        return Bench(launcher, version, resource, hardware, host_root)

    why = "it does not register and list (see R1)"
    return await run_on_benches(checks, bench, gate=("R1", why), jobs=jobs, done=done)


@dataclass(frozen=True, slots=True)
class _Tried:
    """What a check gave, by how much it was late if it was that, and how long it waited for a processor."""

    result: Result
    late_by_s: float | None = None
    delay_s: float = 0.0

    def is_doubtful(self, *, alone: bool) -> bool:
        """Whether the plugin might have been in time on a machine of its own."""
        return self.late_by_s is not None and (not alone or self.delay_s > self.late_by_s)


async def run_on_benches(
    checks: Sequence[Check[B]],
    make_bench: Callable[[], AbstractAsyncContextManager[B]],
    *,
    gate: tuple[str, str],
    jobs: int,
    done: Callable[[Result], None],
    calm_within_s: float = _CALM_WITHIN_S,
) -> list[Result]:
    """Runs checks of any kind. If the first is the gate's and does not pass, the others are not judged.

    A busy machine is waited for `calm_within_s` in all, before what was late is tried again.
    """
    places = asyncio.Semaphore(jobs)
    results: dict[str, Result] = {}
    doubtful: list[Check[B]] = []

    def settle(check: Check[B], tried: _Tried, *, alone: bool) -> None:
        if tried.is_doubtful(alone=alone):
            doubtful.append(check)
        else:
            results[check.id] = tried.result
            done(tried.result)

    async def one(check: Check[B]) -> None:
        async with places:
            tried = await _try(check, make_bench())
        settle(check, tried, alone=jobs == 1)

    for check in checks[:1]:
        tried = await _try(check, make_bench())
        settle(check, tried, alone=True)
        if check.id == gate[0] and tried.result.status is not Status.PASS:
            return [tried.result] + [Result(each.id, each.title, Status.SKIP, gate[1]) for each in checks[1:]]
    # A group, so that whatever ends one of them early lets the others stop their servers first: gRPC does
    # not survive the end of a loop on which a server still runs.
    async with asyncio.TaskGroup() as group:
        for check in checks[1:]:
            group.create_task(one(check))
    waiting_s = calm_within_s
    for check in doubtful:
        began = time.monotonic()
        results[check.id] = await _try_alone(check, make_bench, waiting_s)
        waiting_s = max(0.0, waiting_s - (time.monotonic() - began))
        done(results[check.id])
    return [results[check.id] for check in checks]


async def _try_alone(
    check: Check[B], make_bench: Callable[[], AbstractAsyncContextManager[B]], waiting_s: float
) -> Result:
    """The result of a check that was late, once the machine has time for it; the last one if it never has."""
    for _ in range(_TRIES):
        await wait_until_calm(waiting_s / _TRIES)
        tried = await _try(check, make_bench())
        if not tried.is_doubtful(alone=True):
            return tried.result
    busy = f"; the machine is busy, plugin and kubelet waited {tried.delay_s:.1f} s for a processor"
    return replace(tried.result, detail=tried.result.detail + busy)


async def _try(check: Check[B], making: AbstractAsyncContextManager[B]) -> _Tried:
    delay_s = 0.0
    try:
        async with making as bench:
            try:
                finding = await check.run(bench)
            except LateError:
                delay_s = bench.delay_s()
                raise
    except LateError as error:
        return _Tried(Result(check.id, check.title, Status.FAIL, str(error)), error.late_by_s, delay_s)
    except FailedError as error:
        return _Tried(Result(check.id, check.title, Status.FAIL, str(error)))
    except (KubeletCrash, StillWaitingError, PodRejectedError) as error:
        return _Tried(Result(check.id, check.title, Status.FAIL, str(error).splitlines()[0]))
    except (KubeletDownError, ClaimError) as error:
        return _Tried(Result(check.id, check.title, Status.FAIL, f"it went away meanwhile: {error}"))
    except (SkippedError, HardwareError) as error:
        return _Tried(Result(check.id, check.title, Status.SKIP, str(error)))
    return _Tried(Result(check.id, check.title, Status.PASS, finding))
