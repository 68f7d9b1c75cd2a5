import stat
from pathlib import Path

from accelet.accelerators.edits import ContainerEdits, Folder, Mount
from accelet.accelerators.folders import prepare_folders

LOGS = "/tmp/tpu_logs/chip-0"
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
