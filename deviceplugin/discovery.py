"""Scans one resource's hardware on a timer and on hints, updates the manager, wakes the stream."""

import asyncio
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

from accelet.accelerators.device import DeviceId, Health
from accelet.accelerators.inventory import Inventory
from accelet.node.nodeview import NodeView
from accelet.node.unitlocks import Claims
from accelet.runtime.logs import Log
from deviceplugin.metrics import ResourceMetrics
from deviceplugin.translate import MAX_MESSAGE_BYTES, worst_list_bytes
from resourcemanager.listing import Listing
from resourcemanager.manager import ResourceManager

SCAN_S = 5.0
HINT_GATHER_S = 0.1

LOOK_FRESH_S = 0.05
"""Resources that scan so close together look at the host once.

Less than HINT_GATHER_S: what a look found that began before a hint is no answer to it.
"""

LOGGED_IDS = 20
"""A line of the log names no more ids than these."""

FAILURES_TO_DISTRUST = 3
"""After so many failed scans in a row the last good one is no longer believed."""

_log = Log(__name__)

KeepBooks = Callable[[], Awaitable[None]]
"""Brings the manager's books in line with the kubelet's records: who holds what."""


def next_scan(now_s: float) -> float:
    """When to scan again without a hint: at multiples of SCAN_S, half of it away at least.

    So all resources of a process scan at the same moments and can look at the host together.
    """
    return round(now_s / SCAN_S + 1) * SCAN_S


class Discovery:
    """Keeps one manager's inventory current."""

    def __init__(
        self,
        manager: ResourceManager,
        root: Path,
        *,
        keep_books: KeepBooks,
        claims: Claims,
        changed: Callable[[bool], None],
        scanned: Callable[[], None],
        metrics: ResourceMetrics,
        node: NodeView | None = None,
    ) -> None:
        """`changed` is called after each scan that changed the list: did a device lose its health?

        `scanned` is called after every scan, when list and books are current. `node` is told what
        contradicts itself.
        """
        self._manager = manager
        self._root = root
        self._keep_books = keep_books
        self._claims = claims
        self._changed = changed
        self._tell_scanned = scanned
        self._metrics = metrics
        self._node = node
        self._failures = 0
        self._warnings: tuple[str, ...] = ()
        self.problem: str | None = "not scanned yet"
        self.has_scanned = False
        self.wake = asyncio.Event()

    async def run(self) -> None:
        """Scans for ever."""
        loop = asyncio.get_running_loop()
        while True:
            self.wake.clear()
            await self.scan_once()
            with suppress(TimeoutError):
                async with asyncio.timeout_at(next_scan(loop.time())):
                    await self.wake.wait()
                    await asyncio.sleep(HINT_GATHER_S)  # a device comes with several files

    async def scan_once(self) -> None:
        """One scan, taken over by the manager."""
        scanned = await self._scan()
        inventory = self._claims.take(self._manager.rules.resource, scanned or self._last_good())
        await self._keep_books()
        before = self._manager.update(inventory)
        after = self._manager.listing
        healthy = sum(entry.health.is_healthy for entry in after.entries.values())
        self._metrics.set_devices(healthy, len(after.entries) - healthy, len(inventory.skipped))
        self._log_changes(before, after)
        self._log_warnings(inventory.warnings)
        if not after.tells_same_as(before):
            self._changed(before.loses_health_to(after))
        if scanned is not None:
            self.problem = None
            self.has_scanned = True
        self._tell_scanned()

    async def _scan(self) -> Inventory | None:
        """What is there now; None, and the reason in `problem`, when that cannot be told."""
        started = time.perf_counter()
        try:
            inventory = await asyncio.to_thread(self._manager.backend.scan, self._root)
        except OSError as error:
            self._metrics.count_scan_failure()
            self._report(f"{error.strerror}: {error.filename}" if error.filename else str(error))
            self._failures += 1
            return None
        self._failures = 0
        self._metrics.observe_scan(time.perf_counter() - started)
        size = worst_list_bytes(inventory.devices)
        if size > MAX_MESSAGE_BYTES:
            self._report(
                f"{len(inventory.devices)} devices take {size} bytes and the kubelet no list of more than "
                f"{MAX_MESSAGE_BYTES}; lower the number of shares"
            )
            return None
        return inventory

    def _report(self, problem: str) -> None:
        if problem != self.problem:
            _log.error("cannot take a scan over", resource=self._manager.rules.resource, reason=problem)
        self.problem = problem

    def _last_good(self) -> Inventory:
        last = self._manager.inventory
        if self._failures < FAILURES_TO_DISTRUST:
            return last
        unknown = Health(f"the node's devices cannot be scanned: {self.problem}")
        return replace(last, devices=tuple(replace(device, health=unknown) for device in last.devices))

    def _log_warnings(self, warnings: tuple[str, ...]) -> None:
        for warning in warnings:
            if warning not in self._warnings:
                _log.warning("found a contradiction", resource=self._manager.rules.resource, warning=warning)
        self._warnings = warnings
        self._metrics.set_warnings(len(warnings))
        if self._node is not None:
            self._node.report(self._manager.rules.resource, warnings)

    def _log_changes(self, before: Listing, after: Listing) -> None:
        told: dict[str, list[DeviceId]] = defaultdict(list)
        for device, entry in after.entries.items():
            old = before.entries.get(device)
            if old is None or old.health != entry.health:
                told[entry.health.reason or ""].append(device)
            if old is not None and old.health.is_healthy != entry.health.is_healthy:
                self._metrics.count_health_change("Healthy" if entry.health.is_healthy else "Unhealthy")
        resource = self._manager.rules.resource
        for reason, devices in told.items():
            some = devices[:LOGGED_IDS]
            if reason:
                _log.warning("unhealthy", resource=resource, reason=reason, count=len(devices), devices=some)
            else:
                _log.info("healthy", resource=resource, count=len(devices), devices=some)
        if dropped := sorted(before.entries.keys() - after.entries.keys()):
            _log.info("no longer listed", resource=resource, count=len(dropped), devices=dropped[:LOGGED_IDS])
