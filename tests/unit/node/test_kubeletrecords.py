"""The kubelet's file is read when it is another one, also one that cannot be understood."""

import asyncio
import json
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest

from accelet.kubelet.checkpoint import Checkpoint, Known, read_checkpoint
from accelet.kubelet.errors import CheckpointError
from accelet.kubelet.paths import KubeletPaths, SocketIdentity, identify_socket
from accelet.node.kubeletrecords import KubeletRecords

EMPTY = json.dumps({"Data": {"PodDeviceEntries": [], "RegisteredDevices": {"r/x": []}}, "Checksum": 1})


class Reader:
    """Reads as the product does, and tells how often; `error` is what the disk answers instead."""

    def __init__(self) -> None:
        self.reads = 0
        self.error: CheckpointError | None = None

    def read(self, directory: Path, known: Known) -> Checkpoint:
        self.reads += 1
        if self.error is not None:
            raise self.error
        return read_checkpoint(directory, known)


@pytest.fixture
def paths(tmp_path: Path) -> KubeletPaths:
    found = KubeletPaths(tmp_path)
    found.device_plugins.mkdir()
    return found


async def test_file_that_cannot_be_understood_is_read_once_until_it_is_another(paths: KubeletPaths) -> None:
    paths.checkpoint.write_text("{")
    reader = Reader()
    records = KubeletRecords(paths, reader.read)
    assert [await records.checkpoint() for _ in range(3)] == [None] * 3
    assert reader.reads == 1

    fresh = paths.checkpoint.with_name("fresh")
    fresh.write_text(EMPTY)
    fresh.rename(paths.checkpoint)
    checkpoint = await records.checkpoint()

    assert checkpoint is not None
    assert list(checkpoint.registered) == ["r/x"]


async def test_file_that_could_not_be_read_is_tried_again(paths: KubeletPaths) -> None:
    paths.checkpoint.write_text(EMPTY)
    reader = Reader()
    reader.error = CheckpointError("the disk failed")
    records = KubeletRecords(paths, reader.read)
    assert await records.checkpoint() is None

    reader.error = None

    assert await records.checkpoint() is not None


async def test_who_asks_while_the_file_is_being_read_waits_for_that(paths: KubeletPaths) -> None:
    paths.checkpoint.write_text(EMPTY)
    reader = Reader()
    records = KubeletRecords(paths, reader.read)

    one, other = await asyncio.gather(records.checkpoint(), records.checkpoint())

    assert one is other is not None
    assert reader.reads == 1


async def test_who_gives_up_waiting_keeps_nobody_from_the_file(paths: KubeletPaths) -> None:
    paths.checkpoint.write_text(EMPTY)
    has_begun, may_end = threading.Event(), threading.Event()
    reader = Reader()

    def read_late(directory: Path, known: Known) -> Checkpoint:
        if reader.reads == 0:
            reader.reads += 1
            has_begun.set()
            assert may_end.wait(timeout=10)
        return reader.read(directory, known)

    records = KubeletRecords(paths, read_late)
    gives_up = asyncio.create_task(records.checkpoint())
    assert await asyncio.to_thread(has_begun.wait, 10)
    gives_up.cancel()
    with pytest.raises(asyncio.CancelledError):
        await gives_up
    try:
        assert await records.checkpoint() is not None
    finally:
        may_end.set()


HOUR_NS = 3_600_000_000_000


class WallClock:
    """A clock that is set: what it says of files is what it said when they came to be."""

    def __init__(self) -> None:
        self.ahead_ns = 0
        self._stamped: dict[SocketIdentity, int] = {}
        self._last_ns = 0

    def now_ns(self) -> int:
        return time.time_ns() + self.ahead_ns

    def identify(self, path: Path) -> SocketIdentity | None:
        found = identify_socket(path)
        if found is None:
            return None
        return replace(found, changed_ns=found.changed_ns + self._stamped.setdefault(found, self.ahead_ns))

    def write(self, path: Path, text: str = EMPTY) -> None:
        """Another file in its place, with a later time than any before: the kernel's clock goes in steps."""
        fresh, written = path.with_name("fresh"), None
        while written is None or written.changed_ns <= self._last_ns:
            fresh.write_text(text)
            fresh.rename(path)
            written = identify_socket(path)
        self._last_ns = written.changed_ns
        self.identify(path)


def records_by(clock: WallClock, paths: KubeletPaths) -> KubeletRecords:
    return KubeletRecords(paths, identify=clock.identify, wall_ns=clock.now_ns)


async def test_what_the_kubelet_wrote_is_of_this_kubelet_also_after_the_clock_was_set_back(
    paths: KubeletPaths,
) -> None:
    clock = WallClock()
    clock.write(paths.checkpoint)
    clock.write(paths.registration_socket)
    records = records_by(clock, paths)
    assert not await records.knows("r/x"), "a former kubelet wrote that"
    clock.ahead_ns = -HOUR_NS
    clock.write(paths.checkpoint)
    assert await records.knows("r/x")


@pytest.mark.parametrize("ahead_ns", [-HOUR_NS, 0, HOUR_NS])
async def test_what_a_former_kubelet_wrote_is_not_of_this_one_however_the_clock_was_set(
    paths: KubeletPaths, ahead_ns: int
) -> None:
    clock = WallClock()
    clock.write(paths.registration_socket)
    clock.write(paths.checkpoint)
    records = records_by(clock, paths)
    assert await records.knows("r/x")
    clock.write(paths.checkpoint)  # which nobody has read when the kubelet ends
    clock.ahead_ns = ahead_ns
    clock.write(paths.registration_socket)
    for _ in range(2):
        assert not await records.knows("r/x")
    clock.write(paths.checkpoint)
    assert await records.knows("r/x")


@pytest.mark.parametrize("ahead_ns", [-HOUR_NS, 0, HOUR_NS])
async def test_agent_that_starts_later_goes_by_the_times_of_the_files(
    paths: KubeletPaths, ahead_ns: int
) -> None:
    clock = WallClock()
    clock.write(paths.registration_socket)
    clock.write(paths.checkpoint)
    clock.ahead_ns = ahead_ns
    assert await records_by(clock, paths).knows("r/x")
