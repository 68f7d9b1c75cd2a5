import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from hypothesis import settings

from accelet.control.lease import Election, Terms
from accelet.control.leaserecord import parse_lease
from accelet.fakeapi import FakeApi
from accelet.fakeapi.direct import DirectClient
from accelet.fakeapi.state import State
from accelet.kube.apiresources import LEASES
from accelet.kube.client import Client
from tests.fakes.clocks import FakeClock, settle
from tests.integration.kube.waiting import eventually

LEASES_PATH = "apis/coordination.k8s.io/v1/leases"


class Candidate:
    """A candidate that notes while it works."""

    def __init__(self, name: str, state: State, clock: FakeClock, seed: int = 0) -> None:
        self.api = DirectClient(state, clock, random.Random(seed))
        self.election = Election(
            self.api, "kube-system", "accelet", name, clock=clock, uniform=random.Random(seed).uniform
        )
        self.is_working = False
        self.terms = 0
        self.task: asyncio.Task[None] | None = None

    async def lead(self) -> None:
        self.is_working = True
        self.terms += 1
        try:
            await asyncio.Event().wait()
        finally:
            self.is_working = False

    def start(self) -> None:
        self.task = asyncio.create_task(self.election.run(self.lead))

    async def stop(self) -> None:
        if self.task is not None:
            self.task.cancel()
            await asyncio.gather(self.task, return_exceptions=True)
            self.task = None


@asynccontextmanager
async def candidates(count: int, seed: int = 0) -> AsyncIterator[tuple[FakeClock, State, list[Candidate]]]:
    clock, state = FakeClock(), State()
    all_of_them = [Candidate(f"c{n}", state, clock, seed + n) for n in range(count)]
    for candidate in all_of_them:
        candidate.start()
    try:
        yield clock, state, all_of_them
    finally:
        stopping = asyncio.gather(*(candidate.stop() for candidate in all_of_them))
        while not stopping.done():
            await clock.advance(1.0)


def leaders(everybody: list[Candidate]) -> list[int]:
    return [number for number, candidate in enumerate(everybody) if candidate.is_working]


async def test_one_leads_and_keeps_leading() -> None:
    async with candidates(3) as (clock, _, everybody):
        await clock.advance(5.0)
        (leader,) = leaders(everybody)
        for _ in range(60):
            await clock.advance(1.0)
            assert leaders(everybody) == [leader]
        assert sum(candidate.terms for candidate in everybody) == 1


async def test_leader_that_stops_gives_the_lease_back() -> None:
    async with candidates(2) as (clock, state, everybody):
        await clock.advance(5.0)
        (leader,) = leaders(everybody)
        stopping = asyncio.create_task(everybody[leader].stop())
        await settle()
        await stopping
        assert state.get(LEASES_PATH, ("kube-system", "accelet"))["spec"]["holderIdentity"] == ""
        await clock.advance(3.0)
        assert leaders(everybody) == [1 - leader]


async def test_leader_cut_off_stops_before_another_begins() -> None:
    async with candidates(2) as (clock, _, everybody):
        await clock.advance(5.0)
        (leader,) = leaders(everybody)
        everybody[leader].api.is_cut_off = True
        stopped_s = began_s = None
        for tenth in range(300):
            await clock.advance(0.1)
            assert len(leaders(everybody)) <= 1
            if stopped_s is None and not everybody[leader].is_working:
                stopped_s = tenth / 10
                assert not everybody[leader].election.is_leader
            if began_s is None and everybody[1 - leader].is_working:
                began_s = tenth / 10
        assert stopped_s is not None
        assert began_s is not None
        assert stopped_s <= 10.1
        assert began_s - stopped_s >= 4.5, "what is left for the work to end"
        everybody[leader].api.is_cut_off = False
        await clock.advance(60.0)
        assert leaders(everybody) == [1 - leader]


@pytest.mark.parametrize("seed", range(10))
async def test_renewal_counts_from_before_it_was_sent(seed: int) -> None:
    """The API server has the renewal long before its answer comes, and others count from there."""
    async with candidates(4, seed) as (clock, state, everybody):
        await clock.advance(5.0)
        (leader,) = leaders(everybody)
        everybody[leader].api.write_answer_s = 7.4
        before = state.version
        while state.version == before:
            await clock.advance(0.1)
        await clock.advance(7.5)
        everybody[leader].api.is_cut_off = True
        for _ in range(200):
            await clock.advance(0.1)
            assert len(leaders(everybody)) <= 1
        assert leaders(everybody) not in ([], [leader])


async def test_lease_taken_by_somebody_else_ends_leadership_at_once() -> None:
    async with candidates(1) as (clock, state, everybody):
        await clock.advance(5.0)
        assert leaders(everybody) == [0]
        state.patch(
            LEASES_PATH, ("kube-system", "accelet"), "merge-patch", {"spec": {"holderIdentity": "thief"}}
        )
        await clock.advance(3.0)
        assert leaders(everybody) == []


async def test_lease_that_was_free_meanwhile_is_not_simply_kept() -> None:
    async with candidates(1) as (clock, state, everybody):
        await clock.advance(5.0)
        state.patch(LEASES_PATH, ("kube-system", "accelet"), "merge-patch", {"spec": {"holderIdentity": ""}})
        await clock.advance(6.0)
        assert everybody[0].terms == 2, "ended and elected anew"


async def test_work_that_ends_ends_the_election_and_its_error_is_seen() -> None:
    clock, state = FakeClock(), State()

    async def lead() -> None:
        raise ZeroDivisionError

    api = DirectClient(state, clock, random.Random(0))
    with pytest.raises(ZeroDivisionError):
        await Election(api, "kube-system", "accelet", "me", clock=clock).run(lead)
    assert state.get(LEASES_PATH, ("kube-system", "accelet"))["spec"]["holderIdentity"] == ""


@pytest.mark.hypothesis
@pytest.mark.parametrize("seed", range(settings().max_examples // 5))
async def test_never_two_leaders_whatever_fails(seed: int) -> None:
    chance = random.Random(seed)
    async with candidates(3, seed) as (clock, _, everybody):
        for _ in range(400):
            for candidate in everybody:
                candidate.api.slowest_s = chance.choice([0.0, 0.0, 0.5, 8.0])
                candidate.api.fault_rate = chance.choice([0.0, 0.0, 0.3, 0.9])
                if chance.random() < 0.02:
                    candidate.api.is_cut_off = not candidate.api.is_cut_off
                if chance.random() < 0.01:
                    stopping = asyncio.create_task(candidate.stop())
                    while not stopping.done():
                        await clock.advance(0.1)
                        assert len(leaders(everybody)) <= 1
                    candidate.start()
            await clock.advance(chance.uniform(0.0, 2.0))
            assert len(leaders(everybody)) <= 1
            assert sum(candidate.election.is_leader for candidate in everybody) <= 1
        for candidate in everybody:
            candidate.api.is_cut_off, candidate.api.fault_rate, candidate.api.slowest_s = False, 0.0, 0.0
        await clock.advance(60.0)
        assert len(leaders(everybody)) == 1, "and one leads once all is well"


async def test_two_processes_hand_over_through_the_api(client: Client, api: FakeApi) -> None:
    terms = Terms(duration_s=2, renew_within_s=1.0, retry_s=0.02)
    leading: list[str] = []

    async def lead(name: str) -> None:
        leading.append(name)
        await asyncio.Event().wait()

    def stand(name: str) -> asyncio.Task[None]:
        election = Election(client, "kube-system", "accelet", name, terms=terms)
        return asyncio.create_task(election.run(lambda: lead(name)))

    first = stand("first")
    await eventually(lambda: leading == ["first"])
    second = stand("second")
    first.cancel()
    await asyncio.gather(first, return_exceptions=True)
    await eventually(lambda: leading == ["first", "second"])
    record = parse_lease(await client.get(LEASES, "kube-system", "accelet"))
    assert (record.holder, record.transitions) == ("second", 1)
    second.cancel()
    await asyncio.gather(second, return_exceptions=True)
