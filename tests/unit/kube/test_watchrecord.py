import asyncio
import dataclasses
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelet.kube.barepod import render_pod
from accelet.kube.podparser import parse_pod
from accelet.kube.pods import Container, Pod
from accelet.kube.watching.watchrecord import GoneObject, WatchRecord, WatchRecordFile


@asynccontextmanager
async def kept(file: WatchRecordFile, make: Callable[[], WatchRecord | None]) -> AsyncIterator[None]:
    running = asyncio.create_task(file.run(make))
    await asyncio.sleep(0)
    try:
        yield
    finally:
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110 - what is asked for is asked for
            await asyncio.sleep(0.01)


async def test_next_process_knows_what_was_written_when_the_watch_went_on_and_at_the_end(
    tmp_path: Path,
) -> None:
    path, version = tmp_path / "watched", 1
    gone = GoneObject(2.5, render_pod(Pod("ns", "db-0", uid="a")))
    file = WatchRecordFile(path)
    assert await file.recall() is None
    async with kept(file, lambda: WatchRecord(str(version), (gone,))):
        assert not path.exists()
        file.note_change()
        await until(path.exists)
        recalled = await WatchRecordFile(path).recall()
        assert recalled is not None
        assert recalled.version == "1"
        version = 2
    recalled = await WatchRecordFile(path).recall()
    assert recalled is not None
    assert recalled.version == "2"
    (again,) = recalled.gone
    assert (again.age_s, parse_pod(again.object).uid) == (2.5, "a")


async def test_what_was_written_stays_while_nothing_is_to_be_recorded(tmp_path: Path) -> None:
    path = tmp_path / "watched"
    record = WatchRecord("7")
    async with kept(WatchRecordFile(path), lambda: record):
        pass
    file = WatchRecordFile(path)
    async with kept(file, lambda: None):
        file.note_change()
    assert await file.recall() == record


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[1]",
        b"\xff",
        b"[" * 9999,
        b'{"version":"x"}',
        b'{"version":"' + b"1" * 21 + b'"}',
        b'{"version":"1","gone":[{"age_s":-1,"object":{}}]}',
        b'{"version":"1","gone":[{"age_s":1e999,"object":{}}]}',
        b'{"version":"1","other":1}',
    ],
)
async def test_file_that_is_not_ours_is_as_good_as_none_and_replaced(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "watched"
    path.write_bytes(content)
    file = WatchRecordFile(path)
    assert await file.recall() is None
    async with kept(file, lambda: WatchRecord("7")):
        pass
    assert await file.recall() == WatchRecord("7")


@given(st.binary(max_size=200))
def test_no_content_is_an_error(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "any"
    path.write_bytes(content)
    asyncio.run(WatchRecordFile(path).recall())


async def test_folder_that_is_not_there_is_said_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = WatchRecordFile(tmp_path / "gone" / "watched")
    async with kept(file, lambda: WatchRecord("7")):
        file.note_change()
        await until(lambda: "what was watched of pods is not kept" in caplog.messages)
    assert await file.recall() is None
    assert caplog.messages.count("what was watched of pods is not kept") == 1


CONTAINERS = st.builds(
    lambda name, limits, is_sidecar: Container(name, limits, limits, is_sidecar=is_sidecar),
    st.sampled_from("abc"),
    st.dictionaries(st.sampled_from(["gpu.intel.com/i915", "cpu"]), st.integers(0, 9)),
    st.booleans(),
)


@given(
    st.lists(CONTAINERS, max_size=3),
    st.lists(CONTAINERS.map(lambda one: dataclasses.replace(one, is_sidecar=False)), max_size=3),
    st.sampled_from(["Pending", "Failed"]),
    st.frozensets(st.tuples(st.sampled_from("abc"), st.just("gpu.intel.com/i915"))),
    st.booleans(),
)
def test_pod_that_was_rendered_asks_for_the_same(
    init: list[Container],
    main: list[Container],
    phase: str,
    claimed: frozenset[tuple[str, str]],
    mounts_token: bool,
) -> None:
    pod = Pod(
        "ns",
        "db-0",
        uid="a",
        resource_version="7",
        node_name="node",
        phase=phase,
        init_containers=tuple(init),
        containers=tuple(main),
        claimed_resources=claimed,
        mounts_token=mounts_token and bool(init or main),
    )
    assert parse_pod(msgspec.json.encode(render_pod(pod))) == pod
