"""Requests to a provider: what comes after one that failed."""

import asyncio
import logging
from functools import partial

import pytest
from prometheus_client import CollectorRegistry

from accelet.control.errors import NotLeadingError
from accelet.kube.errors import ConflictError
from accelet.provisioner.metrics import ProvisionerMetrics
from accelet.provisioner.operations import Operations
from accelet.provisioner.pools.plan import PoolPlan
from accelet.provisioner.pools.pool import Failure, PoolList, Trouble
from tests.fakes.clocks import FakeClock

POLL_S = 7.0


class _Nobody:
    """A provider without pools."""

    pool_label = "a-label"

    async def list_pools(self) -> PoolList:
        return PoolList((), 0.0, frozenset())

    async def create(self, plan: PoolPlan) -> Failure | None:
        return None

    async def delete(self, pool: str) -> Failure | None:
        return None

    async def run(self) -> None:
        return None


class _Hung(_Nobody):
    """It takes every request and answers none, until it is let."""

    def __init__(self) -> None:
        self.is_awake = asyncio.Event()

    async def list_pools(self) -> PoolList:
        await self.is_awake.wait()
        return await super().list_pools()


async def test_a_provider_that_hangs_for_an_hour_holds_up_nobody_and_is_told_of() -> None:
    clock, provider = FakeClock(), _Hung()
    metrics = ProvisionerMetrics(CollectorRegistry())
    operations = Operations(
        provider, metrics, lambda _: None, lambda: True, poll_s=POLL_S, most=1, clock=clock
    )
    outcomes: list[Failure | None] = []

    async def call() -> Failure | None:
        await provider.is_awake.wait()
        return None

    async def done(failure: Failure | None) -> None:
        outcomes.append(failure)

    running = asyncio.create_task(operations.run())
    operations.start("a-uid", call, done, lambda _: None)
    assert not operations.has_place("another-uid")
    await clock.advance(3600.0)
    assert operations.has_place("another-uid"), "its place is another's"
    assert outcomes == [Failure(Trouble.UNKNOWN, "the provider gave no answer within 120 s")]
    assert operations.silence(60.0) == "the provider does not answer: it gave no list within 60 s"

    provider.is_awake.set()
    await clock.advance(POLL_S)
    assert operations.silence(60.0) == ""
    assert operations.listed is not None
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def test_a_list_that_fails_once_is_nothing_to_tell() -> None:
    clock, provider = FakeClock(), _Hung()
    provider.is_awake.set()
    metrics = ProvisionerMetrics(CollectorRegistry())
    operations = Operations(
        provider, metrics, lambda _: None, lambda: True, poll_s=POLL_S, most=1, clock=clock
    )
    running = asyncio.create_task(operations.run())
    await clock.advance(POLL_S)
    provider.is_awake.clear()
    await clock.advance(POLL_S + 60.0)
    assert operations.problem
    assert operations.silence(60.0) == ""
    await clock.advance(120.0)
    assert operations.silence(60.0)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)


async def _wait_after(error: Exception | None) -> float:
    """How long not to try again after a request whose outcome was not written down because of `error`."""
    metrics = ProvisionerMetrics(CollectorRegistry())
    operations = Operations(_Nobody(), metrics, lambda _: None, lambda: False, poll_s=POLL_S, most=1)
    waits: asyncio.Queue[float] = asyncio.Queue()

    async def call() -> None:
        return None

    async def done(_: Failure | None) -> None:
        if error is not None:
            raise error

    operations.start("a-uid", call, done, waits.put_nowait)
    wait_s = await asyncio.wait_for(waits.get(), 10.0)
    assert not operations.is_under_way("a-uid")
    return wait_s


async def test_what_went_well_is_looked_at_at_once() -> None:
    assert await _wait_after(None) == 0.0


@pytest.mark.parametrize(
    "error", [ConflictError("PATCH", 409, "Conflict", "changed"), NotLeadingError("not leading")]
)
async def test_what_could_not_be_written_down_is_not_tried_again_at_once(error: Exception) -> None:
    assert await _wait_after(error) == POLL_S


async def test_a_fault_of_ours_is_logged_and_waits_too(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR):
        assert await _wait_after(ZeroDivisionError("a fault")) == POLL_S

    assert "a fault" in caplog.text


class _Requests:
    """Requests to a provider that end when they are let, a given number at a time."""

    def __init__(self, most: int) -> None:
        metrics = ProvisionerMetrics(CollectorRegistry())
        self.operations = Operations(
            _Nobody(), metrics, lambda _: None, lambda: False, poll_s=POLL_S, most=most
        )
        self.told: list[str] = []
        self._ends: dict[str, tuple[asyncio.Event, asyncio.Event]] = {}

    def start(self, key: str) -> None:
        assert self.operations.has_place(key)
        end, ended = self._ends[key] = asyncio.Event(), asyncio.Event()

        async def call() -> None:
            await end.wait()

        async def done(_: Failure | None) -> None:
            return None

        self.operations.start(key, call, done, lambda _: ended.set())

    def wait_for_place(self, *keys: str) -> None:
        for key in keys:
            assert not self.operations.has_place(key)
            self.operations.tell_when_free(key, partial(self.told.append, key))

    async def end(self, key: str) -> None:
        end, ended = self._ends.pop(key)
        end.set()
        await asyncio.wait_for(ended.wait(), 10.0)


async def test_who_waits_for_a_place_is_told_of_it_in_turn_and_nobody_else_takes_it() -> None:
    requests = _Requests(1)
    requests.start("a")
    requests.wait_for_place("b", "c", "b")
    await requests.end("a")
    assert requests.told == ["b"]
    assert not requests.operations.has_place("d"), "the place is kept for the one that was told"
    requests.start("b")
    requests.operations.pass_on("b")
    assert requests.told == ["b"]
    await requests.end("b")
    assert requests.told == ["b", "c"]


async def test_a_place_that_is_not_used_goes_to_the_next() -> None:
    requests = _Requests(1)
    requests.start("a")
    requests.wait_for_place("b", "c")
    await requests.end("a")
    requests.operations.pass_on("b")
    assert requests.told == ["b", "c"]
    requests.operations.pass_on("c")
    assert requests.operations.has_place("d")


async def test_as_many_are_told_as_there_are_places() -> None:
    requests = _Requests(2)
    requests.start("a")
    requests.start("b")
    requests.wait_for_place("c", "d", "e")
    await requests.end("a")
    await requests.end("b")
    assert requests.told == ["c", "d"]
