"""Files are whole or not there."""

import resource
from pathlib import Path

import pytest

from accelet.runtime.statefile import append_whole, read_whole, remove_temporaries, write_whole


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_what_was_written_takes_the_place_of_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "state"
    write_whole(path, b"one")
    write_whole(path, b"two")
    assert path.read_bytes() == b"two"
    assert names(tmp_path) == ["state"]
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_write_that_fails_leaves_the_old_content_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "state"
    path.mkdir()  # a folder's place cannot be taken by a file
    with pytest.raises(OSError, match="state"):
        write_whole(path, b"new")
    assert names(tmp_path) == ["state"]


def test_what_is_not_there_is_none(tmp_path: Path) -> None:
    assert read_whole(tmp_path / "state", 10) is None


def test_what_is_added_follows_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "state"
    write_whole(path, b"one")
    found = append_whole(path, b" two")
    assert (path.read_bytes(), found.st_size, found.st_ino) == (b"one two", 7, path.stat().st_ino)
    with pytest.raises(FileNotFoundError):
        append_whole(tmp_path / "another", b"x")


def test_what_does_not_go_in_whole_is_taken_back(tmp_path: Path) -> None:
    path = tmp_path / "state"
    write_whole(path, b"one")
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (5, before[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            append_whole(path, b" and two")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert path.read_bytes() == b"one"


def test_no_more_is_read_than_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "state"
    write_whole(path, b"x" * 100)
    assert read_whole(path, 10) == b"x" * 11


def test_what_a_cut_short_write_left_is_swept_and_the_files_of_others_are_not(tmp_path: Path) -> None:
    for name in (".state.ab12.tmp", ".other.ab12.tmp", "state"):
        (tmp_path / name).write_text("x")
    remove_temporaries(tmp_path, "state")
    assert names(tmp_path) == [".other.ab12.tmp", "state"]
