"""Runs checks, each with a kubelet and a plugin of its own."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from enum import Enum

from accelet.fakekubelet.claims.cache import ClaimError
from accelet.fakekubelet.conformance.bench import B, Bench, Check, FailedError, SkippedError
from accelet.fakekubelet.conformance.launch import Hardware, HardwareError, Launcher
from accelet.fakekubelet.devices.devicemanager import KubeletCrash
from accelet.fakekubelet.life import KubeletDownError
from accelet.fakekubelet.node import PodRejectedError
from accelet.fakekubelet.trace import StillWaitingError


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
    jobs: int = 1,
    done: Callable[[Result], None] = lambda _result: None,
) -> list[Result]:
    """Runs `checks`, `jobs` at a time; the results are in their order. `done` hears each as it comes.

    The first goes alone; if that is R1 and it fails there is nothing to see in the others.

    Plugins that share something besides the kubelet's folders (a port, say) need `jobs` 1.
    """

    def bench() -> Bench:
        return Bench(launcher, version, resource, hardware)

    why = "it does not register and list (see R1)"
    return await run_on_benches(checks, bench, gate=("R1", why), jobs=jobs, done=done)


async def run_on_benches(
    checks: Sequence[Check[B]],
    make_bench: Callable[[], AbstractAsyncContextManager[B]],
    *,
    gate: tuple[str, str],
    jobs: int,
    done: Callable[[Result], None],
) -> list[Result]:
    """Runs checks of any kind. If the first is the gate's and does not pass, the others are not judged."""
    places = asyncio.Semaphore(jobs)

    async def one(check: Check[B]) -> Result:
        async with places:
            result = await _run(check, make_bench())
            done(result)
            return result

    results = [await one(check) for check in checks[:1]]
    if results and checks[0].id == gate[0] and results[0].status is not Status.PASS:
        return results + [Result(check.id, check.title, Status.SKIP, gate[1]) for check in checks[1:]]
    # A group, so that whatever ends one of them early lets the others stop their servers first: gRPC does
    # not survive the end of a loop on which a server still runs.
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(one(check)) for check in checks[1:]]
    return results + [task.result() for task in tasks]


async def _run(check: Check[B], making: AbstractAsyncContextManager[B]) -> Result:
    try:
        async with making as bench:
            finding = await check.run(bench)
    except FailedError as error:
        return Result(check.id, check.title, Status.FAIL, str(error))
    except (KubeletCrash, StillWaitingError, PodRejectedError) as error:
        return Result(check.id, check.title, Status.FAIL, str(error).splitlines()[0])
    except (KubeletDownError, ClaimError) as error:
        return Result(check.id, check.title, Status.FAIL, f"it went away meanwhile: {error}")
    except (SkippedError, HardwareError) as error:
        return Result(check.id, check.title, Status.SKIP, str(error))
    return Result(check.id, check.title, Status.PASS, finding)
