import asyncio
import random
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest

from accelet.fakeapi import Answer, FakeApi, Fault
from accelet.fakeapi.direct import DirectClient
from accelet.fakeapi.state import State
from accelet.kube.apiresources import ObjectApi
from accelet.kube.client import Client
from accelet.kube.pods import Pod
from accelet.kube.recording.eventlog import EventLimits, Message, Subject
from accelet.kube.recording.events import EventRecorder
from accelet.runtime.clock import SYSTEM_CLOCK, Clock
from tests.fakes.clocks import FakeClock, settle
from tests.integration.kube.waiting import eventually

EVENTS_PATH = "apis/events.k8s.io/v1/events"
FAST = EventLimits(burst_each=1000, per_s_each=1000, burst=1000, per_s=1000)
POD = Pod("ml", "worker-0", "uid-0")
MESSAGE = Message(
    Subject.of_pod(POD), "Warning", "TilesTaken", "Allocate", "card0 tile 1 belongs to ml/worker-1"
)


@asynccontextmanager
async def recording(
    client: ObjectApi, limits: EventLimits = FAST, clock: Clock = SYSTEM_CLOCK
) -> AsyncIterator[EventRecorder]:
    recorder = EventRecorder(client, "accelet.dev/agent", "accelet-x2x4z", limits=limits, clock=clock)
    task = asyncio.create_task(recorder.run())
    try:
        yield recorder
        assert not task.done(), "whatever fails, it runs on"
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def events(api: FakeApi) -> list[dict[str, Any]]:
    return list(api.state.collection(EVENTS_PATH).objects.values())


async def test_event_says_all_that_the_api_asks_for(client: Client, api: FakeApi) -> None:
    async with recording(client) as recorder:
        recorder.record(MESSAGE)
        await eventually(lambda: recorder.sent == 1)
    (event,) = events(api)
    assert event["metadata"]["name"].startswith("worker-0.")
    assert event["metadata"]["namespace"] == "ml"
    assert event["regarding"] == {
        "apiVersion": "v1",
        "kind": "Pod",
        "name": "worker-0",
        "namespace": "ml",
        "uid": "uid-0",
    }
    assert (event["type"], event["reason"], event["action"]) == ("Warning", "TilesTaken", "Allocate")
    assert event["note"] == MESSAGE.note
    assert (event["reportingController"], event["reportingInstance"]) == (
        "accelet.dev/agent",
        "accelet-x2x4z",
    )
    assert datetime.fromisoformat(event["eventTime"]).tzinfo is not None
    assert len(event["eventTime"]) == len("2026-01-01T00:00:00.000000Z")
    assert "series" not in event


async def test_repetition_raises_the_count_of_the_one_event(client: Client, api: FakeApi) -> None:
    async with recording(client) as recorder:
        for number in range(1, 4):
            recorder.record(MESSAGE)
            await eventually(lambda number=number: recorder.sent == number)  # type: ignore[misc]
    (event,) = events(api)
    assert event["series"]["count"] == 3


async def test_events_about_nodes_are_in_the_default_namespace(client: Client, api: FakeApi) -> None:
    async with recording(client) as recorder:
        recorder.record(replace(MESSAGE, subject=Subject("Node", "n1", uid="uid-n")))
        await eventually(lambda: recorder.sent == 1)
    assert events(api)[0]["metadata"]["namespace"] == "default"


async def test_long_texts_are_cut_to_what_the_api_takes(client: Client, api: FakeApi) -> None:
    subject = Subject("Pod", "a" * 240 + ".b.c-d-e.f-g", "ml")
    async with recording(client) as recorder:
        recorder.record(replace(MESSAGE, subject=subject, reason="R" * 500, note="ä" * 2000))
        await eventually(lambda: recorder.sent == 1)
    (event,) = events(api)
    assert len(event["note"].encode()) <= 1024
    assert event["note"].endswith("ä…")
    assert len(event["reason"]) == 128
    assert len(event["metadata"]["name"]) <= 253
    assert "-." not in event["metadata"]["name"]


async def test_event_that_expired_begins_anew(client: Client, api: FakeApi) -> None:
    async with recording(client) as recorder:
        recorder.record(MESSAGE)
        await eventually(lambda: recorder.sent == 1)
        api.state.collection(EVENTS_PATH).objects.clear()
        recorder.record(MESSAGE)
        await eventually(lambda: recorder.sent == 2)
    (event,) = events(api)
    assert event["series"]["count"] == 2


@pytest.mark.parametrize("status", [400, 403, 404, 422])
async def test_refused_event_is_dropped_and_stops_no_other(client: Client, api: FakeApi, status: int) -> None:
    api.faults.append(Fault(Answer(status), "POST"))
    async with recording(client) as recorder:
        recorder.record(MESSAGE)
        await eventually(lambda: recorder.dropped == 1)
        recorder.record(replace(MESSAGE, note="another"))
        await eventually(lambda: recorder.sent == 1)


async def test_server_that_is_away_for_a_while_gets_the_events_later() -> None:
    clock, state = FakeClock(), State()
    api = DirectClient(state, clock, random.Random(0))
    api.is_cut_off = True
    async with recording(api, clock=clock) as recorder:
        recorder.record(MESSAGE)
        await clock.advance(5.0)
        assert recorder.sent == 0
        api.is_cut_off = False
        await clock.advance(10.0)
        assert recorder.sent == 1
        assert recorder.dropped == 0


async def test_message_about_another_pod_does_not_wait_for_a_noisy_one() -> None:
    clock, state = FakeClock(), State()
    limits = EventLimits(burst_each=1, per_s_each=0.01)
    async with recording(DirectClient(state, clock, random.Random(0)), limits, clock) as recorder:
        recorder.record(MESSAGE)
        recorder.record(replace(MESSAGE, note="too much"))
        await settle()
        assert recorder.sent == 1
        recorder.record(replace(MESSAGE, subject=Subject("Pod", "quiet", "ml")))
        await settle()
        assert recorder.sent == 2
        await clock.advance(101.0)
        assert recorder.sent == 3
