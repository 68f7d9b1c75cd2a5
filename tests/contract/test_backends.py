"""What every back-end must do, whatever its hardware."""

import random
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accelet.accelerators.backend import Backend
from accelet.accelerators.device import DEVICE_ID_PATTERN, Device
from accelet.accelerators.inventory import Inventory
from accelet.accelerators.settings import overlap
from tests.contract.cases import CASES, Case

every_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


@pytest.fixture
def root(tmp_path: Path, case: Case) -> Path:
    case.write(tmp_path)
    return tmp_path


@pytest.fixture
def backend(case: Case) -> Backend:
    return case.read_settings().backend()


@pytest.fixture
def inventory(backend: Backend, root: Path) -> Inventory:
    return backend.scan(root)


def usable_set(case: Case, backend: Backend, inventory: Inventory) -> list[Device]:
    valid = backend.valid_sets(inventory, case.size)
    if valid is None:
        return list(inventory.devices[: case.size])
    return [inventory.by_id[device_id] for device_id in sorted(valid[0])]


@every_case
def test_finds_its_devices(case: Case, inventory: Inventory) -> None:
    assert len(inventory.devices) >= case.size


@every_case
def test_settings_are_free_of_problems_and_overlap_themselves(case: Case) -> None:
    assert case.read_settings().problems() == ()
    assert overlap(case.read_settings(), case.read_settings())


@every_case
def test_ids_are_unique_and_survive_every_consumer(inventory: Inventory) -> None:
    ids = [device.id for device in inventory.devices]
    assert len(set(ids)) == len(ids)
    assert all(DEVICE_ID_PATTERN.fullmatch(device_id) for device_id in ids)
    assert all(DEVICE_ID_PATTERN.fullmatch(device.unit) for device in inventory.devices)


@every_case
def test_ids_survive_a_renumbering(case: Case, backend: Backend, inventory: Inventory, root: Path) -> None:
    case.rewrite(root)
    again = backend.scan(root)
    assert [device.id for device in again.devices] == [device.id for device in inventory.devices]
    assert [device.unit for device in again.devices] == [device.unit for device in inventory.devices]


@every_case
def test_two_scans_of_one_node_are_equal(backend: Backend, inventory: Inventory, root: Path) -> None:
    assert backend.scan(root) == inventory


@every_case
def test_order_is_by_unit_then_tile_then_share(inventory: Inventory) -> None:
    units = [device.unit for device in inventory.devices]
    assert len(_runs(units)) == len(set(units)), "the devices of a unit are side by side"
    for one, two in pairwise(inventory.devices):
        if one.unit == two.unit:
            assert (one.tile or 0, one.share or 0) < (two.tile or 0, two.share or 0)


def _runs(units: Sequence[str]) -> list[str]:
    return [unit for index, unit in enumerate(units) if index == 0 or units[index - 1] != unit]


@every_case
def test_paths_are_the_hosts_own(inventory: Inventory, root: Path) -> None:
    for device in inventory.devices:
        for path in (
            *(node.host_path for node in device.nodes),
            *(node.container_path for node in device.nodes),
            *(mount.host_path for mount in device.mounts),
            *(mount.container_path for mount in device.mounts),
        ):
            assert path.startswith("/")
            assert not path.startswith(str(root))
    assert all(not skip.path.startswith(str(root)) for skip in inventory.skipped)


@every_case
def test_shares_and_tiles_of_a_unit_agree_on_the_unit(inventory: Inventory) -> None:
    by_unit: dict[str, set[object]] = {}
    for device in inventory.devices:
        facts = (device.pci, device.card, device.tile_count, device.numa_nodes, device.nodes, device.health)
        by_unit.setdefault(device.unit, set()).add(facts)
    assert all(len(facts) == 1 for facts in by_unit.values())


@every_case
def test_reasons_are_codes_and_sentences(inventory: Inventory) -> None:
    for skip in inventory.skipped:
        assert skip.code == skip.code.lower().replace(" ", "-")
        assert len(skip.reason.split()) >= 3


@every_case
def test_edits_do_not_depend_on_order(case: Case, backend: Backend, inventory: Inventory) -> None:
    devices = usable_set(case, backend, inventory)
    expected = backend.edits(inventory, devices, {}, {})
    for seed in range(5):
        shuffled = random.Random(seed).sample(devices, len(devices))
        assert backend.edits(inventory, shuffled, {}, {}) == expected


@every_case
def test_edits_name_each_path_once(case: Case, backend: Backend, inventory: Inventory) -> None:
    edits = backend.edits(inventory, usable_set(case, backend, inventory), {}, {})
    nodes = [node.container_path for node in edits.nodes]
    mounts = [mount.container_path for mount in edits.mounts]
    assert len(set(nodes)) == len(nodes)
    assert len(set(mounts)) == len(mounts)
    assert nodes or mounts or edits.cdi_names
    assert len(set(edits.cdi_names)) == len(edits.cdi_names)
    assert all(set(node.permissions) <= set("rwm") for node in edits.nodes)


@every_case
def test_an_empty_host_has_no_hardware_and_no_failure(case: Case, backend: Backend, tmp_path: Path) -> None:
    empty = tmp_path / "nothing"
    empty.mkdir()
    if case.backend != "simulated":
        assert backend.scan(empty).devices == ()


@every_case
@settings(max_examples=settings().max_examples // 10)
@given(seed=st.integers(min_value=0, max_value=2**32))
def test_damaged_files_lose_no_scan_and_no_valid_id(case: Case, seed: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        case.write(root)
        backend = case.read_settings().backend()
        whole = {device.id for device in backend.scan(root).devices}
        _damage(root, random.Random(seed))
        found = backend.scan(root)
        ids = [device.id for device in found.devices]
        assert len(set(ids)) == len(ids)
        assert all(DEVICE_ID_PATTERN.fullmatch(device_id) for device_id in ids)
        assert len(whole) >= case.size


def _damage(root: Path, dice: random.Random) -> None:
    """Removes, empties, fills with rubbish or turns round a few things below the folders of the devices."""
    for path in dice.sample(sorted(_damageable(root)), k=min(3, len(list(_damageable(root))))):
        if not path.is_symlink() and not path.exists():
            continue
        kind = dice.choice(("remove", "empty", "rubbish", "folder", "loop", "huge"))
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
        if kind == "empty":
            path.touch()
        elif kind == "rubbish":
            path.write_bytes(dice.randbytes(40))
        elif kind == "folder":
            path.mkdir()
        elif kind == "loop":
            path.symlink_to(path.name)
        elif kind == "huge":
            path.write_text("9" * 5000)


def _damageable(root: Path) -> Iterator[Path]:
    """Everything but the folders whose loss is the loss of the whole scan."""
    listed = ("sys", "sys/class", "sys/class/drm", "sys/bus", "sys/bus/pci", "sys/bus/pci/devices")
    whole = {root / name for name in listed}
    return (path for path in root.rglob("*") if path not in whole)
