"""A folder to mount on stays as long as a run uses it. No cluster is started here."""

import os
from pathlib import Path

from tests.e2e.cluster.mount_points import MountPointClaim, reserve


def test_last_user_removes_a_folder_that_a_run_has_made(tmp_path: Path) -> None:
    folder = tmp_path / "kubelet"
    first = reserve(folder)
    second = reserve(folder)

    os.close(first)
    MountPointClaim(str(folder)).release()
    assert folder.exists()

    os.close(second)
    MountPointClaim(str(folder)).release()
    assert not folder.exists()


def test_folder_of_the_machine_stays(tmp_path: Path) -> None:
    folder = tmp_path / "kubelet"
    folder.mkdir()

    os.close(reserve(folder))
    MountPointClaim(str(folder)).release()

    assert list(folder.iterdir()) == []


def test_folder_with_something_in_it_stays(tmp_path: Path) -> None:
    folder = tmp_path / "kubelet"
    os.close(reserve(folder))
    (folder / "config.yaml").touch()

    MountPointClaim(str(folder)).release()

    assert (folder / "config.yaml").exists()
