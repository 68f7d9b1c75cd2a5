"""What holds the event loop up is measured."""

import asyncio
import gc
import sys
import weakref
from types import ModuleType

import pytest

from accelet.runtime.blocking import ALL_EVERY_S, brief_collections, measure_blocking, uncollected
from tests.fakes.clocks import FakeClock


async def test_what_holds_the_loop_up_is_seen_as_no_more_than_a_period_shorter() -> None:
    clock, seen = FakeClock(), list[float]()
    measuring = asyncio.create_task(measure_blocking(seen.append, clock))
    await clock.advance(0.1)
    assert seen
    assert max(seen) < 1e-6
    before = len(seen)
    # Nobody runs for 0.3 s: when the loop goes on, the sleeper is late.
    clock.time_s += 0.3
    await clock.advance(0)
    assert seen[before:] == [pytest.approx(0.3, abs=0.02)]
    measuring.cancel()
    await asyncio.gather(measuring, return_exceptions=True)


class Circle:
    """Refers to itself, so that only a garbage collection frees it."""

    def __init__(self) -> None:
        self.me = self


def test_a_full_collection_looks_at_what_was_made_since_the_last_one() -> None:
    kept: list[list[int]] = []
    with brief_collections(FakeClock()):
        for _ in range(3):
            kept += [[number] for number in range(100_000)]
            gc.collect()
            assert len(gc.get_objects(generation=2)) < 10_000
            young, circle = len(kept), Circle()
            gone = weakref.ref(circle)
            del circle
            gc.collect()
            assert gone() is None
            assert gc.get_freeze_count() > young
    assert gc.get_freeze_count() == 0


def test_what_was_set_aside_and_refers_to_itself_is_freed_within_a_day() -> None:
    clock, circle = FakeClock(), Circle()
    gone = weakref.ref(circle)
    with brief_collections(clock):
        gc.collect()
        del circle
        gc.collect()
        assert gone() is not None
        clock.time_s += ALL_EVERY_S
        gc.collect()
        gc.collect()
        assert gone() is None
        assert gc.get_freeze_count() > 0


def test_nothing_is_collected_inside_and_again_afterwards() -> None:
    with uncollected():
        assert not gc.isenabled()
        with uncollected():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()


def test_a_module_that_is_not_there_leaves_nothing_behind() -> None:
    with pytest.raises(ModuleNotFoundError), uncollected():
        raise ModuleNotFoundError(name="kubernetes")
    assert gc.isenabled()


def test_who_collects_nothing_at_all_goes_on_so() -> None:
    gc.disable()
    try:
        with uncollected():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_what_modules_made_is_looked_at_by_no_collection_after_their_import() -> None:
    """Where none was imported nothing is set aside: what is garbage by then would stay."""
    gc.unfreeze()
    with uncollected():
        pass
    assert gc.get_freeze_count() == 0
    name = "made_for_this_test"
    try:
        with uncollected():
            sys.modules[name] = ModuleType(name)
        assert gc.get_freeze_count() > 0
    finally:
        del sys.modules[name]
        gc.unfreeze()
