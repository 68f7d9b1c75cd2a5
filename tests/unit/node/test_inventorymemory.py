"""What resources want to know of earlier scans, in a file that anything may have happened to."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelet.node.inventorymemory import InventoryMemory


def test_what_is_kept_is_there_after_a_restart(tmp_path: Path) -> None:
    file = tmp_path / ".seen.json"
    memory = InventoryMemory(file)
    memory.keep("google.com/tpu", "v5e a b")
    memory.keep("example.com/tpu", "v4 c")
    memory.keep("google.com/tpu", "v5e a b d")

    after = InventoryMemory(file)

    assert after.recall("google.com/tpu") == "v5e a b d"
    assert after.recall("example.com/tpu") == "v4 c"
    assert after.recall("example.com/other") is None
    assert [path.name for path in tmp_path.iterdir()] == [".seen.json"]


def test_two_processes_keep_what_the_other_kept(tmp_path: Path) -> None:
    one, other = (InventoryMemory(tmp_path / "f") for _ in range(2))
    one.keep("a", "1")
    other.keep("b", "2")

    assert [InventoryMemory(tmp_path / "f").recall(name) for name in "ab"] == ["1", "2"]


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b'{"a": 1}', b"\xff", b"[" * 9999, b'{"a":"' + b"x" * 99999]
)
def test_file_that_is_not_ours_is_as_good_as_none_and_replaced(
    tmp_path: Path, content: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "f").write_bytes(content)
    memory = InventoryMemory(tmp_path / "f")

    assert memory.recall("a") is None
    memory.keep("a", "1")
    assert InventoryMemory(tmp_path / "f").recall("a") == "1"


@given(st.binary(max_size=200))
def test_no_content_is_an_error(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    file = tmp_path_factory.getbasetemp() / "any"
    file.write_bytes(content)
    InventoryMemory(file).recall("a")


def test_without_a_folder_it_lasts_as_long_as_the_process(tmp_path: Path) -> None:
    memory = InventoryMemory(tmp_path / "gone" / "f")
    memory.keep("a", "1")

    assert memory.recall("a") == "1"
    assert InventoryMemory(tmp_path / "gone" / "f").recall("a") is None
