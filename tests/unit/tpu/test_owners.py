import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

from accelet.accelerators.device import DeviceId
from accelet.accelerators.inventory import Inventory, Owner
from accelet.accelerators.tpu import TpuBackend, TpuSettings, stale_owners
from tests.synthetic.tpu import HOSTS

CHIP = DeviceId("0000-80-01.0")


def write_process(root: Path, pid: int, *opened: str) -> None:
    folder = root / f"proc/{pid}/fd"
    folder.mkdir(parents=True)
    (folder.parent / "comm").write_text("python3\n")
    for number, path in enumerate(opened):
        (folder / str(number)).symlink_to(path)


def scan(root: Path, *, check_owners: bool) -> Inventory:
    return TpuBackend(TpuSettings(check_owners=check_owners)).scan(root)


def test_process_that_has_a_chip_open_is_found_where_asked_for(tmp_path: Path) -> None:
    HOSTS["v5e-8"].write(tmp_path)
    write_process(tmp_path, 41, "/dev/null", "/dev/vfio/vfio")
    write_process(tmp_path, 4711, "/dev/vfio/vfio", "/dev/vfio/5", "/dev/vfio/5")
    (tmp_path / "proc/self").mkdir()

    assert scan(tmp_path, check_owners=True).owners == (Owner(CHIP, 4711, "python3"),)
    assert scan(tmp_path, check_owners=False).owners == ()


def test_owner_of_a_chip_that_no_container_holds_is_stale() -> None:
    owners = (Owner(CHIP, 4711, "python3"),)

    assert stale_owners(owners, held={CHIP}) == ()
    assert stale_owners(owners, held=set()) == (
        (
            "0000-80-01.0 is free, but process 4711 (python3) has it open: "
            "a container that gets it cannot start its TPU until that process ends"
        ),
    )


def test_process_that_ends_meanwhile_is_passed_over(tmp_path: Path) -> None:
    HOSTS["v5e-8"].write(tmp_path)
    (tmp_path / "proc/99").mkdir(parents=True)

    inventory = scan(tmp_path, check_owners=True)

    assert inventory.owners == ()
    assert inventory.warnings == ()


@contextmanager
def unprivileged() -> Iterator[None]:
    """As a user who sees only their own: root gives its rights away for a while."""
    mine = os.geteuid()
    if mine == 0:
        os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(mine)


def test_processes_that_cannot_be_seen_are_counted() -> None:
    with TemporaryDirectory() as folder:
        root = Path(folder)
        root.chmod(0o755)
        HOSTS["v5e-8"].write(root)
        write_process(root, 7)
        (root / "proc/7/fd").chmod(0)
        with unprivileged():
            inventory = scan(root, check_owners=True)

    assert len(inventory.devices) == 8
    assert inventory.warnings == (
        (
            "check_owners is on, but not every process shows its open files (hidden: 1): "
            "the agent needs hostPID and CAP_SYS_PTRACE"
        ),
    )
