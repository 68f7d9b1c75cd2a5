"""No hardware is served by two resources at once, nor by two processes."""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accelet.accelerators.device import Device, DeviceId, UnitId
from accelet.accelerators.inventory import Inventory
from accelet.node.namelocks import NameLocks
from accelet.node.unitlocks import UnitLocks

SERVE_UNTIL_KILLED = """
import sys
from pathlib import Path
from accelet.node.unitlocks import UnitLocks
from tests.unit.node.test_unitlocks import found, locks_in
locks = locks_in(Path(sys.argv[1]))
locks.take("one", found("a"))
print("serving", flush=True)
sys.stdin.read()
"""


def found(*units: str) -> Inventory:
    return Inventory(tuple(Device(DeviceId(f"{unit}-s0"), UnitId(unit)) for unit in units))


def units(inventory: Inventory) -> list[str]:
    return [device.unit for device in inventory.devices]


def reasons(inventory: Inventory) -> list[tuple[str, str, str]]:
    return [(skipped.path, skipped.code, skipped.reason) for skipped in inventory.skipped]


def locks_in(folder: Path) -> UnitLocks:
    """Locks as another process would have them: each object opens the files for itself."""
    return UnitLocks(NameLocks(folder / "locks"))


def test_first_to_find_a_unit_keeps_it_and_the_other_says_why_not() -> None:
    locks = UnitLocks()
    assert units(locks.take("one", found("a", "b"))) == ["a", "b"]
    second = locks.take("two", found("b", "c"))
    assert units(second) == ["c"]
    assert reasons(second) == [("b", "served-elsewhere", "the resource one serves it already")]
    assert units(locks.take("one", found("a", "b"))) == ["a", "b"]


def test_unit_that_is_no_longer_found_is_free_for_the_other() -> None:
    locks = UnitLocks()
    locks.take("one", found("a", "b"))
    locks.take("one", found("a"))
    assert units(locks.take("two", found("b"))) == ["b"]


def test_resource_that_is_served_no_more_frees_its_units() -> None:
    locks = UnitLocks()
    locks.take("one", found("a"))
    locks.release("one")
    assert units(locks.take("two", found("a"))) == ["a"]


def test_unit_of_another_process_is_skipped_and_said_so_until_that_frees_it(tmp_path: Path) -> None:
    old, new = locks_in(tmp_path), locks_in(tmp_path)
    old.take("one", found("a", "b"))
    second = new.take("one", found("a", "b", "c"))
    assert units(second) == ["c"]
    assert reasons(second) == [
        (unit, "served-elsewhere", "another process on this node serves it already") for unit in ("a", "b")
    ]
    old.take("one", found("b"))
    assert units(new.take("one", found("a", "b", "c"))) == ["a", "c"]
    old.release("one")
    assert units(new.take("one", found("a", "b", "c"))) == ["a", "b", "c"]


def test_killed_process_frees_its_units(tmp_path: Path) -> None:
    locks = locks_in(tmp_path)
    with subprocess.Popen(
        [sys.executable, "-c", SERVE_UNTIL_KILLED, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as serving:
        assert serving.stdout is not None
        assert serving.stdout.readline() == "serving\n"
        assert units(locks.take("two", found("a", "b"))) == ["b"]
        serving.kill()
        serving.wait()
        assert units(locks.take("two", found("a", "b"))) == ["a", "b"]


@pytest.mark.parametrize("is_replaced", [False, True], ids=["removed", "replaced"])
def test_who_removes_the_files_takes_no_unit_from_its_holder(tmp_path: Path, is_replaced: bool) -> None:
    old, new = locks_in(tmp_path), locks_in(tmp_path)
    old.take("one", found("a"))
    (file,) = (tmp_path / "locks").iterdir()
    shutil.rmtree(tmp_path / "locks")
    if is_replaced:
        file.parent.mkdir()
        file.touch()
    assert units(old.take("one", found("a"))) == ["a"]
    assert units(new.take("one", found("a"))) == []


def test_of_two_who_got_one_unit_while_the_files_were_gone_only_the_second_keeps_it(tmp_path: Path) -> None:
    old, new = locks_in(tmp_path), locks_in(tmp_path)
    old.take("one", found("a", "b"))
    shutil.rmtree(tmp_path / "locks")
    assert units(new.take("one", found("a"))) == ["a"]
    assert units(old.take("one", found("a", "b"))) == ["b"]
    assert units(new.take("one", found("a", "b"))) == ["a"]


def test_folder_that_is_gone_for_a_moment_costs_no_unit(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    locks = locks_in(folder)
    locks.take("one", found("a"))
    shutil.rmtree(folder)
    assert units(locks.take("one", found("a"))) == ["a"]
    folder.mkdir()
    assert units(locks.take("one", found("a"))) == ["a"]
    assert units(locks_in(folder).take("one", found("a"))) == []


def test_without_a_place_for_the_files_nothing_is_served(tmp_path: Path) -> None:
    locks = locks_in(tmp_path / "nowhere")
    with pytest.raises(FileNotFoundError):
        locks.take("one", found("a"))
    (tmp_path / "nowhere").mkdir()
    assert units(locks.take("one", found("a"))) == ["a"]


ACTS = st.tuples(
    st.integers(0, 1),
    st.sampled_from(["one", "two"]),
    st.none() | st.frozensets(st.sampled_from("abcd\udc80")),
)


@given(st.lists(ACTS, max_size=30))
def test_no_unit_is_ever_served_twice(acts: list[tuple[int, str, frozenset[str] | None]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        processes = [locks_in(Path(folder)), locks_in(Path(folder))]
        served: dict[tuple[int, str], set[str]] = {}
        for process, resource, wanted in acts:
            if wanted is None:
                processes[process].release(resource)
                served[process, resource] = set()
            else:
                inventory = processes[process].take(resource, found(*sorted(wanted)))
                served[process, resource] = set(units(inventory))
                assert {one.unit for one in inventory.skipped} == wanted - served[process, resource]
            everything = [unit for each in served.values() for unit in each]
            assert len(everything) == len(set(everything))
