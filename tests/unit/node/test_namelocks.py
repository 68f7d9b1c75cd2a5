"""What is locked and what is said to be locked stay the same, whatever becomes of the files."""

import shutil
from pathlib import Path

import pytest

from accelet.node.namelocks import NameLocks


def refuse_new_files(folder: Path) -> None:
    """Opening a file of the folder fails from here on, other than by its absence."""
    names = [file.name for file in folder.iterdir()]
    shutil.rmtree(folder)
    folder.mkdir()
    for name in names:
        (folder / name).mkdir()


def test_names_of_a_file_that_cannot_be_locked_again_are_lost_and_can_be_unlocked(tmp_path: Path) -> None:
    folder = tmp_path / "locks"
    locks = NameLocks(folder)
    assert locks.lock("a")
    refuse_new_files(folder)

    assert locks.renew() == {"a"}
    assert locks.renew() == frozenset()
    locks.unlock("a")


def test_one_file_that_fails_costs_no_other_its_names(tmp_path: Path) -> None:
    folder = tmp_path / "locks"
    locks, others = NameLocks(folder), NameLocks(folder)
    for name in ("a", "b"):
        assert locks.lock(name)
    first, second = folder.iterdir()
    first.unlink()
    first.mkdir()
    second.unlink()

    (lost,) = locks.renew()

    (kept,) = {"a", "b"} - {lost}
    assert not others.lock(kept)
    first.rmdir()
    assert locks.lock(lost)
    assert not others.lock(lost)


def test_unit_whose_lock_is_lost_is_not_served_on_the_strength_of_the_removed_file(tmp_path: Path) -> None:
    folder = tmp_path / "locks"
    locks = NameLocks(folder)
    assert locks.lock("a")
    refuse_new_files(folder)
    locks.renew()

    with pytest.raises(IsADirectoryError):
        locks.lock("a")


def test_no_file_stays_open_without_a_lock(tmp_path: Path) -> None:
    folder = tmp_path / "locks"
    locks, others = NameLocks(folder), NameLocks(folder)
    names = [f"unit-{number}" for number in range(300)]
    for name in names:
        assert locks.lock(name)
        assert not others.lock(name)
    assert len(_open_files(folder)) == len(list(folder.iterdir()))
    for name in names:
        locks.unlock(name)
    assert _open_files(folder) == []
    assert others.lock(names[0])


def _open_files(folder: Path) -> list[Path]:
    targets = [entry.readlink() for entry in Path("/proc/self/fd").iterdir() if entry.is_symlink()]
    return [target for target in targets if target.is_relative_to(folder)]
