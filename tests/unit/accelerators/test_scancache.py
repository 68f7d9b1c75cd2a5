"""Scans of the host that several resources have in common."""

from collections.abc import Callable
from pathlib import Path

import pytest

from accelet.accelerators.intel.gpu import IntelGpuSettings
from accelet.accelerators.intel.match import CardMatch
from accelet.accelerators.intel.scan import CardFinder
from accelet.accelerators.scancache import CachedScans, HostScan, uncached
from accelet.fakehost.gpus import Gpu, write_gpus

FOR_EVER_S = 3600.0


class Counting:
    """Makes scans of which each finds the next number; the first `failures` fail."""

    def __init__(self, failures: int = 0) -> None:
        self.made = 0
        self._failures = failures

    def __call__(self, root: Path) -> int:
        self.made += 1
        if self.made <= self._failures:
            raise OSError("cannot scan")
        return self.made


def maker(counting: Counting) -> Callable[[], HostScan[int]]:
    return lambda: counting


def test_resources_with_the_same_scan_scan_once(tmp_path: Path) -> None:
    scans = CachedScans(FOR_EVER_S)
    make = maker(Counting())
    assert [scans.cached(make)(tmp_path) for _ in range(3)] == [1, 1, 1]


def test_resources_with_other_scans_scan_for_themselves(tmp_path: Path) -> None:
    scans = CachedScans(FOR_EVER_S)
    assert [scans.cached(maker(Counting()))(tmp_path) for _ in range(2)] == [1, 1]


def test_scan_is_made_anew_when_it_is_no_longer_fresh(tmp_path: Path) -> None:
    scan = CachedScans(fresh_s=-1.0).cached(maker(Counting()))
    assert [scan(tmp_path) for _ in range(3)] == [1, 2, 3]


def test_scan_that_failed_is_made_again_by_the_next(tmp_path: Path) -> None:
    scan = CachedScans(FOR_EVER_S).cached(maker(Counting(failures=1)))
    with pytest.raises(OSError, match="cannot scan"):
        scan(tmp_path)
    assert scan(tmp_path) == 2


def test_two_resources_share_what_is_seen_of_the_cards(tmp_path: Path) -> None:
    cached = CachedScans(FOR_EVER_S).cached
    first = IntelGpuSettings(match=CardMatch(driver=("i915",))).backend(cached)
    other = IntelGpuSettings(match=CardMatch(driver=("xe",))).backend(cached)
    write_gpus(tmp_path, [Gpu(0, "0000:03:00.0"), Gpu(1, "0000:04:00.0", driver="xe")])
    assert [device.card for device in first.scan(tmp_path).devices] == ["card0"]
    write_gpus(tmp_path, [])
    assert [device.card for device in other.scan(tmp_path).devices] == ["card1"]


def test_without_a_cache_each_scan_sees_the_host_as_it_is(tmp_path: Path) -> None:
    finder = uncached(CardFinder)
    write_gpus(tmp_path, [Gpu(0, "0000:03:00.0")])
    assert [card.name for card in finder(tmp_path).cards] == ["card0"]
    write_gpus(tmp_path, [])
    assert finder(tmp_path).cards == ()


def test_function_is_explained_as_soon_as_its_card_is_gone(tmp_path: Path) -> None:
    finder = CardFinder()
    write_gpus(tmp_path, [Gpu(0, "0000:03:00.0")])
    assert finder(tmp_path).skipped == ()
    (tmp_path / "sys/class/drm/card0").unlink()
    (tmp_path / "sys/bus/pci/devices/0000:03:00.0/driver").unlink()
    assert [skip.code for skip in finder(tmp_path).skipped] == ["no-driver"]


def test_function_that_another_took_the_place_of_is_read_again(tmp_path: Path) -> None:
    finder = CardFinder()
    write_gpus(tmp_path, [Gpu(0, "0000:03:00.0", driver=None, has_drm=False)])
    assert [skip.code for skip in finder(tmp_path).skipped] == ["no-driver"]
    entry = tmp_path / "sys/bus/pci/devices/0000:03:00.0"
    fresh = tmp_path / "fresh"
    fresh.symlink_to(entry.readlink())
    (entry / "class").write_text("0x020000\n")
    fresh.rename(entry)
    assert finder(tmp_path).skipped == ()
