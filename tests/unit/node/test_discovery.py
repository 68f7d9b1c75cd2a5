"""When hardware is scanned, and what the service is told of it."""

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from accelet.accelerators.device import Device, DeviceId, Health, UnitId
from accelet.accelerators.inventory import Inventory, Skipped
from accelet.accelerators.reading.hardwarereads import SCAN_MOST_S
from accelet.node.discovery import (
    HINT_GATHER_S,
    LOOK_FRESH_S,
    SCAN_S,
    Discovery,
    Scan,
    next_scan,
)
from accelet.node.namelocks import NameLocks
from accelet.node.unitlocks import UnitLocks

NOW = st.floats(min_value=0, max_value=1e8)
FOUND = Inventory((Device(DeviceId("a-s0"), UnitId("a")),))


@given(NOW)
def test_next_scan_is_about_a_period_away_and_at_a_moment_common_to_all(now_s: float) -> None:
    at = next_scan(now_s)
    assert at % SCAN_S == 0
    assert SCAN_S / 2 - 1e-6 <= at - now_s <= SCAN_S * 3 / 2 + 1e-6


@given(NOW, st.floats(min_value=0, max_value=SCAN_S / 4))
def test_resources_that_scanned_together_scan_together_again(tick: float, took_s: float) -> None:
    started = next_scan(tick)
    assert next_scan(started) == next_scan(started + took_s) == started + SCAN_S


def test_look_from_before_a_hint_is_no_answer_to_it() -> None:
    assert LOOK_FRESH_S < HINT_GATHER_S


class Counts:
    def __init__(self) -> None:
        self.scans = self.failures = self.skipped = self.warnings = self.unanswered = 0

    def observe_scan(self, seconds: float) -> None:
        self.scans += 1

    def count_scan_failure(self) -> None:
        self.failures += 1

    def set_found(self, *, skipped: int, warnings: int, unanswered: int) -> None:
        self.skipped, self.warnings, self.unanswered = skipped, warnings, unanswered


class Hardware:
    """What is found next: an inventory, or an error."""

    def __init__(self) -> None:
        self.state: Inventory | OSError = FOUND
        self.answers = threading.Event()
        self.answers.set()

    def scan(self) -> Inventory:
        assert self.answers.wait(60)
        if isinstance(self.state, OSError):
            raise self.state
        return self.state


class Watched:
    """A discovery of `hardware`, and all it told."""

    def __init__(
        self,
        locks: UnitLocks | None = None,
        explain_unusable: Callable[[Inventory], str | None] = lambda _: None,
        scan_most_s: float = SCAN_MOST_S,
    ) -> None:
        self.hardware, self.counts = Hardware(), Counts()
        self.told: asyncio.Queue[Scan] = asyncio.Queue()
        self.discovery = Discovery(
            "example.com/device",
            self.hardware.scan,
            locks=locks or UnitLocks(),
            take=self._take,
            explain_unusable=explain_unusable,
            metrics=self.counts,
            scan_most_s=scan_most_s,
        )

    async def _take(self, scan: Scan) -> None:
        await self.told.put(scan)

    async def scan(self) -> Scan:
        await self.discovery.scan_once()
        return self.told.get_nowait()


async def test_failed_scan_is_told_with_its_problem_and_what_was_served_as_unknown() -> None:
    watched = Watched()
    assert watched.discovery.problem == "not scanned yet"
    assert await watched.scan() == Scan(FOUND)
    assert watched.discovery.problem is None
    watched.hardware.state = OSError(5, "Input/output error", "/sys")
    why = "the node's devices cannot be scanned: Input/output error: /sys"
    for failures in (1, 2):
        scan = await watched.scan()
        assert scan.problem == watched.discovery.problem == "Input/output error: /sys"
        (device,) = scan.inventory.devices
        assert (device.id, device.health) == ("a-s0", Health(why, is_unknown=True))
        assert watched.counts.failures == failures
    watched.hardware.state = FOUND
    assert await watched.scan() == Scan(FOUND)
    assert watched.discovery.problem is None


async def test_unit_of_which_a_scan_cannot_tell_what_it_is_stays_with_unknown_health() -> None:
    watched = Watched()
    await watched.scan()
    unit = UnitId("a")
    watched.hardware.state = Inventory(skipped=(Skipped("/sys/a", "unreadable-vendor", "who knows", unit),))
    for _ in range(2):
        (device,) = (await watched.scan()).inventory.devices
        assert (device.unit, device.health) == (unit, Health("who knows", is_unknown=True))
    watched.hardware.state = Inventory(skipped=(Skipped("/sys/a", "no-driver", "unbound", unit),))
    assert (await watched.scan()).inventory.devices == ()


async def test_scan_that_hangs_fails_in_time_and_is_waited_for_by_nobody_else() -> None:
    watched = Watched(scan_most_s=1.0)
    await watched.scan()
    watched.hardware.answers.clear()
    problem = "reading the hardware's files did not end within 1 s: see the kernel log for what hangs"
    try:
        for _ in range(3):
            scan = await watched.scan()
            assert scan.problem == problem
            (device,) = scan.inventory.devices
            reason = f"the node's devices cannot be scanned: {problem}"
            assert device.health == Health(reason, is_unknown=True)
        assert watched.counts.failures == 3
    finally:
        watched.hardware.answers.set()
    async with asyncio.timeout(60):
        while (await watched.scan()).problem is not None:  # noqa: ASYNC110 - its thread tells nobody when it ends
            await asyncio.sleep(0.01)
    assert await watched.scan() == Scan(FOUND)


async def test_hardware_that_does_not_answer_is_counted() -> None:
    watched = Watched()
    watched.hardware.state = Inventory(FOUND.devices, unanswered=("/sys/class/drm/card3",))
    await watched.scan()
    assert watched.counts.unanswered == 1
    watched.hardware.state = FOUND
    await watched.scan()
    assert watched.counts.unanswered == 0


async def test_what_is_left_to_others_is_not_counted_as_skipped() -> None:
    watched = Watched()
    codes = ("not-selected", "served-elsewhere", "no-device-node", "no-driver")
    watched.hardware.state = Inventory(skipped=tuple(Skipped(f"/sys/{code}", code, "why") for code in codes))
    await watched.scan()
    assert watched.counts.skipped == 2


async def test_inventory_that_the_service_cannot_use_leaves_the_last_good_one_believed() -> None:
    watched = Watched(explain_unusable=lambda inventory: None if len(inventory.devices) < 2 else "too many")
    await watched.scan()
    more = (*FOUND.devices, Device(DeviceId("b-s0"), UnitId("b")))
    watched.hardware.state = Inventory(more)
    for _ in range(4):
        assert await watched.scan() == Scan(FOUND, "too many")


async def test_where_units_cannot_be_locked_none_is_served_and_the_reason_is_told(tmp_path: Path) -> None:
    watched = Watched(UnitLocks(NameLocks(tmp_path / "nowhere" / "locks")))
    scan = await watched.scan()
    assert scan.inventory.devices == ()
    assert scan.problem == f"No such file or directory: {tmp_path / 'nowhere' / 'locks'}"
    (tmp_path / "nowhere").mkdir()
    assert await watched.scan() == Scan(FOUND)


async def test_hint_has_the_hardware_scanned_at_once() -> None:
    watched = Watched()
    running = asyncio.create_task(watched.discovery.run())
    try:
        await watched.told.get()
        watched.discovery.wake.set()
        async with asyncio.timeout(SCAN_S / 2):  # the timer takes longer
            await watched.told.get()
    finally:
        running.cancel()
