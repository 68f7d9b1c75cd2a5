"""Who may read metrics that name pods, while strangers ask and the API server is slow or away."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from accelet.agent.metricsaccess import MOST_WAITING, REMEMBERED_S, MetricsAccess
from accelet.fakeapi import FakeApi
from accelet.fakeapi.faults import Answer, Fault, HoldBack
from accelet.kube.client import Client
from accelet.runtime.probes import Refusal
from tests.fakes.clocks import FakeClock
from tests.integration.agent.running import until


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[FakeApi]:
    with FakeApi() as server:
        server.authority.tokens |= {"good": "prometheus", "pod": "somebody"}
        server.authority.readers.add(("prometheus", "/metrics"))
        yield server


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
async def access(api: FakeApi, clock: FakeClock, tmp_path: Path) -> AsyncIterator[MetricsAccess]:
    client = await Client.connect(api.write_kubeconfig(tmp_path / "kubeconfig"), threads=6)

    async def connect() -> Client:
        return client

    yield MetricsAccess(connect, clock)
    client.close()


def count(api: FakeApi) -> int:
    return api.count(method="POST", path="tokenreviews")


async def test_answers_are_remembered_and_an_api_server_that_fails_is_asked_again(
    api: FakeApi, access: MetricsAccess
) -> None:
    api.faults.append(Fault(Answer(500), path="tokenreviews"))
    assert await access.admit("good") is Refusal.NOT_ANSWERED
    for token, answer in (("good", None), ("pod", Refusal.NOT_ALLOWED), ("made up", Refusal.NOBODY)):
        assert await access.admit(token) is answer
        before = count(api)
        assert await access.admit(token) is answer
        assert count(api) == before
    assert await access.admit(None) is Refusal.NO_TOKEN


async def test_the_same_token_many_times_at_once_is_one_question(api: FakeApi, access: MetricsAccess) -> None:
    answers = await asyncio.gather(*(access.admit("good") for _ in range(MOST_WAITING)))
    assert set(answers) == {None}
    assert count(api) == 1


async def test_strangers_are_asked_about_one_at_a_time_and_the_rest_is_told_that_nobody_answers(
    api: FakeApi, access: MetricsAccess
) -> None:
    held = HoldBack()
    api.faults.append(Fault(held, path="tokenreviews"))
    waiting = [asyncio.create_task(access.admit(f"made up {n}")) for n in range(MOST_WAITING)]
    try:
        await until(held.is_made.is_set)
        assert await access.admit("one more") is Refusal.NOT_ANSWERED
        assert count(api) == 1
    finally:
        held.released.set()
    assert set(await asyncio.gather(*waiting)) == {Refusal.NOBODY}


async def test_whoever_was_let_in_has_a_turn_of_its_own_and_is_asked_about_again(
    api: FakeApi, access: MetricsAccess, clock: FakeClock
) -> None:
    assert await access.admit("good") is None
    await clock.advance(REMEMBERED_S + 1)
    held = HoldBack()
    api.faults.append(Fault(held, path="tokenreviews"))
    stranger = asyncio.create_task(access.admit("made up"))
    try:
        await until(held.is_made.is_set)
        assert await access.admit("good") is None
        assert count(api) == 3
    finally:
        held.released.set()
    assert await stranger is Refusal.NOBODY
