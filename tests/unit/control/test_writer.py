"""The fenced writer on a fake API server's state, without HTTP."""

import json
import random

import pytest

from accelet.control.errors import NotLeadingError
from accelet.control.writer import FencedWriter
from accelet.fakeapi.direct import DirectClient
from accelet.fakeapi.state import State
from accelet.kube.apiresources import CONFIG_MAPS, Body
from accelet.kube.errors import ConflictError
from accelet.runtime.clock import SYSTEM_CLOCK

MAPS = "api/v1/configmaps"
KEY = ("ml", "m")


@pytest.fixture
def state() -> State:
    state = State()
    state.create(MAPS, "ml", {"metadata": {"name": "m"}, "data": {"count": "1"}})
    return state


def api(state: State) -> DirectClient:
    return DirectClient(state, SYSTEM_CLOCK, random.Random(1))


def writer(state: State) -> FencedWriter:
    return FencedWriter(api(state), lambda: True)


async def test_nothing_is_written_without_leadership(state: State) -> None:
    fenced = FencedWriter(api(state), lambda: False)
    before = state.list(MAPS, {}, None)
    for write in (
        fenced.create(CONFIG_MAPS, "ml", {"metadata": {"name": "other"}}),
        fenced.replace(CONFIG_MAPS, *KEY, {"data": {}}),
        fenced.patch(CONFIG_MAPS, *KEY, {"data": {}}, "merge"),
        fenced.delete(CONFIG_MAPS, *KEY),
        fenced.patch_newest(CONFIG_MAPS, KEY, b"", read=lambda raw: raw, patch_of=lambda _: {}),
    ):
        with pytest.raises(NotLeadingError, match="does not lead"):
            await write
    assert state.list(MAPS, {}, None) == before
    assert json.loads(await fenced.get(CONFIG_MAPS, *KEY))["data"] == {"count": "1"}


async def test_leadership_is_asked_for_before_each_try(state: State) -> None:
    answers = iter([True, False])
    fenced = FencedWriter(api(state), lambda: next(answers))
    stale: Body = {"metadata": {"resourceVersion": "1"}}
    with pytest.raises(NotLeadingError):
        await fenced.patch_newest(CONFIG_MAPS, KEY, b"", read=lambda raw: raw, patch_of=lambda _: stale)


def increment(raw: bytes) -> Body | None:
    seen = json.loads(raw)
    count = int(seen["data"]["count"])
    if count >= 3:
        return None
    version = {"resourceVersion": seen["metadata"]["resourceVersion"]}
    return {"metadata": version, "data": {"count": str(count + 1)}}


async def test_conflict_has_the_newest_version_decided_upon(state: State) -> None:
    known = json.dumps(state.get(MAPS, KEY)).encode()
    state.patch(MAPS, KEY, "merge-patch", {"data": {"count": "2"}})
    written = await writer(state).patch_newest(
        CONFIG_MAPS, KEY, known, read=lambda raw: raw, patch_of=increment
    )
    assert written is not None
    assert state.get(MAPS, KEY)["data"] == {"count": "3"}


async def test_nothing_is_written_when_the_newest_version_needs_nothing(state: State) -> None:
    known = json.dumps(state.get(MAPS, KEY)).encode()
    state.patch(MAPS, KEY, "merge-patch", {"data": {"count": "7"}})
    assert (
        await writer(state).patch_newest(CONFIG_MAPS, KEY, known, read=lambda raw: raw, patch_of=increment)
        is None
    )
    assert state.get(MAPS, KEY)["data"] == {"count": "7"}


async def test_object_that_is_gone_needs_nothing(state: State) -> None:
    known = json.dumps(state.get(MAPS, KEY)).encode()
    state.delete(MAPS, KEY)
    fenced = writer(state)
    assert (
        await fenced.patch_newest(CONFIG_MAPS, KEY, known, read=lambda raw: raw, patch_of=increment) is None
    )


async def test_conflicts_without_end_are_given_up(state: State) -> None:
    stale: Body = {"metadata": {"resourceVersion": "1"}}
    with pytest.raises(ConflictError):
        await writer(state).patch_newest(
            CONFIG_MAPS, KEY, b"", read=lambda raw: raw, patch_of=lambda _: stale
        )
