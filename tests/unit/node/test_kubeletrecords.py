"""The kubelet's file is read when it is another one, also one that cannot be understood."""

import json
from pathlib import Path

import pytest

from accelet.kubelet.checkpoint import Checkpoint, Known, read_checkpoint
from accelet.kubelet.errors import CheckpointError
from accelet.kubelet.paths import KubeletPaths
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
