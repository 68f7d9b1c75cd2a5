import os
import stat
from pathlib import Path

from accelet.accelerators.discarded import discarded_name, remove_discarded
from accelet.accelerators.edits import ContainerEdits, Folder, Mount
from accelet.accelerators.folders import prepare_folders

PARENT = "/tmp/tpu_logs"
LOGS = f"{PARENT}/chip-0"
EDITS = ContainerEdits(
    mounts=(Mount("/opt/lib", "/opt/lib"), Mount(LOGS, "/tmp/tpu_logs", read_only=False)),
    folders=(Folder(LOGS),),
)


def test_missing_folder_is_made_for_any_user_to_write(tmp_path: Path) -> None:
    edits, faults = prepare_folders(EDITS, tmp_path)

    assert (edits, faults) == (EDITS, ())
    assert stat.S_IMODE((tmp_path / "tmp/tpu_logs/chip-0").stat().st_mode) == 0o1777
    assert stat.S_IMODE((tmp_path / "tmp/tpu_logs").stat().st_mode) == 0o755


def test_what_the_last_container_left_is_set_aside_once(tmp_path: Path) -> None:
    folder = tmp_path / "tmp/tpu_logs/chip-0"
    for text in ("first", "second", "third"):
        prepare_folders(EDITS, tmp_path)
        assert list(folder.iterdir()) == []
        (folder / "log").write_text(text)

    assert (folder.with_name("chip-0.previous") / "log").read_text() == "second"
    assert remove_discarded([PARENT], tmp_path, within_s=60) == ()
    assert {entry.name for entry in folder.parent.iterdir()} == {"chip-0", "chip-0.previous"}


def test_call_removes_nothing_and_what_it_discards_is_removed_later(tmp_path: Path) -> None:
    folder = tmp_path / "tmp/tpu_logs/chip-0"
    for _ in range(2):
        prepare_folders(EDITS, tmp_path)
        (folder / "log").write_text("first")
    deepest = os.open(folder.with_name("chip-0.previous"), os.O_RDONLY)
    for _ in range(3000):
        os.mkdir("d", dir_fd=deepest)
        inner = os.open("d", os.O_RDONLY, dir_fd=deepest)
        os.close(deepest)
        deepest = inner
    try:
        assert prepare_folders(EDITS, tmp_path) == (EDITS, ())
        assert os.fstat(deepest).st_nlink > 0
        assert remove_discarded([PARENT], tmp_path, within_s=60) == ()
        assert os.fstat(deepest).st_nlink == 0
    finally:
        os.close(deepest)
    assert {entry.name for entry in folder.parent.iterdir()} == {"chip-0", "chip-0.previous"}


def test_process_that_still_writes_loses_nothing(tmp_path: Path) -> None:
    prepare_folders(EDITS, tmp_path)
    with (tmp_path / "tmp/tpu_logs/chip-0/log").open("w") as log:
        prepare_folders(EDITS, tmp_path)
        log.write("still here")

    assert (tmp_path / "tmp/tpu_logs/chip-0.previous/log").read_text() == "still here"


def test_empty_folder_is_kept_as_it_is(tmp_path: Path) -> None:
    prepare_folders(EDITS, tmp_path)
    before = (tmp_path / "tmp/tpu_logs/chip-0").stat().st_ino

    prepare_folders(EDITS, tmp_path)

    assert (tmp_path / "tmp/tpu_logs/chip-0").stat().st_ino == before
    assert not (tmp_path / "tmp/tpu_logs/chip-0.previous").exists()


def test_folder_that_cannot_be_made_costs_its_mount_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "tmp").write_text("in the way")

    edits, faults = prepare_folders(EDITS, tmp_path)

    assert edits.mounts == (Mount("/opt/lib", "/opt/lib"),)
    assert faults == (
        "the folder /tmp/tpu_logs/chip-0 could not be made (Not a directory): the container goes without it",
    )


def test_link_in_the_way_is_not_followed(tmp_path: Path) -> None:
    secret = tmp_path / "etc"
    secret.mkdir()
    (secret / "key").write_text("secret")
    (tmp_path / "tmp/tpu_logs").mkdir(parents=True)
    (tmp_path / "tmp/tpu_logs/chip-0").symlink_to(secret)

    edits, faults = prepare_folders(EDITS, tmp_path)

    assert [mount.host_path for mount in edits.mounts] == ["/opt/lib"]
    assert len(faults) == 1
    assert [entry.name for entry in secret.iterdir()] == ["key"]


def test_more_folders_than_are_looked_at_together_are_removed(tmp_path: Path) -> None:
    discarded = tmp_path / discarded_name("chip-0")
    for index in range(1200):
        (discarded / f"a/{index}/b").mkdir(parents=True)

    assert remove_discarded(["/"], tmp_path, within_s=60) == ()

    assert list(tmp_path.iterdir()) == []


def test_what_there_is_no_time_for_is_left_for_the_next_time(tmp_path: Path) -> None:
    discarded = tmp_path / discarded_name("chip-0")
    discarded.mkdir()
    for index in range(10):
        (discarded / str(index)).touch()
    seconds = iter(range(100))

    assert remove_discarded(["/"], tmp_path, 4, now=lambda: next(seconds)) == ()
    assert len(list(discarded.iterdir())) == 6
    assert remove_discarded(["/"], tmp_path, within_s=60) == ()
    assert list(tmp_path.iterdir()) == []


def test_neither_where_links_lead_nor_other_names_are_removed(tmp_path: Path) -> None:
    discarded = tmp_path / "logs" / discarded_name("chip-0")
    discarded.mkdir(parents=True)
    kept = tmp_path / "logs/chip-0.previous"
    kept.mkdir()
    (kept / "log").touch()
    (discarded / "link").symlink_to(kept)
    discarded.with_name(discarded_name("link")).symlink_to(kept)

    assert remove_discarded(["/logs"], tmp_path, within_s=60) == ()

    assert list(kept.parent.iterdir()) == [kept]
    assert (kept / "log").exists()


def test_folder_that_cannot_be_looked_at_is_told_and_costs_no_other(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    discarded = tmp_path / "logs" / discarded_name("chip-0")
    discarded.mkdir(parents=True)

    faults = remove_discarded(["/file", "/nowhere", "/logs"], tmp_path, within_s=60)

    assert faults == ("/file could not be looked at (Not a directory)",)
    assert not discarded.exists()
