from pathlib import Path

import pytest

from accelet.accelerators.intel.match import CardMatch
from accelet.accelerators.intel.monitoring import MonitoringMode, MonitoringSettings, monitoring_resources
from accelet.accelerators.inventory import Inventory
from accelet.accelerators.settings import overlap
from accelet.fakehost.gpus import Gpu, write_gpus
from accelet.fakehost.nodes import MIXED, SICK, SRIOV


def scan(root: Path, *gpus: Gpu, driver: str | None = None) -> Inventory:
    write_gpus(root, gpus)
    return MonitoringSettings(driver=driver).backend().scan(root)


def nodes(inventory: Inventory) -> set[str]:
    return {node.host_path for device in inventory.devices for node in device.nodes}


def test_one_device_shows_every_card(tmp_path: Path) -> None:
    inventory = scan(tmp_path, *MIXED)
    assert [device.id for device in inventory.devices] == ["monitoring-all"]
    assert nodes(inventory) == {node for gpu in MIXED for node in gpu.nodes}
    assert inventory.devices[0].numa_nodes == ()
    assert inventory.devices[0].mounts == ()


@pytest.mark.parametrize("driver", ["i915", "xe"])
def test_split_by_driver_it_shows_that_drivers_cards(tmp_path: Path, driver: str) -> None:
    inventory = scan(tmp_path, *MIXED, driver=driver)
    assert [device.id for device in inventory.devices] == [f"monitoring-{driver}-all"]
    assert nodes(inventory) == {node for gpu in MIXED if gpu.driver == driver for node in gpu.nodes}


def test_only_cards_that_one_of_its_matches_fits_are_shown(tmp_path: Path) -> None:
    write_gpus(tmp_path, MIXED)
    first, *_, last = MIXED
    assert first.driver != last.driver
    assert last.driver is not None
    by_driver, by_address = CardMatch(driver=(last.driver,)), CardMatch(id=first.pci)
    both = MonitoringSettings(match=(by_driver, by_address)).backend().scan(tmp_path)
    wanted = [gpu for gpu in MIXED if gpu.driver == last.driver or gpu is first]
    assert nodes(both) == {node for gpu in wanted for node in gpu.nodes}
    assert [device.id for device in both.devices] == ["monitoring-all"]
    of_driver = MonitoringSettings(driver=first.driver, match=(by_driver, by_address)).backend()
    assert nodes(of_driver.scan(tmp_path)) == set(first.nodes)
    of_none = MonitoringSettings(match=(CardMatch(device_id=("0xffff",)),))
    assert of_none.backend().scan(tmp_path).devices == ()


def test_a_sick_card_is_shown_and_the_device_stays_healthy(tmp_path: Path) -> None:
    inventory = scan(tmp_path, *SICK)
    assert nodes(inventory) == {node for gpu in SICK for node in gpu.nodes}
    assert inventory.devices[0].health.is_healthy


def test_a_physical_function_with_virtual_ones_is_not_shown(tmp_path: Path) -> None:
    assert not nodes(scan(tmp_path, *SRIOV)) & set(SRIOV[0].nodes)


def test_management_engines_are_shown_where_the_host_has_them(tmp_path: Path) -> None:
    write_gpus(tmp_path, [Gpu(0, "0000:03:00.0", mei="mei1"), Gpu(1, "0000:04:00.0", mei="mei2")])
    (tmp_path / "dev/mei2").unlink()
    found = nodes(MonitoringSettings().backend().scan(tmp_path))
    assert "/dev/mei1" in found
    assert "/dev/mei2" not in found


def test_a_node_without_cards_has_no_monitoring_device(tmp_path: Path) -> None:
    assert scan(tmp_path).devices == ()
    assert scan(tmp_path, *MIXED[2:], driver="i915").devices == ()


@pytest.mark.parametrize(
    ("mode", "names"),
    [
        ("none", []),
        ("single", ["gpu.intel.com/monitoring"]),
        ("split", ["gpu.intel.com/i915_monitoring", "gpu.intel.com/xe_monitoring"]),
    ],
)
def test_modes_stand_for_intels_names(mode: MonitoringMode, names: list[str]) -> None:
    assert [name for name, _ in monitoring_resources(mode)] == names


def test_ids_differ_between_all_modes(tmp_path: Path) -> None:
    write_gpus(tmp_path, MIXED)
    modes: list[MonitoringMode] = ["single", "split"]
    resources = [chosen for mode in modes for _, chosen in monitoring_resources(mode)]
    ids = [device.id for chosen in resources for device in chosen.backend().scan(tmp_path).devices]
    assert len(set(ids)) == len(ids) == 3
    assert overlap(MonitoringSettings(), MonitoringSettings())
    assert not overlap(*[chosen for _, chosen in monitoring_resources("split")])
