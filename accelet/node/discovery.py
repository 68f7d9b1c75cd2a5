"""Scans one resource's hardware on a timer and on hints, and hands on what the resource may serve of it."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Protocol

from accelet.accelerators.inventory import Inventory
from accelet.accelerators.reading.hardwarereads import ANSWER_S, SCAN_MOST_S, TimedScan
from accelet.accelerators.steadyhealth import all_unknown, keep_unknown
from accelet.node.nodeview import NodeView
from accelet.node.unitlocks import UnitLocks
from accelet.runtime.logs import Log
from accelet.runtime.waiting import left_s, wait_for_hint

SCAN_S = 5.0
HINT_GATHER_S = 0.1

LOOK_FRESH_S = 0.05
"""Resources that scan so close together look at the host once.

Less than HINT_GATHER_S: what a look found that began before a hint is no answer to it.
"""

_log = Log(__name__)


@dataclass(frozen=True, slots=True)
class Scan:
    """What a resource may serve now; where `problem` says why that cannot be told, what it served last.

    Where a look told nothing of devices, their health is unknown. How long they are believed to be as they
    were is for `accelet.accelerators.steadyhealth` to say.
    """

    inventory: Inventory
    problem: str | None = None


class ScanMetrics(Protocol):
    """The metrics of one resource's scans."""

    def observe_scan(self, seconds: float) -> None: ...

    def count_scan_failure(self) -> None: ...

    def set_found(self, *, skipped: int, warnings: int, unanswered: int) -> None: ...


def next_scan(now_s: float) -> float:
    """When to scan again without a hint: at multiples of SCAN_S, half of it away at least.

    So all resources of a process scan at the same moments and can look at the host together.
    """
    return round(now_s / SCAN_S + 1) * SCAN_S


class Discovery:
    """Keeps a service of one resource told what there is; `problem` is why that is not current, if so.

    `wake` is set for a scan at once.
    """

    def __init__(
        self,
        resource: str,
        scan: Callable[[], Inventory],
        *,
        locks: UnitLocks,
        take: Callable[[Scan], Awaitable[None]],
        explain_unusable: Callable[[Inventory], str | None] = lambda _: None,
        metrics: ScanMetrics,
        node: NodeView | None = None,
        scan_most_s: float = SCAN_MOST_S,
    ) -> None:
        """`scan` reads the hardware as `Backend.scan` does; it is called on a thread, and may raise OSError.

        One that takes longer than `scan_most_s` has failed, and none is begun beside it.

        `take` is awaited with each scan, failed ones included.

        `explain_unusable` says why the service cannot make use of an inventory, None where it can: such a
        scan has failed. `node` is told what contradicts itself.
        """
        self.problem: str | None = "not scanned yet"
        self.wake = asyncio.Event()
        self._resource = resource
        self._log = _log.bind(resource=resource)
        self._read_hardware = TimedScan(scan, scan_most_s)
        self._locks = locks
        self._take = take
        self._explain_unusable = explain_unusable
        self._metrics = metrics
        self._node = node
        self._last = Inventory()
        self._warnings: tuple[str, ...] = ()
        self._unanswered: tuple[str, ...] = ()

    async def run(self) -> None:
        """Scans for ever."""
        loop = asyncio.get_running_loop()
        while True:
            self.wake.clear()
            await self.scan_once()
            if await wait_for_hint(self.wake, left_s(next_scan(loop.time()), loop.time())):
                await asyncio.sleep(HINT_GATHER_S)  # a device comes with several files

    async def scan_once(self) -> None:
        """One scan, taken over by the service."""
        scan = await self._scan()
        self._last = scan.inventory
        await self._take(scan)
        self._report_warnings(scan.inventory.warnings)
        self._report_unanswered(scan.inventory.unanswered)
        skipped = sum(not one.is_left_to_others for one in scan.inventory.skipped)
        self._metrics.set_found(
            skipped=skipped, warnings=len(self._warnings), unanswered=len(self._unanswered)
        )
        self.problem = scan.problem

    async def _scan(self) -> Scan:
        started = time.perf_counter()
        try:
            inventory = keep_unknown(self._last, await asyncio.to_thread(self._read_hardware))
            took_s = time.perf_counter() - started
            problem = self._explain_unusable(inventory)
            if problem is None:
                inventory = self._locks.take(self._resource, inventory)
        except OSError as error:
            self._metrics.count_scan_failure()
            problem = f"{error.strerror}: {error.filename}" if error.filename else str(error)
            self._note(problem)
            reason = f"the node's devices cannot be scanned: {problem}"
            return Scan(all_unknown(self._last, reason), problem)
        self._metrics.observe_scan(took_s)
        if problem is None:
            return Scan(inventory)
        self._note(problem)
        return Scan(self._last, problem)

    def _note(self, problem: str) -> None:
        if problem != self.problem:
            self._log.error("cannot take a scan over", reason=problem)
        self.problem = problem

    def _report_warnings(self, warnings: tuple[str, ...]) -> None:
        for warning in warnings:
            if warning not in self._warnings:
                self._log.warning("found a contradiction", warning=warning)
        self._warnings = warnings
        if self._node is not None:
            self._node.report(self._resource, warnings)

    def _report_unanswered(self, paths: tuple[str, ...]) -> None:
        for path in paths:
            if path not in self._unanswered:
                reason = (
                    f"reading it did not end within {ANSWER_S:g} s; it is asked again once that has ended"
                )
                self._log.error("hardware does not answer", path=path, reason=reason)
        for path in self._unanswered:
            if path not in paths:
                self._log.info("hardware answers again, or is gone", path=path)
        self._unanswered = paths
